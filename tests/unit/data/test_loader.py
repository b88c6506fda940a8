import threading
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DataRecipe
from dragoman.data.batch import Batch
from dragoman.data.batching import fill_tiles
from dragoman.data.loader import EPOCH_STRIDE, Loader
from dragoman.data.shards import Sentences, Split, SplitPart
from dragoman.data.subword_sampling import SubwordSampler
from dragoman.errors import DataError
from dragoman.text.special_tokens import BOS, EOS, PAD
from raising import raises

RECIPE = DataRecipe(max_tokens=19, batch_tokens=61, seed=3, ahead=3)
LAYOUTS = ("padded", "packed")


def pairs_of(n, seed=0, longest=19):
    rng = np.random.default_rng(seed)
    sentence = lambda: rng.integers(4, 300, rng.integers(1, longest + 1)).tolist()  # noqa: E731
    return [(sentence(), sentence()) for _ in range(n)]


def split_of(pairs):
    return Split.of([s for s, _ in pairs], [t for _, t in pairs])


def take(loader, n):
    with loader:
        return list(islice(loader, n))


def whole_epoch(split, recipe, rank=0, world=1, epoch=0, **more):
    with Loader(split, recipe, rank=rank, world=world, state=epoch * EPOCH_STRIDE, epochs=epoch + 1, **more) as loader:
        return list(loader)


def numbers(batch):
    return batch.pairs[: batch.n_sentences].tolist()


def same(a: Batch, b: Batch):
    for name in vars(a):
        x, y = getattr(a, name), getattr(b, name)
        if isinstance(x, torch.Tensor):
            assert x.dtype == y.dtype and torch.equal(x, y), name
        else:
            assert x == y, name


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 60),
    world=st.sampled_from([1, 2, 3]),
    layout=st.sampled_from(LAYOUTS),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 4),
)
def test_every_pair_once_an_epoch_for_one_two_and_three_ranks(n, world, layout, epoch, seed):
    split, recipe = split_of(pairs_of(n, seed)), replace(RECIPE, layout=layout, seed=seed)
    ranks = [whole_epoch(split, recipe, rank, world, epoch) for rank in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    seen = Counter(i for batches in ranks for batch in batches for i in numbers(batch))
    assert seen == Counter(range(n))
    empty = [batch for batches in ranks for batch in batches if not batch.n_sentences]
    assert len(empty) < world  # only the last step of an epoch may have some
    assert all(batches[-1].state == (epoch + 1) * EPOCH_STRIDE for batches in ranks)


@settings(max_examples=30, deadline=None)
@given(
    stop=st.integers(0, 25), layout=st.sampled_from(LAYOUTS), workers=st.sampled_from([1, 3]), ahead=st.integers(1, 5)
)
def test_continuing_from_any_state_equals_not_having_stopped(stop, layout, workers, ahead):
    split, recipe = split_of(pairs_of(30)), replace(RECIPE, layout=layout)
    straight = take(Loader(split, recipe, rank=1, world=2), 30)
    loader = Loader(split, replace(recipe, workers=2), rank=1, world=2)
    take(loader, stop)
    assert isinstance(loader.state, int)
    rest = take(
        Loader(split, replace(recipe, workers=workers, ahead=ahead), rank=1, world=2, state=loader.state), 30 - stop
    )
    assert len(rest) == 30 - stop
    for got, expected in zip(rest, straight[stop:], strict=True):
        same(got, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_batches_whatever_the_number_of_workers(layout):
    split, recipe = split_of(pairs_of(80)), replace(RECIPE, layout=layout)
    one = take(Loader(split, recipe), 60)
    for workers, ahead in ((2, 1), (5, 9)):
        for got, expected in zip(
            take(Loader(split, replace(recipe, workers=workers, ahead=ahead)), 60), one, strict=True
        ):
            same(got, expected)


def test_another_number_of_ranks_can_go_on_within_an_epoch():
    split = split_of(pairs_of(70))
    first = [Loader(split, RECIPE, rank=rank, world=2) for rank in range(2)]
    seen = [i for loader in first for batch in take(loader, 4) for i in numbers(batch)]
    assert first[0].state == first[1].state == 8
    for rank in range(3):
        with Loader(split, RECIPE, rank=rank, world=3, state=first[0].state, epochs=1) as loader:
            seen += [i for batch in loader for i in numbers(batch)]
    assert Counter(seen) == Counter(range(70))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), seed=st.integers(0, 9))
