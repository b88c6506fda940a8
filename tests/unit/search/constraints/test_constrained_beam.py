"""Required and avoided phrases against exhaustive search, on a table model."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from itertools import permutations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman import Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.torch import TorchEngine
from dragoman.search.beam import beam_search
from dragoman.search.constraints.beam import BeamAllocator, allocation_order
from dragoman.search.constraints.phrases import Constraints, count_occurrences
from dragoman.search.constraints.tables import ConstraintTables
from dragoman.search.sampling import sample
from dragoman.search.types import Hypothesis, Sampling, Search
from letters import Letters
from table_model import TableModel, all_sequences

SPACED = Letters("▁a", "a", "b", "▁b", "▁ab")
HAN = Letters("你", "好", "▁a", "a", "。")
BYTES = Letters("a", "<0xC3>", "<0xA9>", "<0xA8>", "▁")
EVERYTHING = 4000


HALF = "\N{REPLACEMENT CHARACTER}"
UNCLEAR = re.compile(f"[{HALF}éè]")  # what is spelled in bytes may be a letter or not, as far as a search can see
Search_ = dict[str, object]


def run(
    model: TableModel,
    limits: list[int],
    search: Search,
    tables: list[ConstraintTables | None] | None,
    sentences: list[int] | None = None,
    **more: object,
) -> list[list[Hypothesis]]:
    source = torch.tensor(sentences or list(range(len(limits))))[:, None]
    return beam_search(model, source, Padded(1), torch.tensor(limits), search, constraints=tables, **more)  # type: ignore[arg-type]


def right(letters: Letters, tokens: Sequence[int], constraints: Constraints) -> bool:
    """By the definition, in text alone: what is avoided must not stand there after any of the tokens."""
    texts = [letters.decode(tokens[:i]) for i in range(len(tokens) + 1)]
    if any(count_occurrences(UNCLEAR.sub("#", text), (word,)) for text in texts for word in constraints.avoid):
        return False
    return not constraints.met_and_unmet(texts[-1].replace(HALF, "x"))[1]


def best_of_all(
    letters: Letters,
    model: TableModel,
    sentence: int,
    limit: int,
    search: Search,
    constraints: Constraints,
    prefix: tuple[int, ...] = (),
) -> list[tuple[tuple[int, ...], float]]:
    """The n best of all sequences whose text has what is demanded."""
    scored = [
        (sequence, model.total(sentence, sequence) / ((5 + len(sequence) + 1) / 6) ** search.length_penalty)
        for sequence in all_sequences(model, limit, search, prefix)
        if right(letters, sequence, constraints)
    ]
    return sorted(scored, key=lambda pair: -pair[1])[: search.n_best]


def check(
    letters: Letters, constraints: Constraints, search: Search, limits: list[int], prefix: tuple[int, ...] = ()
) -> list[list[Hypothesis]]:
    """What a search finds, compared with the best of all sequences; where there is none, it must say so by its text."""
    model = TableModel(len(limits), max(limits), letters.vocabulary_size, seed=3)
    found = run(
        model, limits, search, [letters.compiler.compile(constraints)] * len(limits), prefixes=[prefix] * len(limits)
    )
    for sentence, limit in enumerate(limits):
        expected = best_of_all(letters, model, sentence, limit, search, constraints, prefix)
        if expected:
            assert [tuple(one.ids) for one in found[sentence]] == [tokens for tokens, _ in expected]
            assert [one.score for one in found[sentence]] == pytest.approx([score for _, score in expected], abs=1e-4)
        else:
            assert constraints.met_and_unmet(letters.decode(found[sentence][0].ids))[1]
    return found


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
    """Any sequence of tokens that writes the text counts, whichever way it spells the phrase."""
    check(letters, Constraints.of(require), Search(beam=EVERYTHING, n_best=5), [5, 3])


@pytest.mark.parametrize(
    ("letters", "require", "avoid"),
    [
        (SPACED, [], ["a"]),
        (SPACED, [], ["ab", "b"]),
        (SPACED, [], ["a b", "ba"]),
        (SPACED, ["b"], ["a", "ab"]),
        (SPACED, ["a b"], ["b a"]),
        (HAN, [], ["好"]),
        (HAN, ["你"], ["你好", "a"]),
        (BYTES, [], ["a"]),
    ],
)
def test_what_is_avoided_is_in_none_of_them(letters: Letters, require: list[str], avoid: list[str]) -> None:
    check(letters, Constraints.of(require, avoid), Search(beam=EVERYTHING, n_best=5), [4, 3])


@pytest.mark.parametrize(
    ("rules", "prefix"),
    [
        ({"length_penalty": 0.0}, ()),
        ({"length_penalty": 2.0}, ()),
        ({"min_length": 4}, ()),
        ({"no_repeat": 2}, ()),
        ({}, (5, 7)),
        ({}, (4, 8, 6)),
    ],
)
def test_other_rules_hold_beside(rules: Search_, prefix: tuple[int, ...]) -> None:
    """A forced beginning counts for what it has of the phrases."""
    constraints = Constraints.of(["ab", "b"], ["aa"])
    check(SPACED, constraints, Search(beam=EVERYTHING, n_best=4, **rules), [5], prefix)  # type: ignore[arg-type]


def test_where_there_is_no_room_most_of_it_is_written() -> None:
    constraints = Constraints.of(["a", "b", "ab"])
    model = TableModel(1, 2, SPACED.vocabulary_size, seed=5)
    (found,) = run(model, [2], Search(beam=30, n_best=2), [SPACED.compiler.compile(constraints)])
    for one in found:
        assert one.truncated
        assert len(constraints.met_and_unmet(SPACED.decode(one.ids))[1]) == 1
    (nothing,) = run(model, [0], Search(beam=3), [SPACED.compiler.compile(constraints)])
    assert nothing[0].ids == []


PHRASES = st.lists(st.sampled_from(["a", "b", "ab", "ba", "a b", "b a a", "aab", "abab"]), min_size=1, max_size=3)
SHORTER = st.lists(st.sampled_from(["bb", "b b", "aaa", "bba"]), max_size=2)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 7),
    require=PHRASES,
    avoid=SHORTER,
    sharpness=st.sampled_from([0.3, 1.5, 4.0]),
)
def test_however_narrow_the_beam_what_is_required_is_there_and_what_is_avoided_is_not(
    seed: int, beam: int, require: list[str], avoid: list[str], sharpness: float
) -> None:
    constraints = Constraints.of(require, avoid)
    # A search that puts phrases off until there is just room for them may find that two must not stand side by side.
    rows = {" ".join(row) for row in permutations(require)}
    assume(not any(count_occurrences(row, (word,)) for row in rows for word in avoid))
    model = TableModel(2, 24, SPACED.vocabulary_size, seed, sharpness)
    search = Search(beam=beam, n_best=min(beam, 2))
    plan = SPACED.compiler.compile(constraints)
    found = run(model, [24, 14], search, [plan, plan])
    for best in found:
        for one in best:
            text = SPACED.decode(one.ids)
            assert not constraints.met_and_unmet(text)[1], text
            assert right(SPACED, one.ids, constraints), text
    waited = run(model, [24, 14], search, [plan, plan], patient=True)
    for best, other in zip(found, waited, strict=True):
        assert best[0].score <= other[0].score + 1e-6


def test_the_search_ends_when_no_hypothesis_would_win_by_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact rule would go on: with the length penalty of 60 tokens, an improbable hypothesis might still win."""
    model, plan = TableModel(1, 60, SPACED.vocabulary_size, seed=4, sharpness=1.5), SPACED.plan(["ab"], [])
    steps, step = list[int](), model.step

    def counted(ids: torch.Tensor, state: object) -> object:
        steps.append(len(ids))
        return step(ids, state)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "step", counted)
    (found,) = run(model, [60], Search(beam=4), [plan])
    eager = len(steps)
    monkeypatch.setattr(BeamAllocator, "has_required", torch.tensor([False]))
    (exact,) = run(model, [60], Search(beam=4), [plan])
    assert eager < len(steps) - eager
    assert "ab" in SPACED.decode(found[0].ids) and found[0].score <= exact[0].score


