"""Prefixes, `no_repeat`, lexical constraints and recorded attention in the CUDA engine, against the PyTorch search."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.rules import BatchRules
from dragoman.engines.cuda.state import GraphShape, ModelWeights, SearchState, decode_step
from dragoman.engines.torch import TorchEngine
from dragoman.errors import ShapeError
from dragoman.search.constraints.beam import BeamAllocator
from dragoman.search.constraints.forbidden import AFTER_OTHER, AFTER_WORD, forbidden_tokens
from dragoman.search.constraints.phrases import count_occurrences
from dragoman.search.constraints.tables import ConstraintTables
from dragoman.search.constraints.token_bytes import BYTE, OPENING, OTHER, WORD
from dragoman.search.types import Hypothesis, Ids, RecordedHead, Search
from dragoman.text import normalize
from dragoman.text.special_tokens import EOS
from letters import Letters, random_constraints, random_letters, random_tables
from raising import raises
from random_models import sentences

VOCABULARY = 61
LETTERS = random_letters(VOCABULARY, Random(7))


@cache
def some_model(seed: int = 1) -> Transformer:
    """A model with clear opinions, some of which are that a sentence should end."""
    torch.manual_seed(seed)
    order = "pre" if seed % 2 else "post"
    recipe = ModelRecipe(
        d_model=24, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0, norm_order=order,  # type: ignore[arg-type]
        output_bias=seed % 3 == 0,
    )  # fmt: skip
    model = Transformer(recipe, VOCABULARY).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        model.embeddings.projection()[EOS] *= 1.3
    return model


def random_search(draw: Random) -> Search:
    beam = draw.randint(1, 5)
    return Search(
        beam,
        draw.choice([0.0, 0.6, 1.4]),
        draw.randint(1, beam),
        extra_length=draw.randint(0, 9),
        max_length=draw.choice([None, None, 7, 2]),
        min_length=draw.choice([0, 0, 2]),
        no_repeat=draw.choice([0, 0, 0, 1, 2, 3]),
    )


def check_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.truncated for h in ours] == [h.truncated for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


def check_maps(
    model: Transformer, sources: Ids, found: list[list[Hypothesis]], record: list[RecordedHead], near: float = 1e-5
) -> None:
    """The recorded maps are those of a forced pass over the hypotheses."""
    pairs = [(source, h.ids) for source, of in zip(sources, found, strict=True) for h in of]
    maps = [h.maps for of in found for h in of]
    for i, weights in TorchEngine(model, next(model.parameters()).device).cross_maps(pairs):
        expected = [weights[r.layer].mean(0) if r.head is None else weights[r.layer, r.head] for r in record]
        assert maps[i] == pytest.approx(np.stack(expected), abs=near)


@pytest.mark.parametrize("seed", range(7))
def test_any_search_with_rules_equals_the_reference_engine(seed: int) -> None:
    draw = Random(seed)
    model, n = some_model(seed % 6), draw.randint(1, 9)
    sources, search = sentences(n, VOCABULARY, 9, seed), random_search(draw)
    prefixes = sentences(n, VOCABULARY, 5, seed + 100) if draw.random() < 0.5 else None
    tables = random_tables(LETTERS, n, draw) if draw.random() < 0.8 else None
    record = [RecordedHead(0, 2), RecordedHead(1, None)] if draw.random() < 0.5 else []
    engine = CudaEngine(model, torch.float32, "cpu")
    found = engine.search(sources, search, prefixes, tables, record=record)
    check_same(found, TorchEngine(model).search(sources, search, prefixes, tables))
    assert all((h.maps is not None) == bool(record) for of in found for h in of)
    if record:
        check_maps(model, sources, found, record)


def test_the_last_few_sentences_take_their_rules_to_a_smaller_state() -> None:
    model, draw = some_model(5), Random(3)
    sources = [*sentences(15, VOCABULARY, 2), sentences(1, VOCABULARY, 16, seed=4)[0]]
    prefixes, tables = sentences(16, VOCABULARY, 2, seed=6), random_tables(LETTERS, 15, draw)
    tables.append(LETTERS.plan(["abc", "de"], ["你"]))
    search, record = Search(beam=2, extra_length=1, no_repeat=3), [RecordedHead(1, 1)]
    engine = CudaEngine(model, torch.float32, "cpu")
    found = engine.search(sources, search, prefixes, tables, record=record)
    check_same(found, TorchEngine(model).search(sources, search, prefixes, tables))
    check_maps(model, sources, found, record)
    assert len({shape.sentences for shape in engine.decoders}) > 1


def test_batches_of_similar_constraints_share_a_graph_and_remember_nothing() -> None:
    model, sources = some_model(2), [[5, 6, 7], [8], [9, 4]]
    engine, search = CudaEngine(model, torch.float32, "cpu"), Search(beam=3, extra_length=2)
    for require, avoid, prefix in (("ab", "c", [5]), ("de c", "b", []), ("b", "你好", [9, 4])):
        tables = [LETTERS.plan([require], [avoid])] * 2 + [None]
        found = engine.search(sources, search, [[7], prefix, []], tables)
        check_same(found, TorchEngine(model).search(sources, search, [[7], prefix, []], tables))
    assert len(engine.decoders) == 1
    free = engine.search(sources, search)
    check_same(free, TorchEngine(model).search(sources, search))
    assert len(engine.decoders) == 2 and all(h.maps is None for of in free for h in of)


class AskedHostError(Exception):
    """A CUDA graph could not be recorded: a size or a branch depends on the data, or there is a new constant."""


def forbid_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise in operations that cannot be recorded."""

    def asks(*args: Any, **kwargs: Any) -> Any:
        raise AskedHostError

    for name in ("item", "tolist", "nonzero", "unique", "cpu", "__bool__", "__int__", "__float__", "__index__"):
        monkeypatch.setattr(torch.Tensor, name, asks)
    for name in ("tensor", "from_numpy", "nonzero", "unique", "equal", "masked_select"):
        monkeypatch.setattr(torch, name, asks)
    get = torch.Tensor.__getitem__

    def get_without_masks(self: torch.Tensor, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        return asks() if any(isinstance(k, torch.Tensor) and k.dtype == torch.bool for k in keys) else get(self, key)

    monkeypatch.setattr(torch.Tensor, "__getitem__", get_without_masks)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_with_all_rules_asks_the_host_nothing(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a graph of a GPU needs, checked without one."""
    tables = [LETTERS.plan(["ab", ["c", "de"]], ["你", "b d"]), None, LETTERS.plan(["你好"])]
    rules = BatchRules([[5, 6], [], [7]], 2, tables, 32)
    recorded = (RecordedHead(0, None), RecordedHead(1, 2))
    weights, kernels = ModelWeights(some_model()), TorchKernels()
    state = SearchState(weights, GraphShape(4, beam, 32, 32, rules.shape, recorded), kernels.follow)
    state.begin_rules(rules)
    state.limit.fill_(20)
    state.source_length.fill_(5)
    state.n_best.fill_(1)
    with torch.inference_mode(), monkeypatch.context() as patched:
        forbid_the_host(patched)
        for _ in range(5):
            decode_step(weights, state, kernels)
        with pytest.raises(AskedHostError):
            bool(state.done.all())
    assert state.history[1:3, 0].tolist() == [5, 6]


def test_the_lists_of_forbidden_tokens_are_those_of_the_automaton() -> None:
    draw, begun = Random(5), 0
    for _ in range(30):
        if not (avoid := random_constraints(draw).avoid):
            continue
        tables = LETTERS.compiler.compile_avoided(avoid)
        lists = forbidden_tokens(tables)
        for state in range(len(tables.transitions)):
            for last in (OTHER, WORD, BYTE, OPENING):
                kind = AFTER_WORD if last == WORD else AFTER_OTHER
                found = [*lists.anywhere[kind].tolist(), *lists.begun[state][kind].tolist()]
                assert sorted(found) == tables.forbidden(state, last).tolist(), (avoid, state, last)
                begun += len(lists.begun[state][kind])
    assert begun > 50


def test_prefixes_and_constraints_that_do_not_fit() -> None:
    engine = CudaEngine(some_model(), torch.float32, "cpu")
    with raises(ShapeError, "count_mismatch"):
        engine.search([[5]], Search(), [[5], [6]])
    with raises(ShapeError, "unknown_id", "61"):
        engine.search([[5]], Search(), [[VOCABULARY]])
    with raises(ShapeError, "vocabulary_mismatch", "61"):
        engine.search([[5]], Search(), constraints=[Letters("▁a", "a").plan(["a"])])
    learned = ModelRecipe(
        d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=1, positions="learned", max_positions=9
    )
    short = CudaEngine(Transformer(learned, VOCABULARY), torch.float32, "cpu")
    assert short.search([[5]], Search(beam=2), [[5] * 8])[0][0].ids == [5] * 8
    with raises(ShapeError, "text_too_long", "9"):
        short.search([[5]], Search(), [[5] * 9])


@pytest.mark.gpu
@pytest.mark.parametrize("plain", [False, True])
def test_on_a_gpu_searches_with_rules_equal_the_reference_engine(plain: bool) -> None:
    """Recorded in graphs; rounding may decide between near equals. In bfloat16, the constraints are kept."""
    vocabulary, n, draw = 1300, 64, Random(3)
    letters = random_letters(vocabulary, draw)
    torch.manual_seed(2)
    recipe = ModelRecipe(
        d_model=64, n_heads=4, d_ff=96, encoder_layers=2, decoder_layers=2, norm_order="pre", output_bias=True
    )
    model = Transformer(recipe, vocabulary).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
        model.embeddings.projection()[EOS] *= 4
    sources, prefixes = sentences(n - 1, vocabulary, 9), sentences(n, vocabulary, 3, seed=8)
    sources.append(sentences(1, vocabulary, 40, seed=2)[0] * 2)  # continues in a smaller state
    tables, record = random_tables(letters, n, draw), [RecordedHead(0, 1), RecordedHead(1, None)]
    reference = TorchEngine(model.cuda(), "cuda")
    for beam, constraints, no_repeat in ((1, None, 2), (4, tables, 0)):
        search = Search(beam=beam, n_best=min(beam, 2), extra_length=25, no_repeat=no_repeat)
        expected = reference.search(sources, search, prefixes, constraints)
        kernels = TorchKernels() if plain else None
        found = CudaEngine(model, torch.float32, kernels=kernels).search(
            sources, search, prefixes, constraints, record=record
        )
        alike = [(a[0], b[0]) for a, b in zip(found, expected, strict=True) if a[0].ids == b[0].ids]
        assert len(alike) >= n - 3
        assert all(a.score == pytest.approx(b.score, rel=1e-4, abs=1e-3) for a, b in alike)
        check_maps(model, sources, found, record, near=1e-4)
    rounded = CudaEngine(model, torch.bfloat16, kernels=TorchKernels() if plain else None)
    for one, hypotheses in zip(tables, rounded.search(sources, search, None, tables), strict=True):
        check_constraints(letters, one, hypotheses[0])


def check_constraints(letters: Letters, tables: ConstraintTables | None, best: Hypothesis) -> None:
    """The text has what is required, unless it was cut off, and nothing that is avoided."""
    text = normalize(letters.decode(best.ids))
    if tables is not None and tables.avoided is not None:
        assert not count_occurrences(text, tables.avoided.phrases)
    if tables is not None and tables.required is not None and not best.truncated:
        follow = BeamAllocator.from_tables([tables], torch.device("cpu"))
        assert follow is not None
        for token in [*best.ids, EOS]:
            follow.advance(torch.tensor([0]), torch.tensor([token]))
        assert (follow.now.met >= follow.tables.needed).all()
