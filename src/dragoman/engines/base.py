"""Engine protocol, declared capabilities, and the spec that checks and loads an engine. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Protocol, runtime_checkable

from dragoman.errors import SearchError, ShapeError
from dragoman.search.types import Hypothesis, Ids, RecordedHead, Search, StopFlag
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.arrays import Int32Array
    from dragoman.config import ModelRecipe
    from dragoman.engines.cuda.process import EngineProcess
    from dragoman.engines.select import EngineSelector
    from dragoman.search.constraints.tables import BatchConstraints
    from dragoman.search.hypotheses import HypothesisTable

SearchKind = Literal["greedy", "beam", "sampling"]
DeviceKind = Literal["cpu", "gpu"]


def device_kind(device: str) -> DeviceKind:
    """The kind of a device, from its name."""
    return "cpu" if device == "cpu" else "gpu"


@dataclass(frozen=True)
class EngineRequest:
    """What a request needs from an engine; precision "auto" and device None accept any."""

    search: Search = field(default_factory=Search)
    prefixes: bool = False
    constraints: bool = False
    models: int = 1
    precision: str = "auto"
    device: str | None = None


@dataclass(frozen=True)
class Capabilities:
    """What an engine supports, known before it is loaded; each field has its label for tables."""

    devices: Annotated[tuple[DeviceKind, ...], "devices"]
    precisions: Annotated[tuple[str, ...], "precisions, default first"]  # "auto" takes the first
    searches: Annotated[tuple[SearchKind, ...], "searches"]
    max_beam: Annotated[int, "largest beam"]
    no_repeat: Annotated[bool, "`no_repeat`"]
    prefixes: Annotated[bool, "forced prefixes"]
    constraints: Annotated[bool, "required, avoided phrases"]
    ensembles: Annotated[bool, "ensembles"]
    scoring: Annotated[bool, "scoring"]
    attention: Annotated[bool, "attention of given pairs"]
    alignment: Annotated[bool, "word alignment"]
    records_attention: Annotated[bool, "attention without a second pass"]
    position_codes: Annotated[tuple[str, ...], "position codes"]
    decoders: Annotated[tuple[str, ...], "decoder layers"]
    batch_invariant: Annotated[bool, "bit-identical in any batch"]
    concurrent: Annotated[bool, "concurrent searches"]  # `search` may be called from several threads at once
    preferred_batch: Annotated[int, "preferred batch, sentences"]  # per thread, where threads have separate batches

    def missing(self, request: EngineRequest) -> list[str]:
        """The parts of `request` that this engine does not support, in the user's terms."""
        search = request.search
        kind: SearchKind = "sampling" if search.sampling else "greedy" if search.beam == 1 else "beam"
        supported = {
            f"device={request.device!r}": request.device is None or device_kind(request.device) in self.devices,
            f"precision={request.precision!r}": request.precision in ("auto", *self.precisions),
            f"an ensemble of {request.models} models": self.ensembles or request.models == 1,
            f"beam={search.beam}": search.beam <= self.max_beam,
            "sampling" if kind == "sampling" else f"{kind} search": kind in self.searches,
            f"no_repeat={search.no_repeat}": self.no_repeat or not search.no_repeat,
            "a prefix": self.prefixes or not request.prefixes,
            "required or avoided phrases": self.constraints or not request.constraints,
        }
        return [part for part, is_supported in supported.items() if not is_supported]


def unusual_part(recipe: ModelRecipe, position_codes: tuple[str, ...]) -> str | None:
    """The first setting of a model that differs from the paper, ignoring position codes in `position_codes`."""
    plain = {"architecture": "transformer", "attention": "scaled_dot_product", "pattern": "full", "norm": "layer"}
    plain |= {"autoregression": "self_attention"}
    unusual = [name for name, value in plain.items() if getattr(recipe, name) != value]
    unusual += ["positions"] if recipe.positions not in position_codes else []
    return f"model.{unusual[0]}={getattr(recipe, unusual[0])!r}" if unusual else None


def check_has_attention(recipe: ModelRecipe) -> None:
    """Raise if the decoder of a model does not attend to the source."""
    if recipe.attention == "none":
        raise SearchError(
            "this model has no attention (model.attention='none'), so there are no attention weights and no word "
            "alignments; use a model with attention",
            code="no_attention",
        )