@pytest.mark.parametrize("search", [Search(beam=4, n_best=3), Search(beam=2, length_penalty=2.0)])
def test_company_changes_nothing_whatever_it_demands(search: Search) -> None:
    """A search that may end early ends at the same step, also when each sentence has only one open hypothesis."""
    n = 30
    model = TableModel(n, 14, SPACED.vocabulary_size, seed=9)
    choices = [None, ([], ["a"]), (["ab"], []), (["a", "b b"], ["ba"]), (["b a"], []), ([["ab", "ba"], "b"], ["aaa"])]
    tables = [None if choice is None else SPACED.plan(*choice) for choice in (choices[i % 6] for i in range(n))]
    limits = [3 + i % 12 for i in range(n)]
    together = run(model, limits, search, tables)
    mixed = torch.randperm(n).tolist()
    for size in (1, 7):
        for start in range(0, n, size):
            here = mixed[start : start + size]
            alone = run(model, [limits[i] for i in here], search, [tables[i] for i in here], here)
            assert alone == [together[i] for i in here]
    free = [i for i in range(n) if tables[i] is None]
    assert run(model, [limits[i] for i in free], search, None, free) == [together[i] for i in free]


def test_drawn_texts_do_not_have_what_is_avoided() -> None:
    model = TableModel(3, 9, SPACED.vocabulary_size, seed=2, sharpness=0.3)
    search, limits = Search(sampling=Sampling(), n_best=50, beam=50), torch.tensor([9, 6, 9])
    plan, keys = SPACED.plan(avoid=["a", "b b"]), torch.arange(150).view(3, 50)
    drawn = sample(
        model, torch.tensor([[0], [1], [2]]), Padded(1), limits, search, keys, constraints=[plan, None, plan]
    )  # type: ignore[arg-type]
    avoid = Constraints.of((), ["a", "b b"])
    assert all(right(SPACED, one.ids, avoid) for i in (0, 2) for one in drawn[i])
    plain = sample(model, torch.tensor([[1]]), Padded(1), limits[1:2], search, keys[1:2])  # type: ignore[arg-type]
    assert plain[0] == drawn[1]
    assert not all(right(SPACED, one.ids, avoid) for one in drawn[1])


