"""Beam search against exhaustive search and against its definition, on a table model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.torch import TorchEngine
from dragoman.search.beam import Rules, beam_search, fast_topk
from dragoman.search.types import Hypothesis, Sampling, Search
from dragoman.text.special_tokens import BOS, EOS, PAD
from table_model import TableModel, beam_from_definition, exhaustive

EVERYTHING = 400  # more slots than there are sequences of up to 4 of 4 tokens, 341


def run(model: TableModel, sentences: list[int], limits: list[int], search: Search, **more: object) -> list:
    source = torch.tensor(sentences)[:, None]
    return beam_search(model, source, Padded(1), torch.tensor(limits), search, **more)  # type: ignore[arg-type]


def check(found: list[Hypothesis], expected: list[tuple[tuple[int, ...], float]], search: Search) -> None:
    assert [tuple(hypothesis.ids) for hypothesis in found] == [tokens for tokens, _ in expected]
    for hypothesis, (tokens, score) in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(score, rel=1e-4, abs=1e-5)
        lp = ((5 + len(tokens) + 1) / 6) ** search.length_penalty
        assert hypothesis.log_probability == pytest.approx(score * lp, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.7, -0.5])
@pytest.mark.parametrize(
    ("rules", "prefix"),
    [({}, []), ({"min_length": 3}, []), ({"no_repeat": 2}, []), ({"min_length": 2, "no_repeat": 1}, []), ({}, [5, 3])],
)
def test_a_beam_that_holds_everything_finds_the_best_of_all_sequences(
    alpha: float, rules: dict[str, int], prefix: list[int]
) -> None:
    search = Search(beam=EVERYTHING, n_best=12, length_penalty=alpha, **rules)
    limits = [4, 2, 3]
    if "min_length" in rules:
        limits = [max(limit, rules["min_length"]) for limit in limits]
    model = TableModel(3, 4, 7, seed=3)
    found = run(model, [0, 1, 2], limits, search, prefixes=[prefix] * 3)
    for sentence, limit in enumerate(limits):
        check(found[sentence], exhaustive(model, sentence, limit, search, prefix), search)
        for hypothesis in found[sentence]:
            assert hypothesis.truncated == (len(hypothesis.ids) == max(limit, len(prefix)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 6),
    n_best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.5, -0.3]),
    min_length=st.integers(0, 3),
    no_repeat=st.integers(0, 3),
    sharpness=st.sampled_from([0.3, 1.5, 4.0]),
    prefixed=st.booleans(),
)
def test_every_beam_is_what_the_definition_says(
    seed: int,
    beam: int,
    n_best: int,
    alpha: float,
    min_length: int,
    no_repeat: int,
    sharpness: float,
    prefixed: bool,
) -> None:
    search = Search(
        beam=beam, n_best=min(n_best, beam), length_penalty=alpha, min_length=min_length, no_repeat=no_repeat
    )
    limits = [5, 9, 3, 7]
    model = TableModel(4, 9, 11, seed, sharpness)
    prefixes = [[], [4], [9, 8, 7, 6], [5, 10]] if prefixed else None
    found = run(model, [0, 1, 2, 3], limits, search, prefixes=prefixes)
    for sentence, limit in enumerate(limits):
        prefix = prefixes[sentence] if prefixes else ()
        check(found[sentence], beam_from_definition(model, sentence, limit, search, prefix), search)
    assert found == run(model, [0, 1, 2, 3], limits, search, prefixes=prefixes, patient=True)


def test_stopping_early_saves_steps_and_changes_nothing() -> None:
    saved = 0
    for seed in range(20):
        model = TableModel(5, 30, 9, seed, sharpness=2.5)
        search = Search(beam=5, n_best=2)
        early = run(model, [0, 1, 2, 3, 4], [30, 30, 12, 30, 30], search)
        quick, model.steps = sum(model.steps), []
        assert early == run(model, [0, 1, 2, 3, 4], [30, 30, 12, 30, 30], search, patient=True)
        saved += sum(model.steps) - quick
    assert saved > 0


def test_company_order_and_number_change_nothing() -> None:
    model = TableModel(40, 12, 13, seed=8)
    search, limits = Search(beam=4, n_best=3), [1 + i % 12 for i in range(40)]
    together = run(model, list(range(40)), limits, search)
    mixed = torch.randperm(40).tolist()
    for size in (1, 7):
        for start in range(0, 40, size):
            here = mixed[start : start + size]
            assert run(model, here, [limits[i] for i in here], search) == [together[i] for i in here]


def test_finished_sentences_leave_and_slots_narrow() -> None:
    model = TableModel(6, 20, 9, seed=1, sharpness=2.0)
    found = run(model, list(range(6)), [20] * 6, Search(beam=4, n_best=4))
    assert model.steps[0] == 6
    assert max(model.steps) <= 24
    assert model.steps[-1] < 8
    longest = max(len(hypothesis.ids) for best in found for hypothesis in best)
    assert len(model.steps) <= longest + 2


def test_no_sentences_and_no_room() -> None:
    model = TableModel(2, 3, 7, seed=2)
    assert run(model, [], [], Search()) == []
    found = run(model, [0, 1], [0, 2], Search(beam=2))
    assert found[0][0].ids == []
    assert found[0][0].truncated
    assert found[0][0].log_probability == pytest.approx(model.total(0, []), rel=1e-5)


def test_where_the_guards_leave_nothing_eos_is_left() -> None:
    """Four tokens without repetition can be four long at most, but six are asked for."""
    model = TableModel(1, 8, 7, seed=4)
    found = run(model, [0], [8], Search(beam=3, min_length=6, no_repeat=1))
    assert len(set(found[0][0].ids)) == len(found[0][0].ids) == 4


def slow_greedy(model: Transformer, source: list[int], limit: int) -> list[int]:
    """The likeliest next token, each time from the beginning."""
    written: list[int] = []
    while len(written) < limit:
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *written]]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        token = int(logits.argmax())
        if token == EOS:
            break
        written.append(token)
    return written


def talkative(seed: int, vocabulary: int = 17, **changes: object) -> Transformer:
    """A small Transformer with weights by chance, of which some sentences end before their limit."""
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0)
    torch.manual_seed(seed)
    model = Transformer(replace(recipe, **changes), vocabulary).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        model.embeddings.tables["shared"][EOS] *= 1.5
    return model


def test_greedy_is_beam_1_and_the_cache_changes_nothing() -> None:
    ended = 0
    for seed in range(5):
        model = talkative(seed)
        sources = [torch.randint(4, 17, (n,)).tolist() for n in (3, 6, 1, 4)]
        for limit in (1, 4, 12):
            found = TorchEngine(model).search(sources, Search(beam=1, max_length=limit))
            with torch.no_grad():
                for source, best in zip(sources, found, strict=True):
                    expected = slow_greedy(model, [*source, EOS], limit)
                    assert best[0].ids == expected
                    assert best[0].truncated == (len(expected) == limit)
                    ended += len(expected) < limit
    assert 0 < ended < 60  # both ways of ending were tried


def test_every_device_searches_alike(device: torch.device) -> None:
    sources = [torch.randint(4, 17, (n,)).tolist() for n in (5, 2, 7)]
    for search in (Search(beam=3, n_best=2, max_length=9), Search(sampling=Sampling(top_k=5), max_length=9)):
        here = TorchEngine(talkative(3)).search(sources, search)
        there = TorchEngine(talkative(3).to(device), device).search(sources, search)
        for one, other in zip(here, there, strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-3)


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre", "positions": "learned"}, {"attention": "additive"}])
def test_scores_of_the_transformer_are_those_of_teacher_forcing(changes: dict[str, str]) -> None:
    model = talkative(3, **changes)
    sources = [torch.randint(4, 17, (n,)).tolist() for n in (5, 2, 7)]
    search = Search(beam=4, n_best=4, max_length=9)
    for source, best in zip(sources, TorchEngine(model).search(sources, search), strict=True):
        assert len({tuple(hypothesis.ids) for hypothesis in best}) == 4
        for hypothesis in best:
            out = [*hypothesis.ids, EOS]
            with torch.no_grad():
                log_p = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *out[:-1]]])).log_softmax(-1)[0]
            total = float(log_p[torch.arange(len(out)), torch.tensor(out)].sum())
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
            assert hypothesis.score == pytest.approx(total / search.normalizer(len(out)), abs=1e-4)


@pytest.mark.parametrize("columns", [5, 64, 200, 1000, 1024])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_the_largest_by_blocks_are_the_largest(columns: int, n: int) -> None:
    logits = torch.randn(3, columns)
    logits[1, 7:] = -torch.inf
    logits[2, :-3] = -torch.inf
    best, places = fast_topk(logits, n)
    assert torch.equal(best, logits.topk(n).values)
    assert torch.equal(logits.gather(1, places), best)
    assert all(len(set(row)) == n for row in places.tolist())


def test_a_repetition_is_forbidden_only_where_it_would_be_one() -> None:
    logits = torch.zeros(2, 9)
    written = torch.tensor([[5, 6, 7, 5, 6], [5, 6, 5, 5, 7]])
    Rules(Search(no_repeat=3), torch.tensor([20, 20])).apply(logits, written, 5, torch.arange(2))
    allowed = (logits > -torch.inf).tolist()
    assert allowed[0] == [False, False, True, True, True, True, True, False, True]  # 5 6 7 was there
    assert allowed[1] == [False, False, *[True] * 7]
