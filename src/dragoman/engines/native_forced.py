"""Forced decoding in the native engine: probabilities and attention of given translations."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from dragoman.arrays import FloatArray, concatenate
from dragoman.engines.base import check_ids
from dragoman.engines.forced import AttentionKind, EncodedPairs, length_batches
from dragoman.engines.native_layout import ForcedJob, Workers
from dragoman.errors import SearchError
from dragoman.search.types import NOT_FINITE, Mean, StopFlag
from dragoman.text.special_tokens import EOS
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.engines.native import NativeEngine

SCORED_BATCH: Final = 32  # pairs of typical length per batch of a thread
MAPPED_BATCH: Final = 8  # the maps of all heads take memory
Maps = list[tuple[int, FloatArray]]
TILES_UNAVAILABLE: Final = -2  # the return code of native/translate/translate.h


def native_log_probabilities(
    engine: NativeEngine, pairs: EncodedPairs, batch: int | None = None, stop: StopFlag | None = None
) -> list[list[float]]:
    """The log-probabilities of each pair; bit-identical in any batch."""
    check_forced_pairs(engine, pairs)
    found: list[list[float]] = [[] for _ in pairs]

    def run(workers: Workers, indices: list[int], team: int) -> None:
        if stop is not None:
            stop.check()
        sizes = [len(pairs[i][1]) + 1 for i in indices]
        numbers = np.empty(sum(sizes), np.float32)
        force(engine, workers, [pairs[i] for i in indices], team, log_probabilities=numbers)
        if np.isnan(numbers).any():
            raise SearchError(NOT_FINITE, code="not_finite")
        for i, row in zip(indices, np.split(numbers, np.cumsum(sizes)[:-1]), strict=True):
            found[i] = row.tolist()

    engine.run_batches(list(length_batches(pairs, batch or SCORED_BATCH)), run)
    return found


def native_cross_maps(engine: NativeEngine, pairs: EncodedPairs) -> Iterator[tuple[int, FloatArray]]:
    """The index of each pair, and the weights of all heads."""
    check_single_model(engine)
    check_forced_pairs(engine, pairs)
    layers, heads = engine.recipe.decoder_layers, engine.recipe.n_heads
    batches = list(length_batches(pairs, MAPPED_BATCH))
    for start in range(0, len(batches), engine.threads):  # as many at a time as there are threads
        found: Maps = []

        def run(workers: Workers, indices: list[int], team: int, found: Maps = found) -> None:
            shapes = [(layers, heads, len(pairs[i][1]) + 1, len(pairs[i][0]) + 1) for i in indices]
            sizes = [int(np.prod(shape)) for shape in shapes]
            maps = np.empty(sum(sizes), np.float32)
            force(engine, workers, [pairs[i] for i in indices], team, maps={"cross": maps})
            parts = np.split(maps, np.cumsum(sizes)[:-1])
            found.extend((i, part.reshape(shape)) for i, part, shape in zip(indices, parts, shapes, strict=True))

        engine.run_batches(batches[start : start + engine.threads], run)
        yield from found


def native_attention_maps(
    engine: NativeEngine, source: Sequence[int], target: Sequence[int]
) -> dict[AttentionKind, FloatArray]:
    """The weights of all heads for one pair, of each kind of attention."""
    check_single_model(engine)
    check_forced_pairs(engine, [(source, target)])
    recipe, of_source, of_target = engine.recipe, len(source) + 1, len(target) + 1
    shapes: dict[AttentionKind, tuple[int, ...]] = {
        "cross": (recipe.decoder_layers, recipe.n_heads, of_target, of_source),
        "encoder": (recipe.encoder_layers, recipe.n_heads, of_source, of_source),
        "decoder": (recipe.decoder_layers, recipe.n_heads, of_target, of_target),
    }
    if recipe.autoregression == "ssru":
        del shapes["decoder"]
    maps: dict[AttentionKind, FloatArray] = {kind: np.empty(shape, np.float32) for kind, shape in shapes.items()}

    def run(workers: Workers, pair: tuple[Sequence[int], Sequence[int]], team: int) -> None:
        force(engine, workers, [pair], team, maps=maps)

    engine.run_batches([(source, target)], run)
    return maps


def check_single_model(engine: NativeEngine) -> None:
    """Raise for an ensemble, whose models attend each in their own way."""
    if len(engine.models) > 1:
        message = "an ensemble has no attention; request neither attention nor alignment"
        raise SearchError(message, code="no_attention")


def check_forced_pairs(engine: NativeEngine, pairs: EncodedPairs) -> None:
    """Raise on pairs that would lead the C code outside its memory."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    engine.check_positions(max(map(len, (*sources, *targets)), default=0))
    check_ids("source", sources, engine.vocabulary[0])
    check_ids("target", targets, engine.vocabulary[1])


def force(
    engine: NativeEngine,
    workers: Workers,
    pairs: EncodedPairs,
    team: int,
    *,
    log_probabilities: FloatArray | None = None,
    maps: Mapping[AttentionKind, FloatArray] | None = None,
) -> None:
    """Decode pairs, and fill the arrays that are given."""
    source, source_lengths = concatenate([[*source, EOS] for source, _ in pairs])
    target, target_lengths = concatenate([target for _, target in pairs])
    of = maps or {}
    arrays = (
        *(source, source_lengths, target, target_lengths, log_probabilities),
        *(of.get("encoder"), of.get("decoder"), of.get("cross")),
    )
    addresses = [None if array is None else array.ctypes.data for array in arrays]
    mean = get_args(Mean).index(engine.mean)
    job = ForcedJob(len(pairs), team, *addresses, len(engine.models), mean, ctypes.addressof(workers))
    failed = engine.code.force(ctypes.c_void_p(workers[0]), ctypes.byref(job))
    check_result(failed, f"decode {plural(len(pairs), 'pair')} of {plural(len(source) + len(target), 'token')}")


def check_result(failed: int, work: str) -> None:
    """Raise for the return code of a C function; `work` is what it was asked to do."""
    if failed == TILES_UNAVAILABLE:
        message = "the system denies access to the processor's tile registers; use the engine 'torch'"
        raise SearchError(message, code="engine_unavailable")
    if failed:
        raise MemoryError(f"not enough memory to {work}")