def test_every_device_heeds_it_alike(device: torch.device) -> None:
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0)
    torch.manual_seed(3)
    model = Transformer(recipe, SPACED.vocabulary_size).eval()
    constraints = [
        Constraints.of(["ab", "b"], ["a"]),
        Constraints(),
        Constraints.of(["aba"]),
        Constraints.of((), ["b", "ab"]),
    ]
    tables = [SPACED.compiler.compile(one) if one else None for one in constraints]
    sources = [torch.randint(4, 9, (n,)).tolist() for n in (5, 2, 7, 3)]
    search = Search(beam=3, n_best=2, max_length=9)
    here = TorchEngine(model).search(sources, search, None, tables)
    there = TorchEngine(copy.deepcopy(model).to(device), device).search(sources, search, None, tables)
    for one, other, asked in zip(here, there, constraints, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-3)
        assert all(right(SPACED, h.ids, asked) for h in one)


def test_slots_go_to_the_best_of_each_bank_in_turn() -> None:
    scores = torch.tensor([[-1.0, -2.0, -3.0, -40.0, -9.0, -torch.inf]])
    far = torch.tensor([[2, 2, 1, 0, 1, 0]])
    room = torch.zeros_like(far, dtype=torch.bool)
    assert allocation_order(scores, far, room)[0, :5].tolist() == [2, 0, 3, 1, 4]
    room[0, 2] = True
    assert allocation_order(scores, far, room)[0, :5].tolist() == [0, 4, 3, 1, 2]
