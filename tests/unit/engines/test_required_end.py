"""Searches with required phrases end by a rule of their own, which all engines share with the PyTorch search."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.modeldir.layout import load_tokenizers
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.tables import ConstraintCompiler
from dragoman.search.constraints.token_bytes import Spelling
from dragoman.search.types import Search
from native_engines import load_native

FIXTURES = Path(__file__).parents[2] / "fixtures" / "before"
N = 12  # lines


@pytest.fixture(scope="module")
def reference() -> TorchEngine:
    return TorchEngine.load(FIXTURES / "trained")


@pytest.fixture(params=["native", "cuda"])
def engine(request: pytest.FixtureRequest, reference: TorchEngine) -> NativeEngine | CudaEngine:
    if request.param == "native":
        return load_native(FIXTURES / "trained")
    return CudaEngine(reference.model, torch.float32, "cpu")


@pytest.mark.parametrize("beam", [2, 4])
def test_engines_end_searches_with_required_words_alike(
    engine: NativeEngine | CudaEngine, reference: TorchEngine, beam: int
) -> None:
    """Longer hypotheses, which the length penalty prefers, are no longer searched for."""
    source, target = load_tokenizers(FIXTURES / "trained")
    lines, others = ((FIXTURES / name).read_text(encoding="utf-8").splitlines()[:40] for name in ("t.en", "t.de"))
    compiler = ConstraintCompiler(Spelling(target))
    tables = [compiler.compile(Constraints.of([others[(7 * i + 3) % 40].split()[0]])) for i in range(N)]
    sources, search = source.encode_many(lines[:N]), Search(beam=beam, length_penalty=5.0)
    found, expected = (one.search(sources, search, constraints=tables) for one in (engine, reference))
    assert [of[0].ids for of in found] == [of[0].ids for of in expected]
