"""The convolutional model against PyTorch's convolutions, and against loops written from its paper's equations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman import AttentionMaps
from dragoman.config import ModelRecipe
from dragoman.errors import ShapeError
from dragoman.models import Convolutional
from dragoman.models.convolutional import DecoderLayer, EncoderLayer, GatedConvolution
from dragoman.models.source import EncodedSource
from dragoman.nn import Padded, sinusoid
from raising import raises

RECIPE = ModelRecipe(
    architecture="convolutional", d_model=6, encoder_layers=3, decoder_layers=2, dropout=0.0, max_positions=20
)
VOCABULARY = 13


def moved(model: Convolutional) -> Convolutional:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def as_conv1d(convolution: GatedConvolution) -> Tensor:
    """The matrix `[2 D, k D]` as PyTorch's `[2 D, D, k]`."""
    weight = convolution.windows.weight
    return weight.view(len(weight), convolution.width, -1).transpose(1, 2)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_windows_are_pytorchs_convolution_then_a_gated_linear_unit(width: int) -> None:
    convolution = GatedConvolution(7, width, 0.0)
    torch.nn.init.normal_(convolution.windows.bias)
    x = torch.randn(2, 9, 7)
    expected = F.glu(F.conv1d(x.mT, as_conv1d(convolution), convolution.windows.bias), dim=1).mT
    torch.testing.assert_close(convolution(x), expected)


def test_an_encoder_layer_sees_as_far_to_both_sides_and_zeros_beyond() -> None:
    layer, x, lengths = EncoderLayer(7, 5, 0.0), torch.randn(3, 6, 7), torch.tensor([4, 6, 1])
    y = layer(x, torch.arange(6) < lengths[:, None])
    for row, n in enumerate(lengths.tolist()):
        alone = x[row, :n].T[None]
        gated = F.glu(F.conv1d(alone, as_conv1d(layer.convolution), layer.convolution.windows.bias, padding=2), dim=1)
        torch.testing.assert_close(y[row, :n], ((alone + gated) / 2**0.5)[0].T)


def test_a_decoder_layer_sees_what_was_written_and_remembers_it() -> None:
    layer, x, words = DecoderLayer(7, 3, 0.0, 0.0), torch.randn(2, 5, 7), torch.randn(2, 5, 7)
    source = EncodedSource.of(torch.randn(2, 4, 7), torch.randn(2, 4, 7), Padded(4))
    whole, last = layer(x, torch.zeros(2, 2, 7), words, source)
    assert torch.equal(last, x[:, 3:])
    past, parts = torch.zeros(2, 2, 7), []
    for t in range(5):
        y, past = layer(x[:, t : t + 1], past, words[:, t : t + 1], source)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def by_hand(model: Convolutional, source: list[int], target: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Logits and attention of one pair, one position at a time, as in sections 3.2 to 3.5 of Gehring et al. (2017)."""
    recipe, modules = model.recipe, dict(model.named_modules())
    d, k = recipe.d_model, recipe.kernel_width
    table = model.embeddings.tables["shared"]

    def embed(ids: list[int], positions: Any) -> list[Tensor]:
        codes = positions.table if recipe.positions == "learned" else sinusoid(torch.arange(len(ids)), d)
        return [table[i] * d**0.5 + codes[place] for place, i in enumerate(ids)]

    def gated(name: str, window: list[Tensor]) -> Tensor:
        linear: Any = modules[name + ".convolution.windows"]
        y = linear.weight @ torch.cat(window) + linear.bias
        return y[:d] * torch.sigmoid(y[d:])

    nothing, half = [torch.zeros(d)], 0.5**0.5
    e = embed(source, model.source_positions)
    z = e
    for layer in range(recipe.encoder_layers):
        wide = nothing * (k // 2) + z + nothing * (k // 2)
        z = [(x + gated(f"encoder.{layer}", wide[i : i + k])) * half for i, x in enumerate(z)]
    g = embed(target, model.target_positions)
    h, seen = g, []
    m = len(source)
    for layer in range(recipe.decoder_layers):
        query, output = (modules[f"decoder.{layer}.{name}"] for name in ("query", "output"))
        wide, rows, after = nothing * (k - 1) + h, [], []
        for i, x in enumerate(h):
            y = gated(f"decoder.{layer}", wide[i : i + k])
            ask = (query(y) + g[i]) * half
            alpha = torch.stack([ask @ key / d**0.5 for key in z]).softmax(0)
            told = sum(a * (key + word) * half for a, key, word in zip(alpha, z, e, strict=True)) * m * (1 / m) ** 0.5
            after.append((x + (y + output(told)) * half) * half)
            rows.append(alpha)
        h = after
        seen.append(torch.stack(rows))
    return torch.stack([modules["readout"](x) for x in h]) @ table.T, seen


@pytest.mark.parametrize(("positions", "width"), [("learned", 3), ("sinusoidal", 5), ("learned", 1)])
def test_the_model_is_its_equations(positions: Any, width: int) -> None:
    model = moved(Convolutional(replace(RECIPE, positions=positions, kernel_width=width), VOCABULARY))
    source, target = [[5, 9, 4, 11, 2], [7, 3, 2]], [[1, 8, 6, 12], [1, 10]]
    maps = AttentionMaps()
    logits = model(
        torch.tensor([source[0], [*source[1], 0, 0]]), torch.tensor([target[0], [*target[1], 0, 0]]), maps=maps
    )
    for row in range(2):
        expected, weights = by_hand(model, source[row], target[row])
        torch.testing.assert_close(logits[row, : len(target[row])], expected, atol=2e-5, rtol=1e-4)
        for seen, alpha in zip(maps.cross, weights, strict=True):
            found = seen[row, 0, : len(target[row]), : len(source[row])]
            torch.testing.assert_close(found, alpha, atol=1e-5, rtol=1e-4)


def test_without_positions_far_tokens_are_alike() -> None:
    """A window sees order inside itself alone; positions tell apart what stands far from everything."""
    source = torch.full((1, 12), 5)
    for positions, alike in (("none", True), ("learned", False)):
        model = moved(Convolutional(replace(RECIPE, positions=positions), VOCABULARY))  # type: ignore[arg-type]
        states = model.encode(source).states[0]
        assert torch.allclose(states[5], states[6], atol=1e-6) == alike


def test_variance_stays_through_a_deep_stack() -> None:
    """The start of section 3.5: what goes up is neither lost nor grows, however many layers."""
    torch.manual_seed(1)
    recipe = replace(RECIPE, d_model=64, encoder_layers=20, positions="none")
    keys, values = Convolutional(recipe, 500).encode(torch.randint(1, 500, (8, 30))).states.chunk(2, dim=-1)
    assert 0.3 < keys.std().item() < 2
    assert 0.3 < values.std().item() < 2


def test_sentences_beyond_the_learned_positions_are_refused() -> None:
    model = Convolutional(replace(RECIPE, positions="learned"), VOCABULARY)
    with raises(ShapeError, "text_too_long", "21 tokens", "20"):
        model.encode(torch.ones(1, 21, dtype=torch.long))
