"""Properties of the recurrent and convolutional models beyond those of every model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from model_variants import (
    CONVOLUTIONAL,
    LSTM,
    RIVALS,
    SOURCE_LENGTHS,
    TARGET_LENGTHS,
    VOCABULARY,
    build,
    close,
    give_trees,
    name_of,
    padded,
    sentences,
)

from dragoman import AttentionMaps, Padded
from dragoman.config import ModelRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.models import Bottleneck, Convolutional, EncoderDecoder, Recurrent, Transformer
from dragoman.models.loading import build_model
from raising import raises

NO_ATTENTION = replace(LSTM, attention="none", encoder_layers=2)
every_rival = pytest.mark.parametrize("recipe", RIVALS, ids=name_of)


@every_rival
def test_attention_to_the_source_on_request_and_no_other(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    maps = AttentionMaps()
    with_maps = model(source, target, maps=maps)
    close(with_maps[target != 0], model(source, target)[target != 0])
    assert not maps.encoder
    assert not maps.decoder
    layers = 0 if recipe.attention == "none" else 1 if recipe.architecture == "recurrent" else 2
    assert [tuple(w.shape) for w in maps.cross] == [(3, 1, 6, 7)] * layers
    assert recipe.cross_attention_shape == (layers, 1)
    for w in maps.cross:
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]))
        assert not w[0, :, :, 4:].any()
        assert not w[2, :, :, 2:].any()


@pytest.mark.parametrize("recipe", [LSTM, CONVOLUTIONAL], ids=name_of)
@pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
def test_dropout_is_off_in_evaluation_and_on_in_training(recipe: ModelRecipe, kind: str) -> None:
    model = build(replace(recipe, **{kind: 0.5}))
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


@pytest.mark.parametrize(
    ("kind", "recipe"), [(Recurrent, LSTM), (Bottleneck, NO_ATTENTION), (Convolutional, CONVOLUTIONAL)]
)
def test_vocabularies_and_names(kind: type[EncoderDecoder], recipe: ModelRecipe) -> None:
    model = kind(replace(recipe, tie="target"), (11, 23))
    assert model(torch.tensor([[10, 3]]), torch.tensor([[22]])).shape == (1, 1, 23)
    with raises(RecipeError, "vocabulary_mismatch", "11 and 23", "model.tie='target'", "shared vocabulary"):
        kind(recipe, (11, 23))
    assert kind("tiny", 9).recipe.d_model == 128  # a preset's sizes, for this architecture
    with raises(RecipeError, "architecture_mismatch", kind.__name__, "model.architecture=", "'transformer'"):
        kind(ModelRecipe(), 9)
    with raises(ShapeError, "shape_mismatch", "target", "3 columns", "4"):
        model(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.long), None, Padded(4))


@every_rival
def test_damaged_sizes_are_told_before_memory_is_asked_for(recipe: ModelRecipe) -> None:
    from dragoman.models.loading import min_parameter_count

    least = min_parameter_count(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY))
    model = build(recipe)
    assert 0.45 * model.parameter_count() < least <= model.parameter_count()


@every_rival
def test_steps_of_training_lower_the_loss(recipe: ModelRecipe) -> None:
    """Each part takes part: after a few steps no weight is where it was, and a copy is written better."""
    torch.manual_seed(3)
    model = build_model(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY), pad=0)
    if recipe.positions == "syntax":
        give_trees(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source = padded(sentences([5, 6, 4, 7]))
    target = torch.cat([torch.ones(4, 1, dtype=torch.long), source[:, :-1]], 1)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(source, target).flatten(0, 1), source.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())


@every_rival
def test_products_in_bfloat16(recipe: ModelRecipe, device: torch.device) -> None:
    """What stays in float32 and what does not must fit together, forwards, backwards and in steps."""
    model = build(recipe, device).train()  # without it, cuDNN keeps nothing for the way back
    source, target = padded(sentences(SOURCE_LENGTHS), device), padded(sentences(TARGET_LENGTHS), device)
    exact = model(source, target)
    with torch.autocast(device.type, torch.bfloat16):
        rough = model(source, target)
        state = model.start(model.encode(source))
        for t in range(3):
            logits, state = model.step(target[:, t], state)
    rough.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    scale = exact.abs().max().item()
    torch.testing.assert_close(rough.float(), exact, atol=0.05 * scale, rtol=0.05)
    torch.testing.assert_close(logits.float(), exact[:, 2], atol=0.05 * scale, rtol=0.05)


@pytest.mark.parametrize("kind", [Transformer, Recurrent, Bottleneck, Convolutional])
def test_mistakes_of_a_caller_are_told_in_words(kind: type[EncoderDecoder]) -> None:
    for wrong in (0, -1, True, "many", (11, 0), (11, 13, 17), None):
        with raises(RecipeError, "wrong_type", repr(wrong)):
            kind("tiny", vocabulary=wrong)  # type: ignore[arg-type]
    model = kind("tiny", vocabulary=11)
    with raises(ShapeError, "count_mismatch", "3 sentences", "target 2"):
        model(torch.ones(3, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long))
