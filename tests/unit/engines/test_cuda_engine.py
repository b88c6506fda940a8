"""The CUDA engine's step on a CPU against the reference engine; on a GPU, recorded against unrecorded."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.state import GraphShape
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError
from dragoman.search.types import Hypothesis, Sampling, Search
from dragoman.text.special_tokens import BOS, EOS, N_SPECIAL, PAD
from raising import raises

VOCABULARY = 19


def some_model(seed: int = 1, **recipe: object) -> Transformer:
    """A model with opinions, some of which are that a sentence should end."""
    torch.manual_seed(seed)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 17, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
    model = Transformer(ModelRecipe(**{**sizes, **recipe}), VOCABULARY).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        model.embeddings.projection()[EOS] *= 1.3
    return model


def some_sources(n: int, longest: int = 9, seed: int = 3) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(N_SPECIAL, VOCABULARY) for _ in range(draw.randint(0, longest))] for _ in range(n)]


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    assert [[h.truncated for h in row] for row in found] == [[h.truncated for h in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        for h, e in zip(row, other, strict=True):
            assert h.score == pytest.approx(e.score, abs=1e-4)
            assert h.log_probability == pytest.approx(e.log_probability, abs=1e-4)


RECIPES: list[dict[str, object]] = [
    {},
    {"norm_order": "pre"},
    {"positions": "learned", "max_positions": 40, "attention_bias": True},
    {"positions": "none", "tie": "target", "activation": "gelu", "output_bias": True},
    {"d_k": 5, "d_v": 7, "tie": "none", "norm_order": "pre", "activation": "tanh", "norm_epsilon": 0.05},
]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("beam", [1, 3])
def test_it_equals_the_reference_engine(recipe: dict[str, object], beam: int) -> None:
    model, sources = some_model(**recipe), some_sources(7)
    search = Search(beam=beam, n_best=max(1, beam - 1), extra_length=5)
    engine = CudaEngine(model, torch.float32, "cpu")
    same(engine.search(sources, search), TorchEngine(model).search(sources, search))


@settings(max_examples=25, deadline=None)  # tests/torture/engine_parity.py has more
@given(
    seed=st.integers(0, 10),
    n=st.integers(1, 6),
    beam=st.integers(1, 6),
    best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.4, -0.5]),
    extra=st.integers(0, 7),
    least=st.integers(0, 6),
    most=st.none() | st.integers(6, 9),
)
def test_any_search_equals_the_reference_engine(
    seed: int, n: int, beam: int, best: int, alpha: float, extra: int, least: int, most: int | None
) -> None:
    model, sources = some_model(seed), some_sources(n, seed=seed)
    search = Search(beam, alpha, min(beam, best), extra_length=extra, max_length=most, min_length=least)
    same(CudaEngine(model, torch.float32, "cpu").search(sources, search), TorchEngine(model).search(sources, search))


def test_sentences_that_are_left_over_go_on_in_a_smaller_state() -> None:
    model = some_model(5)
    sources = [*some_sources(30, longest=3), some_sources(1, longest=90, seed=8)[0] * 3]
    engine, search = CudaEngine(model, torch.float32, "cpu"), Search(beam=2, n_best=2, extra_length=20)
    same(engine.search(sources, search), TorchEngine(model).search(sources, search))
    assert len({shape.sentences for shape in engine.decoders}) > 1


def test_more_sentences_than_fit_are_searched_in_turns_and_old_states_make_room() -> None:
    model, sources = some_model(2), some_sources(23)
    engine, search = CudaEngine(model, torch.float32, "cpu"), Search(beam=3, extra_length=4)
    engine.budget = 3 * GraphShape(4, beam=3, source=32, steps=32).bytes(engine.weights)
    same(engine.search(sources, search), TorchEngine(model).search(sources, search))
    longer = [source * 5 for source in sources[:5]]
    same(engine.search(longer, search), TorchEngine(model).search(longer, search))
    assert sum(shape.bytes(engine.weights) for shape in engine.decoders) <= engine.budget


def test_a_state_is_used_again_and_remembers_nothing() -> None:
    model, sources = some_model(4), some_sources(8)
    engine = CudaEngine(model, torch.float32, "cpu")
    search = Search(beam=3, n_best=3, extra_length=6)
    first = engine.search(sources, search)
    engine.search(sources[::-1], Search(beam=3, extra_length=6, length_penalty=0.0, min_length=4))
    same(engine.search(sources, search), first)
    assert len(engine.decoders) == 1


def test_marks_are_never_written_and_lengths_are_kept() -> None:
    model = some_model(6)
    with torch.no_grad():
        model.embeddings.projection()[[PAD, BOS]] *= 9.0
    found = CudaEngine(model, torch.float32, "cpu").search(
        some_sources(5), Search(beam=4, n_best=4, min_length=6, max_length=6)
    )
    for row in found:
        assert len(row) == 4
        for h in row:
            assert len(h.ids) == 6 and h.truncated
            assert not {PAD, BOS, EOS} & set(h.ids)


def test_learned_positions_end_a_sentence_where_they_end() -> None:
    model = some_model(3, positions="learned", max_positions=11)
    found = CudaEngine(model, torch.float32, "cpu").search([[5, 6, 7]], Search(beam=2, min_length=50))
    assert len(found[0][0].ids) == 10 and found[0][0].truncated


def test_what_it_does_not_support() -> None:
    engine = CudaEngine(some_model(), torch.float32, "cpu")
    assert engine.capabilities.max_beam == VOCABULARY  # fewer tokens than the engine has slots
    for search in (Search(sampling=Sampling()), Search(beam=33), Search(beam=20)):
        with raises(SearchError, "unsupported_by_engine", "'torch'"):
            engine.search([[5]], search)
    for recipe in ({"attention": "additive"}, {"norm": "batch"}, {"positions": "rotary"}):
        with raises(SearchError, "unsupported_model", next(iter(recipe.values()))):
            CudaEngine(some_model(**recipe), torch.float32, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_on_a_gpu_it_equals_the_reference_engine(plain: bool, beam: int) -> None:
    """Rounding may decide between near equals: 99 of 100 sentences, and their scores; with and without Triton."""
    draw = random.Random(1)
    sources = [[draw.randrange(4, 499) for _ in range(draw.randint(0, 40))] for _ in range(300)]
    for order in ("pre", "post"):
        torch.manual_seed(2)
        recipe = ModelRecipe(d_model=64, n_heads=4, d_ff=96, encoder_layers=2, decoder_layers=2, norm_order=order)  # type: ignore[arg-type]
        model = Transformer(recipe, 499).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.1)
            model.embeddings.projection()[EOS] *= 6
        search = Search(beam=beam, n_best=min(beam, 2), extra_length=20)
        expected = TorchEngine(model.cuda(), "cuda").search(sources, search)
        assert 0 < sum(row[0].truncated for row in expected) < 300  # both ways to end
        for dtype in (torch.float32, torch.bfloat16):
            found = CudaEngine(model, dtype, kernels=TorchKernels() if plain else None).search(sources, search)
            alike = [(a[0], b[0]) for a, b in zip(found, expected, strict=True) if a[0].ids == b[0].ids]
            assert len(alike) >= (297 if dtype == torch.float32 else 30)
            near = 1e-4 if dtype == torch.float32 else 0.1
            assert all(a.score == pytest.approx(b.score, rel=near, abs=10 * near) for a, b in alike)


def test_no_sentences() -> None:
    assert CudaEngine(some_model(), torch.float32, "cpu").search([], Search()) == []
