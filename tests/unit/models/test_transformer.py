"""The same numbers, whichever way they are asked for; and what the model may and may not see."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import Packed, Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.models import AttentionMaps
from dragoman.nn import scattered

SMALL = ModelRecipe(
    d_model=12, n_heads=3, d_k=5, d_v=7, d_ff=17, encoder_layers=2, decoder_layers=3, dropout=0.0, max_positions=30
)
VOCABULARY = 19
SOURCE_LENGTHS, TARGET_LENGTHS = [4, 7, 2], [5, 3, 6]

CODES, ORDERS = ("sinusoidal", "learned", "none"), ("post", "pre")
VARIANTS = [replace(SMALL, positions=code, norm_order=order) for code, order in product(CODES, ORDERS)]
VARIANTS += [replace(SMALL, norm="batch"), replace(SMALL, attention="additive"), replace(SMALL, tie="none")]
VARIANTS += [replace(SMALL, attention_bias=True, activation="gelu", norm="batch", norm_order="pre")]
VARIANTS += [replace(SMALL, positions="relative", max_distance=2), replace(SMALL, positions="rotary", d_k=6)]
VARIANTS += [replace(SMALL, positions="alibi"), replace(SMALL, positions="rotary", d_k=6, attention="additive")]
VARIANTS += [replace(SMALL, pattern="local", window=1), replace(SMALL, pattern="low_rank", rank=3)]
VARIANTS += [replace(SMALL, pattern="sparse", window=1, global_tokens=1, random_tokens=1)]
VARIANTS += [replace(SMALL, pattern="local", window=2, positions="relative", max_distance=2, norm_order="pre")]
every_variant = pytest.mark.parametrize(
    "recipe", VARIANTS, ids=lambda r: f"{r.positions}-{r.norm_order}-{r.norm}-{r.attention}-{r.tie}-{r.pattern}"
)


@pytest.fixture(autouse=True)
def _bands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local attention as a band also where sentences are as short as here."""
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)
    monkeypatch.setattr("dragoman.nn.attention.sees.WORTH", 4)


def build(recipe: ModelRecipe, device: torch.device | str = "cpu") -> Transformer:
    """A model in evaluation mode whose every parameter and statistic is away from its start."""
    model = Transformer(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        for name, buffer in model.named_buffers():
            buffer.add_(torch.rand_like(buffer) if "variance" in name else torch.randn_like(buffer))
    return model.to(device).eval()


def sentences(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(1, VOCABULARY, (n,)) for n in lengths]


def padded(rows: list[Tensor], device: torch.device | str = "cpu") -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)


def close(a: Tensor, b: Tensor) -> None:
    """Up to the rounding of the largest: small logits are differences of large numbers, in an order the CPU chooses."""
    torch.testing.assert_close(a, b, atol=1e-5 * max(1.0, float(b.detach().abs().max())), rtol=1e-5)


@every_variant
def test_a_sentence_alone_equals_the_same_sentence_in_a_padded_batch(recipe: ModelRecipe) -> None:
    model, source, target = build(recipe), sentences(SOURCE_LENGTHS), sentences(TARGET_LENGTHS)
    together = model(padded(source), padded(target))
    for row, (s, t) in enumerate(zip(source, target, strict=True)):
        close(together[row, : len(t)], model(s[None], t[None])[0])


@every_variant
def test_packed_equals_padded_with_gradients(recipe: ModelRecipe, device: torch.device) -> None:
    model, source, target = build(recipe, device), sentences(SOURCE_LENGTHS), sentences(TARGET_LENGTHS)
    model.train()  # without dropout: so that batch norm's statistics are compared as well
    lengths = [torch.tensor([*x, 0], device=device) for x in (SOURCE_LENGTHS, TARGET_LENGTHS)]
    filler = torch.full((2,), 9)
    flat = [torch.cat([*rows, filler]).to(device) for rows in (source, target)]
    layouts = [Packed.of(n, size=len(ids), longest=8) for n, ids in zip(lengths, flat, strict=True)]
    a = model(padded(source, device), padded(target, device))
    a = torch.cat([a[row, :n] for row, n in enumerate(TARGET_LENGTHS)])
    b = model(*flat, *layouts)[: len(a)]
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-5)
    direction = torch.randn_like(a)
    parameters = list(model.parameters())
    for x, y in zip(
        torch.autograd.grad(a, parameters, direction), torch.autograd.grad(b, parameters, direction), strict=True
    ):
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
    assert state.position == 6


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


