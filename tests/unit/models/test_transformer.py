"""Properties of the Transformer beyond those of every model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_variants import (
    SMALL,
    SOURCE_LENGTHS,
    TARGET_LENGTHS,
    TRANSFORMERS,
    VOCABULARY,
    build,
    close,
    name_of,
    padded,
    sentences,
)

from dragoman import Packed, Padded, Recipe, Transformer
from dragoman.config import ModelRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.models import AttentionMaps
from dragoman.nn import scattered
from raising import raises

every_variant = pytest.mark.parametrize("recipe", TRANSFORMERS, ids=name_of)


@every_variant
def test_the_decoder_sees_no_order_in_what_it_looks_at_but_what_the_encoder_wrote(recipe: ModelRecipe) -> None:
    """Distances are told within one sequence alone: between two, places have none."""
    model = build(recipe)
    source, target = torch.randint(1, VOCABULARY, (2, 7)), torch.randint(1, VOCABULARY, (2, 5))
    memory = model.encode(source)
    shuffled = replace(memory, states=memory.states[:, torch.tensor([3, 0, 6, 2, 5, 1, 4])])
    close(model.decode(target, memory), model.decode(target, shuffled))


def test_the_numbers_of_a_pattern_become_what_is_seen() -> None:
    query, key = torch.arange(40)[:, None], torch.arange(40)[None, :]
    near, past = (query - key).abs(), key <= query
    local = Transformer(replace(SMALL, pattern="local", window=4), VOCABULARY)
    assert torch.equal(local.encoder_sees(query, key), near <= 4)
    assert torch.equal(local.decoder_sees(query, key), (near <= 4) & past)
    sparse = Transformer(replace(SMALL, pattern="sparse", window=3, global_tokens=2, random_tokens=5), VOCABULARY)
    shown = (near <= 3) | (query < 2) | (key < 2) | scattered(5)(query, key)
    assert torch.equal(sparse.encoder_sees(query, key), shown)
    assert torch.equal(sparse.decoder_sees(query, key), shown & past)


def test_a_packed_memory_can_be_decoded() -> None:
    model, source = build(SMALL), sentences(SOURCE_LENGTHS)
    layout = Packed.of(torch.tensor(SOURCE_LENGTHS))
    a, _ = model.step(torch.tensor([3, 4, 5]), model.start(model.encode(torch.cat(source), layout)))
    b, _ = model.step(torch.tensor([3, 4, 5]), model.start(model.encode(padded(source))))
    close(a, b)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 9))
def test_the_encoder_is_permutation_equivariant_only_without_positions(seed: int, length: int) -> None:
    torch.manual_seed(seed)
    order = torch.randperm(length)
    if torch.equal(order, torch.arange(length)):
        order = order.flip(0)
    source = torch.randperm(VOCABULARY - 1)[None, :length] + 1  # all different, so that a move always shows
    with torch.no_grad():
        bag = build(replace(SMALL, positions="none"))
        close(bag.encode(source[:, order]).states, bag.encode(source).states[:, order])
        for code in ("sinusoidal", "learned"):
            model = build(replace(SMALL, positions=code))
            moved = (model.encode(source[:, order]).states - model.encode(source).states[:, order]).abs().max()
            assert moved > 1e-3


def test_attention_weights_on_request_for_every_layer_head_and_use() -> None:
    model = build(SMALL)
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    maps = AttentionMaps()
    with_maps = model(source, target, maps=maps)
    real = target != 0
    close(with_maps[real], model(source, target)[real])
    shapes = {
        "encoder": ([(3, 3, 7, 7)] * 2, maps.encoder),
        "decoder": ([(3, 3, 6, 6)] * 3, maps.decoder),
        "cross": ([(3, 3, 6, 7)] * 3, maps.cross),
    }
    for use, (expected, got) in shapes.items():
        assert [tuple(w.shape) for w in got] == expected, use
        for w in got:
            torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]))
    assert not maps.decoder[0].triu(1).any()
    assert not maps.cross[0][0, :, :, 4:].any()


def test_steps_give_the_rows_of_the_same_maps() -> None:
    model = build(SMALL)
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences([4, 4, 4]))
    whole = AttentionMaps()
    model(source, target, maps=whole)
    state = model.start(model.encode(source))
    for t in range(4):
        maps = AttentionMaps()
        _, state = model.step(target[:, t], state, maps)
        for layer in range(3):
            close(maps.cross[layer][:, :, 0], whole.cross[layer][:, :, t])
            close(maps.decoder[layer][:, :, 0], whole.decoder[layer][:, :, t, : t + 1])


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    model = build(replace(SMALL, dropout=0.5, attention_dropout=0.5, feed_forward_dropout=0.5))
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_two_vocabularies() -> None:
    model = Transformer(replace(SMALL, tie="target"), (11, 23))
    assert model(torch.tensor([[10, 3]]), torch.tensor([[22]])).shape == (1, 1, 23)
    with raises(RecipeError, "vocabulary_mismatch", "11 and 23", "model.tie='target'"):
        Transformer(SMALL, (11, 23))


def test_wrong_shapes_are_named() -> None:
    model = build(SMALL)
    ids = torch.ones(2, 3, dtype=torch.long)
    with raises(ShapeError, "shape_mismatch", "source", "(3,)"):
        model(ids[0], ids)
    with raises(ShapeError, "shape_mismatch", "target", "3 columns", "4"):
        model(ids, ids, None, Padded(4))
    with raises(ShapeError, "layout_mismatch"):
        model(ids, ids[0], None, Packed.of(torch.tensor([1, 2])))
    with raises(RecipeError, "unknown_preset", "bsae", "'base'"):
        Transformer("bsae", 9)


def test_a_model_is_made_of_a_whole_recipe_too() -> None:
    recipe = Recipe.load("tiny", ["model.d_ff=96", "model.encoder_layers=1"])
    model = Transformer(recipe, 23)
    assert model.recipe == recipe.model
    assert model.parameter_count() == Transformer(recipe.model, 23).parameter_count()


@pytest.mark.parametrize("recipe", [None, {"d_model": 8}, 512])
def test_what_is_no_recipe_is_refused(recipe: object) -> None:
    with raises(RecipeError, "wrong_type", repr(recipe)):
        Transformer(recipe, 23)  # type: ignore[arg-type]


def test_a_file_is_not_a_preset() -> None:
    with raises(RecipeError, "unknown_preset", "my.toml", "Recipe.load"):
        Transformer("my.toml", 23)
