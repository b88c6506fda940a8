"""Demanded and avoided phrases against all texts there are, on a model that is a table of numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import Letters
from table_model import TableModel, all_sequences

from dragoman import Padded
from dragoman.decode import Hypothesis, Sampling, Search, beam_search, sample
from dragoman.decode.demands import Demands
from dragoman.decode.plans import Plan

SPACED = Letters("▁a", "a", "b", "▁b", "▁ab")
HAN = Letters("你", "好", "▁a", "a", "。")
BYTES = Letters("a", "<0xC3>", "<0xA9>", "<0xA8>", "▁")
EVERYTHING = 4000


def run(
    model: TableModel, limits: list[int], search: Search, plans: list[Plan | None], sentences: list[int] | None = None, **more: object
) -> list[list[Hypothesis]]:
    source = torch.tensor(sentences or list(range(len(limits))))[:, None]
    return beam_search(model, source, Padded(1), torch.tensor(limits), search, plans=plans, **more)  # type: ignore[arg-type]


def right(text: str, demands: Demands) -> bool:
    """By the definition, in text alone. Half a character may be that of a letter."""
    text = text.replace("\N{REPLACEMENT CHARACTER}", "x")
    padded = f" {text} "
    for word in demands.avoid:
        if Demands(require=((word,),)).told(padded)[0]:
            return False
    return not demands.told(text)[1]


def best_of_all(
    letters: Letters, model: TableModel, sentence: int, limit: int, search: Search, demands: Demands, prefix: tuple[int, ...] = ()
) -> list[tuple[tuple[int, ...], float]]:
    """The n best of all sequences whose text has what is demanded."""
    scored = [
        (sequence, model.total(sentence, sequence) / ((5 + len(sequence) + 1) / 6) ** search.length_penalty)
        for sequence in all_sequences(model, limit, search, prefix)
        if right(letters.decode(sequence), demands)
    ]
    return sorted(scored, key=lambda pair: -pair[1])[: search.n_best]


CASES = [
    (SPACED, ["a"]),
    (SPACED, ["ab"]),
    (SPACED, ["a b"]),
    (SPACED, ["a", "b"]),
    (SPACED, ["a", "a"]),
    (SPACED, ["a a", "a"]),
    (SPACED, ["ab", "a b"]),
    (SPACED, ["a b", "b a"]),
    (SPACED, [["ab", "ba"]]),
    (SPACED, [["ab", "b"], "a"]),
    (SPACED, ["aba"]),
    (SPACED, ["aab", "b"]),
    (HAN, ["你好"]),
    (HAN, ["好好"]),
    (HAN, ["好", "好"]),
    (HAN, ["a", "你"]),
    (HAN, ["好a"]),
    (HAN, ["aa。"]),
    (BYTES, ["é"]),
    (BYTES, ["aé"]),
    (BYTES, ["é a", "è"]),
]


@pytest.mark.parametrize(("letters", "require"), CASES)
def test_a_beam_that_holds_everything_finds_the_best_of_all_texts_with_the_phrases(
    letters: Letters, require: list[object]
) -> None:
    """Any sequence of pieces that writes the text counts, whichever way it spells the phrase."""
    model, demands = TableModel(2, 5, letters.vocabulary_size, seed=3), Demands.of(require)
    search = Search(beam=EVERYTHING, n_best=5)
    limits = [5, 4]
    found = run(model, limits, search, [letters.planner.plan(demands)] * 2)
    for sentence, limit in enumerate(limits):
        expected = best_of_all(letters, model, sentence, limit, search, demands)
        if expected:
            assert [tuple(one.pieces) for one in found[sentence]] == [pieces for pieces, _ in expected]
            assert [one.score for one in found[sentence]] == pytest.approx([score for _, score in expected], abs=1e-4)
        else:
            assert demands.told(letters.decode(found[sentence][0].pieces))[1]
