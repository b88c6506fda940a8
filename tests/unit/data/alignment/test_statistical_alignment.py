"""The statistical aligner against a loop from its equations, and links of a batch under subword sampling."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.alignment import statistical
from dragoman.data.alignment.statistical import AlignmentModel, TokenPairs, align_corpus, symmetrize
from dragoman.data.alignment.store import ensure_alignments, with_alignments
from dragoman.data.batch import Batch
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.shards import Sentences
from dragoman.errors import TrainingError
from dragoman.progress import SilentReporter
from dragoman.text.special_tokens import EOS
from raising import raises
from small_corpora import RECIPE, put, some_pairs

EMPTY, ALPHA = 0.08, 0.01
Links = set[tuple[int, int]]
Corpus = tuple[list[list[int]], list[list[int]]]


def corpus(pairs: int) -> Corpus:
    """Each target word is 60 minus its source word; the first two are swapped, and some are missing."""
    draw = random.Random(7)
    sources = [[draw.randrange(4, 40) for _ in range(draw.randrange(1, 9))] for _ in range(pairs)]
    targets = []
    for source in sources:
        target = [60 - word for word in source if draw.random() < 0.9]
        if len(target) > 2:
            target[0], target[1] = target[1], target[0]
        targets.append(target)
    return sources, targets


def pairs_of(sides: Corpus) -> TokenPairs:
    source, target = (Sentences.of(side, np.uint16) for side in sides)
    return TokenPairs.gather(source, target, np.arange(len(source)))


def digamma(x: float) -> float:
    """By recurrence and the asymptotic series."""
    if x < 20:
        return digamma(x + 1) - 1 / x
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)


def by_the_equations(sides: Corpus, iterations: int) -> dict[tuple[int, int], float]:
    """Dyer et al. (2013): t(f | e) by EM with dictionaries; it depends on the tension, which is learned too."""
    tension, table = 4.0, dict[tuple[int, int], float]()
    for iteration in range(iterations):
        counts, expected, prior_mean, variance = dict[tuple[int, int], float](), 0.0, 0.0, 0.0
        for source, target in zip(*sides, strict=True):
            for i, word in enumerate(target, 1):
                features = [-abs(i / len(target) - j / len(source)) for j in range(1, len(source) + 1)]
                weights = [math.exp(tension * h) for h in features]
                prior = [(1 - EMPTY) * w / sum(weights) for w in weights]
                joint = {0: EMPTY * table.get((0, word), 1.0)} | {
                    j: p * table.get((e, word), 1.0) for j, (p, e) in enumerate(zip(prior, source, strict=True), 1)
                }
                posterior = {j: p / sum(joint.values()) for j, p in joint.items()}
                for j, share in posterior.items():
                    key = (source[j - 1] if j else 0, word)
                    counts[key] = counts.get(key, 0.0) + share
                placed, mean = (
                    1 - posterior[0],
                    sum(w * h for w, h in zip(weights, features, strict=True)) / sum(weights),
                )
                squares = sum(w * h * h for w, h in zip(weights, features, strict=True)) / sum(weights)
                expected += sum(posterior[j] * h for j, h in enumerate(features, 1))
                prior_mean, variance = prior_mean + placed * mean, variance + placed * (squares - mean**2)
        for source in {key[0] for key in counts}:
            own = [key for key in counts if key[0] == source]
            total = sum(counts[key] for key in own) + ALPHA * len(own)
            table |= {key: math.exp(digamma(counts[key] + ALPHA) - digamma(total)) for key in own}
        if iteration:
            tension = min(14.0, max(0.1, tension + (expected - prior_mean) / variance))
    return table


def test_the_model_is_that_of_the_equations() -> None:
    sides = corpus(60)
    model = AlignmentModel(pairs_of(sides), 70, threads=2)
    table = by_the_equations(sides, statistical.ITERATIONS)
    for (source, target), probability in table.items():
        assert model.probability(source, target) == pytest.approx(probability, rel=1e-3, abs=1e-7)
    assert model.probability(4, 69) == 0


def test_it_finds_the_translation_of_each_word_with_any_number_of_threads() -> None:
    sides = corpus(300)
    source, target = (Sentences.of(side, np.uint16) for side in sides)
    found = [list(align_corpus(source, target, (70, 70), SilentReporter(), n)) for n in (1, 3)]
    assert [part.ids.tolist() for part in found[0]] == [part.ids.tolist() for part in found[1]]
    right = total = 0
    for i, links in enumerate(found[0][0][k] for k in range(len(source))):
        for link in links.tolist():
            total += 1
            right += sides[0][i][link & 0xFFFF] + sides[1][i][link >> 16] == 60
    assert right > 0.93 * total and total > 0.85 * sum(map(len, sides[1]))


def grow_diag_final_and(
    n: int, k: int, forward: set[tuple[int, int]], backward: set[tuple[int, int]]
) -> set[tuple[int, int]]:
    """The pseudocode of Koehn et al. (2003), on (target, source)."""
    found, union = forward & backward, forward | backward

    def free(t: int, s: int) -> tuple[bool, bool]:
        return all(a != t for a, _ in found), all(b != s for _, b in found)

    while True:
        before = len(found)
        for t in range(k):
            for s in range(n):
                if (t, s) in found:
                    for a, b in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        near = (t + a, s + b)
                        if near in union and near not in found and any(free(*near)):
                            found.add(near)
        if len(found) == before:
            break
    for side in (forward, backward):
        for link in sorted(side):
            if all(free(*link)):
                found.add(link)
    return found


def test_symmetrization_is_the_pseudocode() -> None:
    draw = random.Random(3)
    sizes = [(draw.randrange(0, 9), draw.randrange(0, 9)) for _ in range(200)]
    pairs = pairs_of(([[4] * n for n, _ in sizes], [[4] * k for _, k in sizes]))
    best = [np.array([draw.randrange(-1, max(1, b)) if b else -1 for a, b in of for _ in range(a)], np.int32)
            for of in ([(k, n) for n, k in sizes], sizes)]  # fmt: skip
    found = symmetrize(pairs, *best)
    at = [0, 0]
    for i, (n, k) in enumerate(sizes):
        forward = {(t, int(best[0][at[0] + t])) for t in range(k) if best[0][at[0] + t] >= 0}
        backward = {(int(best[1][at[1] + s]), s) for s in range(n) if best[1][at[1] + s] >= 0}
        expected = grow_diag_final_and(n, k, forward, backward)
        assert found[i].tolist() == [t << 16 | s for t, s in sorted(expected)]
        at = [at[0] + k, at[1] + n]


def text_links(batch: Batch, tokenizers: list[list[str]]) -> set[tuple[int, str, str]]:
    """The first letters of the tokens that links join, by pair: the same under any segmentation of one-letter words."""
    assert batch.links is not None and batch.link_weights is not None
    width = batch.target_in.shape[1]
    found = set()
    for (place, column), weight in zip(batch.links.tolist(), batch.link_weights.tolist(), strict=True):
        row = place // width
        assert weight > 0
        source, target = int(batch.source[row, column]), int(batch.target_in[row, place % width])
        found.add((int(batch.pairs[row]), tokenizers[0][source], tokenizers[1][target]))
    return found


def test_links_follow_their_tokens_through_layouts_and_sampling(tmp_path: Path) -> None:
    prepared = prepare_corpora([put(tmp_path, "a", some_pairs(60))], RECIPE, tmp_path / "out")
    ensure_alignments(prepared, tmp_path / "links", SilentReporter())
    split = with_alignments(prepared.split("train"), prepared, tmp_path / "links")
    assert split.alignment is not None
    names = [t.tokens(range(t.vocabulary_size)) for t in prepared.tokenizers]
    plain = {
        (pair, names[0][split.source[pair][link & 0xFFFF]], names[1][split.target[pair][link >> 16]])
        for pair in range(len(split))
        for link in split.alignment.links[pair].tolist()
    }
    linked = {(pair, link >> 16) for pair in range(len(split)) for link in split.alignment.links[pair].tolist()}
    aligned = {pair for pair, _ in linked}
    plain |= {  # the other tokens of these sentences are linked to EOS
        (pair, names[0][EOS], names[1][token])
        for pair in aligned
        for place, token in enumerate(split.target[pair])
        if (pair, place) not in linked
    }
    with prepared.loader(RECIPE.data, epochs=1, alignments=tmp_path / "links", pin=False) as loader:
        batches = list(loader)
    assert set().union(*(text_links(batch, names) for batch in batches)) == plain
    packed = replace(RECIPE.data, layout="packed")
    with prepared.loader(packed, epochs=1, alignments=tmp_path / "links", pin=False) as loader:
        both = list(loader)
    assert len({batch.links.shape for batch in both if batch.links is not None}) == 1
    total = sum(float(batch.link_weights.sum()) for batch in both if batch.link_weights is not None)
    assert total == pytest.approx(sum(float(b.link_weights.sum()) for b in batches if b.link_weights is not None))
    sampled = replace(RECIPE.data, sampling=0.5)
    with prepared.loader(sampled, alignments=tmp_path / "links", pin=False) as loader:
        batch = next(islice(loader, 3, None))
    assert batch.links is not None and batch.link_weights is not None
    width, seen = batch.target_in.shape[1], 0
    for place, column in batch.links.tolist():
        row, t = divmod(place, width)
        pair = int(batch.pairs[row])
        linked = {(link & 0xFFFF, link >> 16) for link in split.alignment.links[pair].tolist()}
        bytes_before = [
            int(widths[ids[row, begin:end]].sum())
            for widths, ids, begin, end in (
                (split.alignment.widths[0], batch.source.numpy(), 0, column),
                (split.alignment.widths[1], batch.target_in.numpy(), 1, t),
            )
        ]
        ends = [
            np.cumsum(w[s[pair]]) for w, s in zip(split.alignment.widths, (split.source, split.target), strict=True)
        ]
        homes = tuple(int(np.searchsorted(end, at, side="right")) for end, at in zip(ends, bytes_before, strict=True))
        if homes[0] == len(split.source[pair]):  # EOS
            assert homes[1] not in {target for _, target in linked}
        else:
            assert homes in linked
        seen += 1
    assert seen


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistical, "library", lambda name: None)
    with raises(TrainingError, "compiler_missing"):
        AlignmentModel(pairs_of(corpus(3)), 70)