def test_packed_batches_hold_exactly_the_tokens_of_their_sentences(n, seed):
    pairs = pairs_of(n, seed)
    batches = whole_epoch(split_of(pairs), replace(RECIPE, layout="packed"))
    shapes = {
        (b.source.shape, b.target_in.shape, b.target_out.shape, b.source_lengths.shape, b.longest) for b in batches
    }
    assert len(shapes) == 1 and batches[0].source.dim() == 1
    for batch in batches:
        chosen = [pairs[i] for i in numbers(batch)]
        source = [i for s, _ in chosen for i in [*s, EOS]]
        target_in = [i for _, t in chosen for i in [BOS, *t]]
        target_out = [i for _, t in chosen for i in [*t, EOS]]
        for tensor, tokens in ((batch.source, source), (batch.target_in, target_in), (batch.target_out, target_out)):
            assert tensor.tolist() == tokens + [PAD] * (len(tensor) - len(tokens))
        assert batch.source_lengths[: len(chosen)].tolist() == [len(s) + 1 for s, _ in chosen]
        assert batch.target_lengths[: len(chosen)].tolist() == [len(t) + 1 for _, t in chosen]
        for tail in (batch.source_lengths, batch.target_lengths):
            assert not tail[len(chosen) :].any() and int(tail.max()) <= batch.longest
        assert (batch.pairs[len(chosen) :] == -1).all()
        assert (batch.source_tokens, batch.target_tokens) == (len(source), len(target_out))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), seed=st.integers(0, 9))
def test_padded_batches_hold_a_row_a_sentence(n, seed):
    pairs = pairs_of(n, seed)
    for batch in whole_epoch(split_of(pairs), RECIPE):
        chosen = [pairs[i] for i in numbers(batch)]
        width, height = max(len(s) for s, _ in chosen) + 1, max(len(t) for _, t in chosen) + 1
        fill = lambda row, size: row + [PAD] * (size - len(row))  # noqa: E731
        assert batch.source.tolist() == [fill([*s, EOS], width) for s, _ in chosen]
        assert batch.target_in.tolist() == [fill([BOS, *t], height) for _, t in chosen]
        assert batch.target_out.tolist() == [fill([*t, EOS], height) for _, t in chosen]
        assert batch.source_lengths.tolist() == [len(s) + 1 for s, _ in chosen]
        assert batch.longest == max(width, height)
        assert batch.source_tokens == int((batch.source != PAD).sum())
        assert batch.target_tokens == int((batch.target_out != PAD).sum())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rank_without_pairs_gets_an_empty_batch(layout):
    recipe = replace(RECIPE, layout=layout)
    batches = [whole_epoch(split_of(pairs_of(1)), recipe, rank, 3) for rank in range(3)]
    assert [len(b) for b in batches] == [1, 1, 1]
    assert [b[0].n_sentences for b in batches] == [1, 0, 0]
    empty = batches[2][0]
    assert (empty.source_tokens, empty.target_tokens) == (0, 0) and not empty.target_out.any()
    if layout == "packed":
        assert empty.source.shape == batches[0][0].source.shape
    else:
        assert empty.source.shape == (0, 1)


