"""Head statistics against loops written from their definitions, and heads with known behavior."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch

from dragoman.inspect.attention.maps import AttentionKind
from dragoman.inspect.heads.statistics import (
    HeadStatistics,
    StatisticsAccumulator,
    aligned_keys,
    attention_context,
    label_head,
)
from dragoman.nn import Padded, Rule, both, causal, everything, window
from dragoman.translation.alignment_head import AlignmentHead

VOCABULARY, LAYERS, HEADS = 20, 2, 3
SOURCE = [
    [5, 6, 5, 9, 2],
    [7, 9, 2],
    [6, 6, 6, 6, 2],
]  # 2 is the EOS token, which comes less often than 6; 9 a full stop
TARGET = [[1, 8, 10, 8], [1, 12, 9, 10, 11, 12], [1, 8, 9]]  # 1 is the BOS token
RULES: dict[AttentionKind, Rule] = {"encoder": everything, "decoder": causal, "cross": everything}


def padded(rows: list[list[int]], more: int = 0) -> tuple[torch.Tensor, Padded]:
    width = max(map(len, rows)) + more
    return torch.tensor([row + [0] * (width - len(row)) for row in rows]), Padded(
        width, torch.tensor([len(row) for row in rows])
    )


def sides(kind: AttentionKind) -> tuple[list[list[int]], list[list[int]]]:
    return {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}[kind]


def weights_of(kind: AttentionKind, seed: int = 3, rule: Rule | None = None) -> list[list[torch.Tensor]]:
    """For each sentence, its weights in each layer, `[H, T, S]`, by chance."""
    torch.manual_seed(seed)
    rule, found = rule or RULES[kind], []
    for asking, asked in zip(*sides(kind), strict=True):
        shown = rule(torch.arange(len(asking))[:, None], torch.arange(len(asked))[None])
        scores = 2 * torch.randn(LAYERS, HEADS, len(asking), len(asked))
        found.append(list(scores.masked_fill(~shown, -torch.inf).softmax(-1)))
    return found


def in_batch(each: list[list[torch.Tensor]], rows: int, columns: int, junk: float = 0.0) -> list[torch.Tensor]:
    """The same as tensors `[B, H, T, S]` a layer; rows of padding hold junk."""
    layers = []
    for layer in range(LAYERS):
        whole = torch.full((len(each), HEADS, rows, columns), junk)
        for row, sentence in enumerate(each):
            _, high, wide = sentence[layer].shape
            whole[row, :, :high] = 0.0
            whole[row, :, :high, :wide] = sentence[layer]
        layers.append(whole)
    return layers


PUNCTUATION = torch.tensor([i == 9 for i in range(VOCABULARY)])
FREQUENCIES = torch.zeros(VOCABULARY, dtype=torch.float64)
for _row in SOURCE:
    for _token in _row:
        FREQUENCIES[_token] += 1


def accumulate(
    kind: AttentionKind, more: int = 0, rule: Rule | None = None, numbers: list[list[int]] | None = None
) -> StatisticsAccumulator:
    """All sentences in one batch, or in the batches that are named."""
    accumulator, each = StatisticsAccumulator(LAYERS, HEADS), weights_of(kind, rule=rule)
    for here in numbers or [[0, 1, 2]]:
        queries, keys = (padded([side[i] for i in here], more) for side in sides(kind))
        if kind != "cross":
            keys = queries
        maps, aligned = in_batch([each[i] for i in here], queries[1].size, keys[1].size, junk=0.1), None
        if kind == "cross":
            lengths, tokens = keys[1].lengths, queries[1].lengths
            assert lengths is not None and tokens is not None
            aligned = aligned_keys(maps, AlignmentHead(1, 2, "reads"), lengths, tokens - 1, 0)
        frequencies = None if kind == "decoder" else FREQUENCIES
        accumulator.add(
            maps, attention_context(kind, queries, keys, rule or RULES[kind], PUNCTUATION, frequencies, aligned)
        )
    return accumulator


def by_hand(kind: AttentionKind, layer: int, head: int, rule: Rule | None = None) -> dict[str, Any]:
    """Every figure from its description, query by query."""
    rule = rule or RULES[kind]
    seen: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seen.setdefault(name, []).append(float(value))

    for asking, asked, maps in zip(*sides(kind), weights_of(kind, rule=rule), strict=True):
        rows, last = maps[layer][head].double(), len(asked) - 1
        best = [int(row.argmax()) for row in rows]
        pointing = [int(row.argmax()) for row in maps[1][2]]
        for t, row in enumerate(rows):
            shown = [s for s in range(len(asked)) if bool(rule(torch.tensor(t), torch.tensor(s)))]
            if len(shown) == 1:
                continue
            place = t if kind != "cross" else t * last / (len(asking) - 1)
            note("offset", sum(w * (s - place) for s, w in enumerate(row.tolist())))
            note("square", sum(w * (s - place) ** 2 for s, w in enumerate(row.tolist())))
            entropy = -sum(w * math.log(w) for w in row.tolist() if w)
            note("entropy", entropy)
            note("uniformity", entropy / math.log(len(shown)))
            note("confidence", max(row.tolist()))
            note("first", row[0])
            note("punctuation", sum(row[s] for s in range(len(asked)) if asked[s] == 9))
            if kind == "cross":
                note("diagonal", abs(best[t] - place) <= 1)
            else:
                for far in range(-5, 6):
                    if t + far in shown:
                        note(f"at {far}", best[t] == t + far)
                others = [s for s in shown if asked[s] == asking[t] and s != t]
                if others:
                    note("same_token", sum(row[s] for s in others))
            if kind != "decoder":
                note("end", row[last])
                note("rarest_token", row[min(range(last), key=lambda s: (FREQUENCIES[asked[s]], s))])
        if kind == "cross":
            for i in range(len(asking) - 1):
                goal = pointing[i + 1]
                if goal != last:
                    note("writes", best[i] == goal)
                    note("reads", best[i + 1] == goal)
    mean = {name: sum(values) / len(values) for name, values in seen.items()}
    steps = {name: mean[name] for name in ("writes", "reads") if name in mean}
    return {
        **{name: mean.get(name) for name in ("offset", "entropy", "uniformity", "confidence", "first", "punctuation")},
        **{name: mean.get(name) for name in ("end", "same_token", "rarest_token", "diagonal")},
        "offset_deviation": math.sqrt(mean["square"] - mean["offset"] ** 2),
        "offsets": {far: mean[f"at {far}"] for far in range(-5, 6) if f"at {far}" in mean},
        "alignment_agreement": max(steps.values(), default=None),
        "alignment_step": max(steps, key=lambda name: steps[name]) if steps else None,
    }


def same(found: HeadStatistics, expected: dict[str, Any]) -> None:
    told = asdict(found)
    assert told.keys() == expected.keys()
    assert told.pop("offsets") == pytest.approx(expected["offsets"])
    assert told.pop("alignment_step") == expected["alignment_step"]
    for name, value in told.items():
        assert value == (None if expected[name] is None else pytest.approx(expected[name], abs=1e-6)), name


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_figure_is_what_its_description_says(kind: AttentionKind) -> None:
    accumulator = accumulate(kind)
    for layer in range(LAYERS):
        for head in range(HEADS):
            same(accumulator.statistics(layer, head), by_hand(kind, layer, head))


def test_what_a_pattern_hides_is_no_place_to_look_at() -> None:
    near = both(causal, window(1))
    same(accumulate("decoder", rule=near).statistics(1, 1), by_hand("decoder", 1, 1, near))
    assert set(accumulate("decoder", rule=near).statistics(1, 1).offsets) == {-1, 0}


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_neither_company_nor_padding_changes_a_figure(kind: AttentionKind) -> None:
    whole, other = accumulate(kind), accumulate(kind, more=3, numbers=[[2, 0], [1]])
    for layer in range(LAYERS):
        for head in range(HEADS):
            same(other.statistics(layer, head), asdict(whole.statistics(layer, head)))


def test_the_pointer_agrees_with_itself() -> None:
    pointing = accumulate("cross").statistics(1, 2)
    assert (pointing.alignment_agreement, pointing.alignment_step) == (1.0, "reads")


def known(kind: AttentionKind, choose: Any) -> HeadStatistics:
    """The figures of a head that gives all its weight to the key that is chosen."""
    accumulator = StatisticsAccumulator(1, 1)
    queries, keys = (padded(side) for side in sides(kind))
    weights = torch.zeros(len(SOURCE), 1, queries[1].size, keys[1].size)
    for b, (asking, asked) in enumerate(zip(*sides(kind), strict=True)):
        for t in range(len(asking)):
            weights[b, 0, t, choose(t, asking, asked)] = 1.0
    layouts = (queries, queries if kind != "cross" else keys)
    frequencies = None if kind == "decoder" else FREQUENCIES
    accumulator.add([weights], attention_context(kind, *layouts, RULES[kind], PUNCTUATION, frequencies))
    return accumulator.statistics(0, 0)


def test_trades_have_names() -> None:
    assert label_head(known("encoder", lambda t, q, k: t)) == "itself (100 %)"
    assert label_head(known("encoder", lambda t, q, k: max(0, t - 1))) == "the previous token (100 %)"
    assert label_head(known("decoder", lambda t, q, k: max(0, t - 1))) == "the previous token (100 %)"
    assert label_head(known("encoder", lambda t, q, k: min(len(k) - 1, t + 1))) == "the next token (100 %)"
    assert label_head(known("decoder", lambda t, q, k: max(0, t - 2))) == "2 tokens back (100 %)"
    assert label_head(known("cross", lambda t, q, k: len(k) - 1)) == "the EOS token (100 %)"
    assert label_head(known("decoder", lambda t, q, k: 0), "the BOS token") == "the BOS token (100 %)"
    assert (
        label_head(known("cross", lambda t, q, k: round(t * (len(k) - 1) / (len(q) - 1))))
        == "along the diagonal (100 %)"
    )


def test_labels_of_figures() -> None:
    plain = HeadStatistics(0.0, 1.0, 0.5, 0.4, 0.5, {-1: 0.3, 0: 0.2}, 0.1, 0.2, 0.05, None, 0.1, None, None)
    assert label_head(plain) == "mixed; the previous token (30 %)"
    assert label_head(replace(plain, offsets={-1: 0.87})) == "the previous token (87 %)"
    assert label_head(replace(plain, uniformity=0.96, offsets={-1: 0.87})) == "spreads evenly"
    assert label_head(replace(plain, alignment_agreement=0.5, offsets={}, end=0.9)) == "aligns (50 %)"
    assert label_head(replace(plain, end=0.3, punctuation=0.4)) == "punctuation and end (70 %)"
    assert label_head(replace(plain, end=0.2, punctuation=0.6)) == "punctuation (60 %)"
    assert label_head(replace(plain, rarest_token=0.55)) == "the rarest token (55 %)"
    assert label_head(replace(plain, offsets={3: 0.6})) == "3 tokens ahead (60 %)"
    assert label_head(None) == "mixes positions"


def test_marks_are_nothing_to_align() -> None:
    cross = torch.tensor([[[[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]]]])
    found = [
        aligned_keys([cross], AlignmentHead(0, None, step), torch.tensor([3]), torch.tensor([2]), lead).tolist()
        for step, lead in (("writes", 0), ("reads", 0), ("writes", 1))
    ]
    assert found == [[[0, -1]], [[-1, 1]], [[-1, -1]]]
