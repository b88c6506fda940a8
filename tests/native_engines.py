"""Native engines for tests, which skip where the C library cannot be built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.native import why_not
from dragoman.search.ensemble import Ensemble
from dragoman.search.types import Mean


def load_native(
    directory: Path, threads: int = 1, quantize: bool = False, others: Sequence[Path] = (), mean: Mean = "probabilities"
) -> NativeEngine:
    """The native engine of a model, or of an ensemble."""
    engine = NativeEngine.load(directory, threads, quantize, others, mean)
    if engine is None:
        pytest.skip(str(why_not("translate")))
    return engine


def load_ensembles(places: Sequence[Path], mean: Mean) -> tuple[TorchEngine, NativeEngine]:
    """The same ensemble in PyTorch and in C."""
    reference = TorchEngine(Ensemble([TorchEngine.load(place).model for place in places], mean))
    return reference, load_native(places[0], 2, False, places[1:], mean)
