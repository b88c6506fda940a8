"""Properties of every model: the same numbers in every mode, and no information from hidden positions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_variants import (
    RIVALS,
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

from dragoman import AttentionMaps, Packed, Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.errors import ShapeError
from dragoman.models import BottleneckState
from dragoman.nn import Additive, RotaryPositions
from dragoman.nn.position.sinusoidal import TABLE_POSITIONS
from raising import raises

EVERY = [*TRANSFORMERS, *RIVALS]
every_variant = pytest.mark.parametrize("recipe", EVERY, ids=name_of)


@every_variant
def test_a_sentence_alone_equals_the_same_sentence_in_a_padded_batch(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), sentences(SOURCE_LENGTHS), sentences(TARGET_LENGTHS)
    together = model(padded(source), padded(target))
    for row, (s, t) in enumerate(zip(source, target, strict=True)):
        close(together[row, : len(t)], model(s[None], t[None])[0])


@every_variant
def test_ids_after_the_end_of_a_sentence_change_nothing(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    layouts = Padded(7, torch.tensor(SOURCE_LENGTHS)), Padded(6, torch.tensor(TARGET_LENGTHS))
    wild = torch.where(source == 0, 17, source), torch.where(target == 0, 18, target)
    a, b = model(source, target, *layouts), model(*wild, *layouts)
    for row, n in enumerate(TARGET_LENGTHS):
        assert torch.equal(a[row, :n], b[row, :n])


@every_variant
def test_packed_equals_padded_with_gradients(recipe: ModelRecipe, device: torch.device) -> None:
    model, source, target = build(recipe, device).train(), sentences(SOURCE_LENGTHS), sentences(TARGET_LENGTHS)
    lengths = [torch.tensor([*x, 0], device=device) for x in (SOURCE_LENGTHS, TARGET_LENGTHS)]
    filler = torch.full((2,), 9)
    flat = [torch.cat([*rows, filler]).to(device) for rows in (source, target)]
    layouts = [Packed.of(n, size=len(ids), longest=8) for n, ids in zip(lengths, flat, strict=True)]
    a = model(padded(source, device), padded(target, device))
    a = torch.cat([a[row, :n] for row, n in enumerate(TARGET_LENGTHS)])
    b = model(*flat, *layouts)[: len(a)]
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-5)
    direction, parameters = torch.randn_like(a), list(model.parameters())
    ours, theirs = (torch.autograd.grad(x, parameters, direction) for x in (a, b))
    for x, y in zip(ours, theirs, strict=True):
        assert x.isfinite().all()
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


@every_variant
def test_stepping_equals_teacher_forcing(recipe: ModelRecipe, device: torch.device) -> None:
    model = build(recipe, device)
    source, target = padded(sentences(SOURCE_LENGTHS), device), padded(sentences([6, 6, 6]), device)
    whole = model(source, target)
    state = model.start(model.encode(source))
    for t in range(3):
        logits, state = model.step(target[:, t], state)
        close(logits, whole[:, t])
    logits, state = model.step(target[:, 3:5], state)  # two tokens at once
    close(logits, whole[:, 3:5])
    logits, state = model.step(target[:, 5], state)
    close(logits, whole[:, 5])


@every_variant
def test_an_old_state_stays_good(recipe: ModelRecipe) -> None:
    model = build(recipe)
    state = model.start(model.encode(padded(sentences(SOURCE_LENGTHS))))
    _, state = model.step(torch.tensor([3, 4, 5]), state)
    first, _ = model.step(torch.tensor([6, 7, 8]), state)
    model.step(torch.tensor([9, 9, 9]), state)
    again, _ = model.step(torch.tensor([6, 7, 8]), state)
    assert torch.equal(first, again)


def held(state: Any) -> int | None:
    """How many sources a state holds: one a sentence, however many beams look at it; None without attention."""
    if isinstance(state, BottleneckState):
        return None
    source = state.source[0] if isinstance(state.source, tuple) else state.source.key_values
    return len(source.keys)


@every_variant
def test_beams_are_reordered_and_sentences_leave(recipe: ModelRecipe) -> None:
    """Two beams a sentence, swapped, then sentence 1 leaves: each row must equal its own history, replayed."""
    model, source = build(recipe), padded(sentences(SOURCE_LENGTHS))
    state = model.start(model.encode(source))
    _, state = model.step(torch.tensor([1, 1, 1]), state)
    state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert held(state) in (3, None)
    second = torch.tensor([3, 4, 5, 6, 7, 8])
    _, state = model.step(second, state)
    swap = torch.tensor([1, 1, 2, 3, 5, 4])
    state = state.select(swap)
    third = torch.tensor([9, 10, 11, 12, 13, 14])
    maps = AttentionMaps()
    logits, state = model.step(third, state, maps)
    history = torch.stack([torch.ones(6, dtype=torch.long), second[swap], third], 1)
    whole = AttentionMaps()
    close(logits, model(source.repeat_interleave(2, 0), history, maps=whole)[:, -1])
    for seen, expected in zip(maps.cross, whole.cross, strict=True):
        close(seen[:, :, 0], expected[:, :, -1])
    rows, stay = torch.tensor([0, 1, 4, 5]), torch.tensor([0, 2])
    state = state.select(rows, stay)
    assert held(state) in (2, None)
    fourth = torch.tensor([15, 16, 17, 18])
    logits, _ = model.step(fourth, state)
    history = torch.cat([history[rows], fourth[:, None]], 1)
    close(logits, model(source[stay].repeat_interleave(2, 0), history)[:, -1])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_output_depends_on_a_later_token(data: st.DataObject) -> None:
    recipe = data.draw(st.sampled_from(EVERY))
    length = data.draw(st.integers(2, 9))
    t = data.draw(st.integers(0, length - 2))
    torch.manual_seed(data.draw(st.integers(0, 999)))
    model = build(recipe)
    source, target = torch.randint(1, VOCABULARY, (2, 4)), torch.randint(1, VOCABULARY, (2, length))
    changed = target.clone()
    changed[:, t + 1 :] = torch.randint(1, VOCABULARY, (2, length - t - 1))
    with torch.no_grad():
        close(model(source, target)[:, : t + 1], model(source, changed)[:, : t + 1])
        changed[:, t + 1] = target[:, t + 1] % (VOCABULARY - 1) + 1  # surely another token
        assert not torch.allclose(model(source, target)[:, t + 1], model(source, changed)[:, t + 1])


@every_variant
def test_an_empty_source_is_finite_forwards_and_backwards(recipe: ModelRecipe) -> None:
    model = build(recipe).train()
    logits = model(torch.tensor([[0, 0, 0], [3, 4, 0]]), torch.tensor([[1, 5], [1, 6]]))
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@every_variant
def test_no_sentences_at_all(recipe: ModelRecipe) -> None:
    model, none = build(recipe), torch.zeros(0, 3, dtype=torch.long)
    state = model.start(model.encode(none))
    logits, _ = model.step(none[:, 0], state)
    assert logits.shape == (0, VOCABULARY)


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 10**12])
@pytest.mark.parametrize("recipe", [TRANSFORMERS[0], *RIVALS[:2]], ids=name_of)
def test_ids_outside_the_vocabulary_are_named(recipe: ModelRecipe, wrong: int) -> None:
    model, source, target = build(recipe), padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    state = model.start(model.encode(source))
    bad_source, bad_target = source.clone(), target.clone()
    bad_source[1, 0] = bad_target[2, 1] = wrong
    asked = [
        ("source", lambda: model(bad_source, target)),
        ("target", lambda: model(source, bad_target)),
        ("source", lambda: model.encode(bad_source)),
        ("target", lambda: model.step(bad_target[:, 1], state)),
    ]
    for side, ask in asked:
        with raises(ShapeError, "unknown_id", f"{side} id {wrong}", f"{VOCABULARY} tokens", f"0 to {VOCABULARY - 1}"):
            ask()


@pytest.mark.parametrize("recipe", [TRANSFORMERS[0], *RIVALS[:2]], ids=name_of)
def test_what_is_no_tensor_of_ids_is_refused(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    with raises(ShapeError, "wrong_type", "target ids", "[[1, 5]]"):
        model(source, [[1, 5]])
    with raises(ShapeError, "wrong_type", "source ids"):
        model.encode(None)
    for kind in (torch.float32, torch.bool, torch.int16):
        with raises(ShapeError, "wrong_type", "source ids", str(kind)):
            model(source.to(kind), target)
    torch.testing.assert_close(model(source.int(), target.int()), model(source, target))


@every_variant
def test_a_step_has_an_id_for_each_row_of_its_state(recipe: ModelRecipe) -> None:
    model, source = build(recipe), padded(sentences(SOURCE_LENGTHS))
    first = model.start(model.encode(source))
    _, state = model.step(torch.tensor([1, 1, 1]), first)
    _, wide = model.step(torch.tensor([1] * 6), first.select(torch.tensor([0, 0, 1, 1, 2, 2])))
    for ids, before in (([1], first), ([1] * 4, first), ([1], state), ([1] * 6, state), ([1] * 3, wide)):
        with raises(ShapeError, "count_mismatch", f"{len(ids)} rows"):
            model.step(torch.tensor(ids), before)
    with raises(ShapeError, "shape_mismatch", "(3, 1, 1)"):
        model.step(torch.ones(3, 1, 1, dtype=torch.int64), state)


MAKERS = [recipe for recipe in EVERY if recipe.attention == "additive" or recipe.positions == "rotary"]


@pytest.mark.parametrize("recipe", MAKERS, ids=name_of)
def test_what_is_made_of_a_key_is_made_once(recipe: ModelRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    model, source = build(recipe), padded(sentences(SOURCE_LENGTHS))
    made: list[int] = []
    for kind in (Additive, RotaryPositions):
        usual = kind.keys

        def spy(self: Any, k: torch.Tensor, layout: Any, usual: Any = usual) -> torch.Tensor:
            made.append(k.shape[2])
            return usual(self, k, layout)

        monkeypatch.setattr(kind, "keys", spy)
    memory = model.encode(source)
    made.clear()
    state = model.start(memory)
    of_source = {source.shape[1]} if recipe.attention == "additive" else set()
    assert set(made) == of_source
    for _ in range(4):
        made.clear()
        _, state = model.step(torch.tensor([1, 2, 3]), state)
        assert set(made) <= {1}  # the newest position of the decoder's own past, and nothing of the source


def test_positions_beyond_the_kept_table_step_as_they_are_taught() -> None:
    recipe = next(recipe for recipe in TRANSFORMERS if recipe.positions == "rotary")
    model = Transformer(recipe, VOCABULARY).eval()  # `build` would move the table away from what follows it
    source = torch.randint(1, VOCABULARY, (2, 5))
    target = torch.randint(1, VOCABULARY, (2, TABLE_POSITIONS + 4))
    whole = model(source, target)
    logits, state = model.step(target[:, : TABLE_POSITIONS - 2], model.start(model.encode(source)))
    close(logits, whole[:, : TABLE_POSITIONS - 2])
    for t in range(TABLE_POSITIONS - 2, TABLE_POSITIONS + 4):
        logits, state = model.step(target[:, t], state)
        close(logits, whole[:, t])


@pytest.mark.parametrize("recipe", [TRANSFORMERS[0], *RIVALS[:2]], ids=name_of)
def test_layouts_that_do_not_fit_the_ids_are_refused(recipe: ModelRecipe) -> None:
    model, flat = build(recipe), torch.randint(1, VOCABULARY, (6,))
    two, three = Packed.of([2, 4]), Packed.of([1, 2, 3])
    with raises(ShapeError, "count_mismatch", "2 sentences", "target 3"):
        model(flat, flat, two, three)  # two sources may stand for more rows in a step, and here must not
    with raises(ShapeError, "layout_mismatch", "source", "(1, 6)", "Packed"):
        model.encode(flat[None], two)
    with raises(ShapeError, "layout_mismatch", "source", "(6,)", "Padded"):
        model.encode(flat, Padded(6))
    with raises(ShapeError, "layout_mismatch", "str"):
        model.encode(flat[None], "packed")
