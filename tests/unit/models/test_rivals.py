"""What the Transformer promises, its rivals promise too: the same numbers, whichever way they are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import AttentionMaps, Packed, Padded
from dragoman.config import ModelRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.models import Convolutional, EncoderDecoder, Recurrent, Transformer
from dragoman.models.directory import build as build_model

LSTM = ModelRecipe(architecture="recurrent", d_model=12, encoder_layers=3, decoder_layers=2, dropout=0.0)
CONVOLUTIONAL = ModelRecipe(
    architecture="convolutional", d_model=12, encoder_layers=3, decoder_layers=2, dropout=0.0, max_positions=30
)
VARIANTS = [
    LSTM,
    replace(LSTM, attention="additive", d_model=11),
    replace(LSTM, cell="gru", tie="target"),
    replace(LSTM, cell="gru", attention="additive", encoder_layers=1, decoder_layers=1),
    CONVOLUTIONAL,
    replace(CONVOLUTIONAL, positions="learned", kernel_width=5, tie="none"),
    replace(CONVOLUTIONAL, positions="none", kernel_width=1),
]
VOCABULARY = 19
SOURCE_LENGTHS, TARGET_LENGTHS = [4, 7, 2], [5, 3, 6]


def name_of(recipe: ModelRecipe) -> str:
    inside = (recipe.cell, recipe.attention) if recipe.architecture == "recurrent" else ()
    of_windows = (recipe.positions, str(recipe.kernel_width)) if recipe.architecture == "convolutional" else ()
    return "-".join((recipe.architecture, *inside, *of_windows, recipe.tie))


every_variant = pytest.mark.parametrize("recipe", VARIANTS, ids=name_of)


def build(recipe: ModelRecipe, device: torch.device | str = "cpu") -> EncoderDecoder:
    """A model in evaluation mode whose every parameter is away from its start."""
    model = build_model(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY), pad=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(device).eval()


def sentences(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(1, VOCABULARY, (n,)) for n in lengths]


def padded(rows: list[Tensor], device: torch.device | str = "cpu") -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)


def close(a: Tensor, b: Tensor) -> None:
    """Up to the rounding of the largest, in an order of sums that the CPU chooses."""
    torch.testing.assert_close(a, b, atol=1e-5 * max(1.0, float(b.detach().abs().max())), rtol=1e-5)


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


@every_variant
def test_beams_are_reordered_and_sentences_leave(recipe: ModelRecipe) -> None:
    """Two beams a sentence, swapped, then sentence 1 leaves: each row must equal its own history, replayed."""
    model, source = build(recipe), padded(sentences(SOURCE_LENGTHS))
    state = model.start(model.encode(source))
    _, state = model.step(torch.tensor([1, 1, 1]), state)
    state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert len(state.source.past.keys) == 3  # the source is held once a sentence
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
    assert len(state.source.past.keys) == 2
    fourth = torch.tensor([15, 16, 17, 18])
    logits, _ = model.step(fourth, state)
    history = torch.cat([history[rows], fourth[:, None]], 1)
    close(logits, model(source[stay].repeat_interleave(2, 0), history)[:, -1])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_output_depends_on_a_later_token(data: st.DataObject) -> None:
    recipe = data.draw(st.sampled_from(VARIANTS))
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
def test_attention_to_the_source_on_request_and_no_other(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    maps = AttentionMaps()
    with_maps = model(source, target, maps=maps)
    close(with_maps[target != 0], model(source, target)[target != 0])
    assert not maps.encoder
    assert not maps.decoder
    assert [tuple(w.shape) for w in maps.cross] == [(3, 1, 6, 7)] * (1 if recipe.architecture == "recurrent" else 2)
    for w in maps.cross:
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]))
        assert not w[0, :, :, 4:].any()
        assert not w[2, :, :, 2:].any()


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


@pytest.mark.parametrize("recipe", [LSTM, CONVOLUTIONAL], ids=name_of)
@pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
def test_dropout_is_off_in_evaluation_and_on_in_training(recipe: ModelRecipe, kind: str) -> None:
    model = build(replace(recipe, **{kind: 0.5}))
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


@pytest.mark.parametrize(("kind", "recipe"), [(Recurrent, LSTM), (Convolutional, CONVOLUTIONAL)])
def test_vocabularies_and_names(kind: type[EncoderDecoder], recipe: ModelRecipe) -> None:
    model = kind(replace(recipe, tie="target"), (11, 23))
    assert model(torch.tensor([[10, 3]]), torch.tensor([[22]])).shape == (1, 1, 23)
    with pytest.raises(RecipeError, match=r"of 11 and 23 pieces; use model.tie='target'"):
        kind(recipe, (11, 23))
    assert kind("tiny", 9).recipe.d_model == 128  # a preset's sizes, for this architecture
    with pytest.raises(RecipeError, match=f"a {kind.__name__} is made of a recipe with .* got one with 'transformer'"):
        kind(ModelRecipe(), 9)
    with pytest.raises(ShapeError, match="target ids have 3 columns, but their layout has 4"):
        model(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.long), None, Padded(4))


@every_variant
def test_damaged_sizes_are_told_before_memory_is_asked_for(recipe: ModelRecipe) -> None:
    from dragoman.models.directory import least_numbers

    least = least_numbers(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY))
    model = build(recipe)
    assert 0.45 * model.parameter_count() < least <= model.parameter_count()


@every_variant
def test_steps_of_training_lower_the_loss(recipe: ModelRecipe) -> None:
    """Each part takes part: after a few steps no weight is where it was, and a copy is written better."""
    torch.manual_seed(3)
    model = build_model(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY), pad=0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    source = padded(sentences([5, 6, 4, 7]))
    target = torch.cat([torch.ones(4, 1, dtype=torch.long), source[:, :-1]], 1)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(source, target).flatten(0, 1), source.flatten(), ignore_index=0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())


@every_variant
def test_products_in_bfloat16(recipe: ModelRecipe, device: torch.device) -> None:
    """What stays in float32 and what does not must fit together, forwards, backwards and in steps."""
    model = build(recipe, device)
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


@pytest.mark.parametrize("kind", [Transformer, Recurrent, Convolutional])
def test_mistakes_of_a_caller_are_told_in_words(kind: type[EncoderDecoder]) -> None:
    for wrong in (0, -1, "many", (11, 0), (11, 13, 17), None):
        with pytest.raises(RecipeError, match="vocabulary must be a number of pieces, or two for source and target"):
            kind("tiny", vocabulary=wrong)  # type: ignore[arg-type]
    model = kind("tiny", vocabulary=11)
    with pytest.raises(ShapeError, match="the source has 3 sentences and the target 2; give as many of each"):
        model(torch.ones(3, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long))