def test_weights_of_the_parts_and_of_the_recipe():
    whole = split_of(pairs_of(40))
    split = Split(whole.source, whole.target, (SplitPart("a", 0, 10, 3.0), SplitPart("b", 10, 40, 0.5)))
    seen = Counter(i for batch in whole_epoch(split, RECIPE) for i in numbers(batch))
    assert [seen[i] for i in range(10)] == [3] * 10 and sum(seen[i] for i in range(10, 40)) == 15
    again = Counter(i for batch in whole_epoch(split, RECIPE, epoch=1) for i in numbers(batch))
    assert all(seen[i] + again[i] == 1 for i in range(10, 40))
    over = Counter(i for batch in whole_epoch(split, replace(RECIPE, weights=(1.0, 2.0))) for i in numbers(batch))
    assert [over[i] for i in range(40)] == [1] * 10 + [2] * 30
    with raises(DataError, "count_mismatch", "data.weights", "1", "2"):
        Loader(split, replace(RECIPE, weights=(1.0,)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_epoch_without_pairs_is_passed_over(layout):
    split = split_of(pairs_of(3))
    batches = take(Loader(split, replace(RECIPE, layout=layout, weights=(0.1,))), 3)
    assert sorted(i for batch in batches for i in numbers(batch)) == [0, 1, 2]
    assert [batch.state // EPOCH_STRIDE for batch in batches] == [4, 7, 10]  # 0.3 pairs an epoch: one after 4, 7 and 10


def test_epochs_and_seeds_differ_in_order_but_not_in_pairs():
    split = split_of(pairs_of(50))
    runs = [whole_epoch(split, RECIPE, epoch=e) for e in (0, 1)] + [whole_epoch(split, replace(RECIPE, seed=4))]
    orders = [[i for batch in run for i in numbers(batch)] for run in runs]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_batches_are_made_ahead_and_an_error_reaches_the_reader(monkeypatch):
    split = split_of(pairs_of(60))
    made, enough = [], threading.Event()
    original = Loader._make

    def make(self, plan, number, epoch, state):
        made.append(number)
        if len(made) == 4:
            enough.set()
        if number == 5:
            raise OSError("the disk is gone")
        return original(self, plan, number, epoch, state)

    monkeypatch.setattr(Loader, "_make", make)
    with Loader(split, RECIPE) as loader:
        next(loader)
        assert enough.wait(10)  # 1 was asked for, 3 more are made ahead
        for _ in range(4):
            next(loader)
        with pytest.raises(OSError, match="the disk is gone"):
            next(loader)
        assert loader.state == 5


def test_closing_ends_the_threads():
    before = threading.active_count()
    loader = Loader(split_of(pairs_of(60)), replace(RECIPE, workers=4))
    next(loader)
    assert threading.active_count() > before
    loader.close()
    loader.close()
    assert threading.active_count() == before


def test_what_cannot_be_is_refused():
    split = split_of(pairs_of(9))
    with raises(DataError, "checkpoint_mismatch", "1000", "2"):
        take(Loader(split, RECIPE, state=2 * EPOCH_STRIDE + 1000), 1)
    with raises(DataError, "no_pairs_left"):
        Loader(Split.of([], []), RECIPE)
    with raises(DataError, "count_mismatch", "9", "8"):
        Split(split.source, Sentences.of([[5]] * 8), split.parts)
    with raises(DataError, "text_too_long", "61"):
        take(Loader(split_of([([5] * 70, [6])]), RECIPE), 1)


def test_a_batch_moves_as_a_whole():
    batch = whole_epoch(split_of(pairs_of(5)), RECIPE)[0].to("meta")
    assert {t.device.type for t in vars(batch).values() if isinstance(t, torch.Tensor)} == {"meta"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_are_pinned_where_there_is_a_gpu():
    assert whole_epoch(split_of(pairs_of(5)), RECIPE)[0].source.is_pinned()


class Letters:
    """A tokenizer of two-letter tokens whose samples break tokens into letters; ids: letters 4.., pairs 40.."""

    def decode(self, ids):
        return "".join(chr(i + 93) if i < 40 else chr((i - 40) // 26 + 97) + chr((i - 40) % 26 + 97) for i in ids)

    def encode(self, text):
        tokens = [text[i : i + 2] for i in range(0, len(text), 2)]
        return [ord(p) - 93 if len(p) == 1 else 40 + (ord(p[0]) - 97) * 26 + ord(p[1]) - 97 for p in tokens]

    def sample(self, text, alpha, seed):
        rng = np.random.default_rng(seed)
        return [
            i
            for token in self.encode(text)
            for i in ([ord(c) - 93 for c in self.decode([token])] if rng.random() < alpha else [token])
        ]

    resamples_in_threads = True

    def resample(self, ids, lengths, alpha, seeds):
        ends = np.cumsum(lengths)
        texts = [self.decode(ids[end - n : end].tolist()) for end, n in zip(ends, lengths, strict=True)]
        rows = [self.sample(text, alpha, seed) for text, seed in zip(texts, seeds, strict=True)]
        return np.array([i for row in rows for i in row], np.int32), np.array([len(row) for row in rows], np.int64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sampled_tokens_spell_the_same_text_and_fit(layout, monkeypatch):
    monkeypatch.setattr("dragoman.data.subword_sampling.cached_tokenizer", lambda directory, name: Letters())
    letters, rng = Letters(), np.random.default_rng(1)
    words = ["".join(map(chr, rng.integers(97, 123, rng.integers(1, 36)))) for _ in range(120)]
    split = split_of([(letters.encode(s), letters.encode(t)) for s, t in zip(words[:60], words[60:], strict=True)])
    recipe = replace(RECIPE, layout=layout, sampling=0.4)
    sampler = SubwordSampler(Path("nowhere"), ("shared", "shared"), split, 0.4, recipe.seed)
    assert 1.2 < min(sampler.growth) <= max(sampler.growth) < 1.7
    epochs = [whole_epoch(split, recipe, epoch=e, sampler=sampler) for e in (0, 1)]
    drawn = []
    for batches in epochs:
        found = {}
        for batch in batches:
            flat = batch.source.reshape(-1).tolist()
            assert layout == "packed" or batch.source.numel() <= recipe.batch_tokens
            row = batch.source.shape[-1]
            start = 0
            if layout == "packed":  # laid by the lengths that were drawn
                lengths = [side[: batch.n_sentences].numpy() for side in (batch.source_lengths, batch.target_lengths)]
                assert fill_tiles(*lengths).tolist() == list(range(batch.n_sentences))
            for k, pair in enumerate(numbers(batch)):
                length = int(batch.source_lengths[k])
                begin = start if layout == "packed" else k * row
                ids = flat[begin : begin + length]
                start += length
                assert ids[-1] == EOS and letters.decode(ids[:-1]) == words[pair]
                found[pair] = tuple(ids)
        assert len(found) == 60
        drawn.append(found)
    assert sum(drawn[0][i] != drawn[1][i] for i in range(60)) > 30  # other tokens in another epoch
    again = whole_epoch(split, replace(recipe, workers=3), sampler=sampler)
    for a, b in zip(epochs[0], again, strict=True):
        same(a, b)