class SearchCall(NamedTuple):
    """The arguments of `Engine.search`."""

    sources: Ids
    search: Search
    prefixes: Ids | None = None
    constraints: BatchConstraints | None = None
    stop: StopFlag | None = None
    record: Sequence[RecordedHead] = ()


class Engine(Protocol):
    """Translates ids to ids. Engines differ in speed and in what they support."""

    name: str
    batch: int  # preferred number of sentences per call

    @property
    def capabilities(self) -> Capabilities:
        """What the engine supports with its loaded model."""

    @property
    def precision(self) -> str:
        """The precision of its computations: "int8", "bfloat16", "float32", or a library's own name."""

    @property
    def threads(self) -> int | None:
        """Number of CPU threads; None on other devices."""

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> Sequence[list[Hypothesis]]:
        """Return the best hypotheses for each source, best first; sources are ids without special tokens.

        A fast engine returns a `HypothesisTable`.

        The caller groups sentences of similar length; a forced prefix is part of the hypothesis and its score. Another
        thread may set `stop`: then SearchInterruptedError is raised after the step that runs. `record` is for engines
        with the capability `records_attention`.
        """


@runtime_checkable
class QueuedEngine(Engine, Protocol):
    """An engine that takes the next batches while it searches one."""

    def search_all(self, calls: Iterable[SearchCall]) -> list[HypothesisTable]:
        """The results of several calls of `search`; all are queued at once."""


@dataclass(frozen=True)
class EngineSpec:
    """An engine before it is loaded.

    `unavailable` returns the reason why it cannot run a model on a device of this machine, or None if it can; without
    a recipe, it checks whether it can run any model. `load` returns None if the engine is not available. `start` starts
    a loaded engine once more in a process of its own, for engines that gain from it.
    """

    name: str
    capabilities: Capabilities
    unavailable: Callable[[ModelRecipe | None, str], str | None]
    load: Callable[[EngineSelector], Engine | None]
    start: Callable[[EngineSelector, Engine], EngineProcess] | None = None


def check_supported(engine: Engine, search: Search, prefixes: Ids | None, constraints: BatchConstraints | None) -> None:
    """Raise if a loaded engine does not support a search; the selector never chooses such an engine."""
    has_prefixes = prefixes is not None and any(prefixes)
    missing = engine.capabilities.missing(EngineRequest(search, has_prefixes, constraints is not None))
    if missing:
        message = f"the engine {engine.name!r} does not support {', '.join(missing)}; use 'torch'"
        raise SearchError(message, code="unsupported_by_engine")


def check_batch(sources: Sized, prefixes: Ids | None, constraints: BatchConstraints | None, vocabulary: int) -> None:
    """Raise if prefixes or constraints do not belong to the sources, or to a target vocabulary of this size."""
    for one, many, given in (("prefix", "prefixes", prefixes), ("set", "sets of constraints", constraints)):
        if given is not None and len(given) != len(sources):
            counts = f"{plural(len(given), one, many)} for {plural(len(sources), 'source')}"
            raise ShapeError(f"got {counts}; give one for each", code="count_mismatch")
    for spelling in {id(one.spelling): one.spelling for one in constraints or () if one is not None}.values():
        if len(spelling.stream) != vocabulary:
            raise ShapeError(
                f"the constraints are for a vocabulary of {len(spelling.stream):,} tokens, but the model has "
                f"{vocabulary:,}; compile them with the tokenizer of this model",
                code="vocabulary_mismatch",
            )
    check_ids("prefix", prefixes or (), vocabulary)


def check_ids(what: str, rows: Ids, size: int) -> tuple[Int32Array, Int32Array]:
    """Rows as one array, and their lengths; raise if an id is not in a vocabulary of this size."""
    from dragoman.arrays import concatenate

    try:
        ids, lengths = concatenate(rows)
        bounds = int(ids.min(initial=0)), int(ids.max(initial=0))
    except OverflowError:  # beyond 32 bits
        bounds = min(min(row) for row in rows if row), max(max(row) for row in rows if row)
    for wrong in bounds:
        if not 0 <= wrong < size:
            message = f"a {what} has the id {wrong}; the vocabulary has {size} tokens: ids 0 to {size - 1}"
            raise ShapeError(message, code="unknown_id")
    return ids, lengths
