"""LoRA adapters: the product beside a frozen matrix, the same as a merged matrix, on any projections."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import ModelRecipe
from dragoman.errors import ShapeError
from dragoman.models import Transformer
from dragoman.nn.linear import Linear
from dragoman.nn.lora import LoraLinear, add_adapters, trained_weights
from raising import raises

RECIPE = ModelRecipe(d_model=12, n_heads=3, d_ff=20, encoder_layers=1, decoder_layers=2, dropout=0.0)
SOURCE, TARGET = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 9, 10], [1, 11, 0]])


def adapted(rank: int = 3, projections: tuple[str, ...] = ()) -> Transformer:
    torch.manual_seed(2)
    model = Transformer(RECIPE, 15)
    add_adapters(model, rank, 1.5, projections)
    for name, weight in trained_weights(model).items():
        if name.endswith("lora_b"):
            weight.normal_()
    return model


def test_the_layer_by_hand() -> None:
    torch.manual_seed(1)
    base = Linear(5, 7)
    layer, x = LoraLinear(base, 2, 0.5), torch.randn(3, 5)
    torch.testing.assert_close(layer(x), base(x), rtol=0, atol=0)  # it starts unchanged
    torch.nn.init.normal_(layer.lora_b)
    for row, y in zip(x, layer(x), strict=True):
        for i in range(7):
            low = sum(layer.lora_b[i, r] * (layer.lora_a[r] @ row) for r in range(2))
            torch.testing.assert_close(y[i], base.weight[i] @ row + base.bias[i] + 0.5 * low)


def test_a_model_with_adapters_is_the_model_with_merged_weights() -> None:
    model, weights = adapted(), {}
    state = model.state_dict()
    for name, weight in state.items():
        layer, _, part = name.rpartition(".")
        if part in ("weight", "bias") or "lora" not in part:
            product = state[f"{layer}.lora_b"] @ state[f"{layer}.lora_a"] if f"{layer}.lora_a" in state else 0
            weights[name] = weight + (1.5 * product if part == "weight" else 0)
    merged = Transformer(RECIPE, 15)
    merged.load_state_dict(weights)
    torch.testing.assert_close(model(SOURCE, TARGET), merged(SOURCE, TARGET), rtol=1e-5, atol=1e-5)


def test_only_adapters_get_gradients() -> None:
    model = adapted()
    model(SOURCE, TARGET).square().sum().backward()
    found = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert found == set(trained_weights(model)) == {n for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(("projections", "layers"), [((), 3 * 4 + 2 * 3), (("qkv",), 3), (("query", "inner"), 5)])
def test_any_projections(projections: tuple[str, ...], layers: int) -> None:
    weights = trained_weights(adapted(4, projections))
    assert len(weights) == 2 * layers
    assert {min(weight.shape) for weight in weights.values()} == {4}


def test_an_unknown_projection() -> None:
    with raises(ShapeError, "unknown_choice", "'keys'", "qkv"):
        adapted(2, ("keys",))


def test_without_adapters_all_weights_are_trained() -> None:
    model = Transformer(RECIPE, 15)
    assert trained_weights(model).keys() == model.state_dict().keys()