def test_an_old_state_stays_good() -> None:
    model = build(SMALL)
    state = model.start(model.encode(padded(sentences(SOURCE_LENGTHS))))
    _, state = model.step(torch.tensor([3, 4, 5]), state)
    first, _ = model.step(torch.tensor([6, 7, 8]), state)
    model.step(torch.tensor([9, 9, 9]), state)
    again, _ = model.step(torch.tensor([6, 7, 8]), state)
    assert torch.equal(first, again)


def test_a_packed_memory_can_be_decoded() -> None:
    model, source = build(SMALL), sentences(SOURCE_LENGTHS)
    layout = Packed.of(torch.tensor(SOURCE_LENGTHS))
    a, _ = model.step(torch.tensor([3, 4, 5]), model.start(model.encode(torch.cat(source), layout)))
    b, _ = model.step(torch.tensor([3, 4, 5]), model.start(model.encode(padded(source))))
    close(a, b)


@every_variant
def test_beams_are_reordered_and_sentences_leave(recipe: ModelRecipe) -> None:
    """Two beams a sentence, swapped, then sentence 1 leaves: each row must equal its own history, replayed."""
    model, source = build(recipe), padded(sentences(SOURCE_LENGTHS))
    state = model.start(model.encode(source))
    _, state = model.step(torch.tensor([1, 1, 1]), state)
    state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    second = torch.tensor([3, 4, 5, 6, 7, 8])
    _, state = model.step(second, state)
    swap = torch.tensor([1, 1, 2, 3, 5, 4])
    state = state.select(swap)
    third = torch.tensor([9, 10, 11, 12, 13, 14])
    logits, state = model.step(third, state)
    history = torch.stack([torch.ones(6, dtype=torch.long), second[swap], third], 1)
    close(logits, model(source.repeat_interleave(2, 0), history)[:, -1])
    rows, stay = torch.tensor([0, 1, 4, 5]), torch.tensor([0, 2])
    state = state.select(rows, stay)
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


def test_an_empty_source_is_finite_forwards_and_backwards() -> None:
    model = build(SMALL)
    source = torch.tensor([[0, 0, 0], [3, 4, 0]])
    logits = model(source, torch.tensor([[1, 5], [1, 6]]))
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    model = build(replace(SMALL, dropout=0.5, attention_dropout=0.5, feed_forward_dropout=0.5))
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_two_vocabularies() -> None:
    model = Transformer(replace(SMALL, tie="target"), (11, 23))
    assert model(torch.tensor([[10, 3]]), torch.tensor([[22]])).shape == (1, 1, 23)
    with pytest.raises(RecipeError, match=r"of 11 and 23 pieces; use model.tie='target'"):
        Transformer(SMALL, (11, 23))


def test_wrong_shapes_are_named() -> None:
    model = build(SMALL)
    ids = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"source ids have shape \(3,\)"):
        model(ids[0], ids)
    with pytest.raises(ShapeError, match="target ids have 3 columns, but their layout has 4"):
        model(ids, ids, None, Padded(4))
    with pytest.raises(ShapeError, match="laid out alike"):
        model(ids, ids[0], None, Packed.of(torch.tensor([3])))
    with pytest.raises(RecipeError, match="'bsae' is not a preset; did you mean 'base'"):
        Transformer("bsae", 9)


def test_a_padded_row_costs_the_others_no_bit_of_attention() -> None:
    """Ids after the end of a sentence, even wild ones, change nothing at real tokens."""
    model = build(SMALL)
    source, target = padded(sentences(SOURCE_LENGTHS)), padded(sentences(TARGET_LENGTHS))
    layouts = Padded(7, torch.tensor(SOURCE_LENGTHS)), Padded(6, torch.tensor(TARGET_LENGTHS))
    wild = torch.where(source == 0, 17, source), torch.where(target == 0, 18, target)
    a, b = model(source, target, *layouts), model(*wild, *layouts)
    for row, n in enumerate(TARGET_LENGTHS):
        assert torch.equal(a[row, :n], b[row, :n])
