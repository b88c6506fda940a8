"""The recurrent model without attention: PyTorch's layers with copied weights, one vector, a source read backward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelRecipe
from dragoman.errors import RecipeError
from dragoman.models import Bottleneck, Recurrent
from dragoman.models.loading import build_model
from raising import raises

RECIPE = ModelRecipe(
    architecture="recurrent", attention="none", d_model=6, encoder_layers=2, decoder_layers=2, dropout=0.0
)
VOCABULARY = 13
SOURCES, TARGETS = [[5, 9, 4, 11, 2], [7, 3, 2], [8]], [[1, 8, 6, 12], [1, 10], [1, 4, 5]]
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def padded(rows: list[list[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def moved(recipe: ModelRecipe) -> Bottleneck:
    model = Bottleneck(recipe, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def by_pytorch(model: Bottleneck, source: list[int], target: list[int]) -> Tensor:
    """The logits of one pair, from torch.nn's layers with the model's weights; only the residual sums are ours."""
    recipe = model.recipe

    def layer(of: nn.Module) -> Any:
        theirs = CELLS[recipe.cell](recipe.d_model, recipe.d_model, batch_first=True)
        theirs.load_state_dict({n.removeprefix("cell."): w for n, w in of.state_dict().items() if "cell." in n})
        return theirs

    table = model.embeddings.tables["shared"] * recipe.d_model**0.5
    x, states = table[torch.tensor(source[::-1] if recipe.reverse_source else source)][None], []
    for i, mine in enumerate(model.encoder):
        y, last = layer(mine)(x)
        x = y if i == 0 else x + y
        states.append(last)
    x = table[torch.tensor(target)][None]
    for i, mine in enumerate(model.decoder):
        y, _ = layer(mine)(x, states[i])
        x = y if i == 0 else x + y
    return torch.tanh(x[0] @ model.readout.weight.T + model.readout.bias) @ model.embeddings.tables["shared"].T


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", [False, True])
def test_the_model_is_pytorchs_layers(cell: Any, backward: bool) -> None:
    model = moved(replace(RECIPE, cell=cell, reverse_source=backward))
    logits = model(padded(SOURCES), padded(TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = by_pytorch(model, source, target)
        torch.testing.assert_close(logits[row, : len(target)], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("cell", "size"), [("lstm", 2 * 2 * 6), ("gru", 2 * 6), ("rnn", 2 * 6)])
def test_one_vector_stands_for_a_source_of_any_length(cell: Any, size: int) -> None:
    model = moved(replace(RECIPE, cell=cell))
    assert model.encode(padded(SOURCES)).states.shape == (3, 1, size)
    assert model.encode(torch.randint(1, VOCABULARY, (3, 40))).states.shape == (3, 1, size)


def test_reading_backward_is_reading_the_reversed_source() -> None:
    forward, backward = moved(RECIPE), Bottleneck(replace(RECIPE, reverse_source=True), VOCABULARY).eval()
    backward.load_state_dict(forward.state_dict())
    reversed_sources = padded([row[::-1] for row in SOURCES])
    torch.testing.assert_close(backward.encode(padded(SOURCES)).states, forward.encode(reversed_sources).states)
    assert not torch.allclose(backward.encode(padded(SOURCES)).states, forward.encode(padded(SOURCES)).states)


def test_the_recipe_chooses_between_the_two_recurrent_models() -> None:
    assert type(build_model(RECIPE, VOCABULARY, 0)) is Bottleneck
    assert type(build_model(replace(RECIPE, attention="additive"), VOCABULARY, 0)) is Recurrent
    with raises(RecipeError, "architecture_mismatch", "Bottleneck"):
        Recurrent(RECIPE, VOCABULARY)
    with raises(RecipeError, "architecture_mismatch", "Recurrent"):
        Bottleneck(replace(RECIPE, attention="additive"), VOCABULARY)


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"encoder_layers": 3}, "conflicting_settings", ("encoder_layers=3", "decoder_layers=2")),
        ({"attention_dropout": 0.1}, "unused_setting", ("attention_dropout=0.1",)),
        ({"architecture": "transformer", "n_heads": 2}, "conflicting_settings", ("'transformer'",)),
        ({"architecture": "convolutional"}, "conflicting_settings", ("'convolutional'",)),
        ({"attention": "additive", "reverse_source": True}, "unused_setting", ("reverse_source",)),
    ],
)
def test_settings_that_do_not_go_with_it(changes: dict[str, Any], code: str, says: tuple[str, ...]) -> None:
    with raises(RecipeError, code, *says):
        replace(RECIPE, **changes)
