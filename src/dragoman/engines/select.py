"""Which engine does a search: the quickest that can, each loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final, get_args

from dragoman.engines.devices import devices, gpu, known
from dragoman.errors import DragomanError, SearchError
from dragoman.native.build import why_not
from dragoman.search.types import MOST_THREADS, Engine, Mean, Search, whole
from dragoman.values import suggest

if TYPE_CHECKING:
    from dragoman.engines.torch import TorchEngine

ENGINES: Final = ("native", "ctranslate2", "cuda", "torch")
PRECISIONS: Final = ("auto", "int8", "bfloat16", "float32")
HAVE: Final = {
    "native": ("int8", "float32"),
    "ctranslate2": ("int8", "float32"),
    "cuda": ("bfloat16", "float32"),
    "torch": ("float32", "bfloat16"),
}
CONSTRAINS: Final = "torch"  # the one that heeds required and avoided words
ON_CPU: Final = ("native", "ctranslate2", "torch")
ON_GPU: Final = ("cuda", "torch")


@dataclass(frozen=True)
class Running:
    """What does a search; `str` of it is a line for people."""

    engine: str
    precision: str
    device: str
    threads: int | None  # None where the work is not the CPU's
    models: int | None = None  # where several translate together

    def __str__(self) -> str:
        threads = "" if self.threads is None else f", {self.threads} thread{'s' if self.threads > 1 else ''}"
        models = "" if self.models is None else f", {self.models} models"
        return f"{self.engine} engine{models}, {self.precision}, on {self.device}{threads}"


class Engines:
    """The engines of one model directory; "auto" takes the first that is there and can do the search.

    `others` are models that translate together with it, by the `mean` of what they find; PyTorch's engine does that.
    """

    def __init__(
        self,
        directory: Path,
        device: str = "auto",
        engine: str = "auto",
        threads: int | None = None,
        precision: str = "auto",
        others: Sequence[Path] = (),
        mean: Mean = "probabilities",
    ) -> None:
        if engine != "auto" and engine not in ENGINES:
            raise SearchError(f"there is no engine {engine!r}{suggest(str(engine), ('auto', *ENGINES))}")
        if precision not in PRECISIONS:
            raise SearchError(f"there is no precision {precision!r}{suggest(str(precision), PRECISIONS)}")
        if mean not in get_args(Mean):
            raise SearchError(f"there is no mean of {mean!r}{suggest(str(mean), get_args(Mean))}")
        self.others, self.mean, self.chosen = tuple(others), mean, engine
        if others:
            engine = together(engine, precision)
        self.directory, self.precision, device = directory, precision, str(device)  # PyTorch's objects too
        self.threads = None if threads is None else whole("threads", threads, 1, MOST_THREADS)
        for_gpu = [name for name in (ON_GPU if engine == "auto" else (engine,)) if name in ON_GPU and self._has(name)]
        self.device = device if device != "auto" else "cuda" if for_gpu and gpu() else "cpu"
        there = ON_CPU if self.device == "cpu" else ON_GPU
        self.names = [name for name in (there if engine == "auto" else (engine,)) if self._has(name)]
        if not self.names:
            who = f"the engine {engine!r} does not have" if engine != "auto" else f"no engine for {self.device!r} has"
            have = " and ".join(f"{name!r}" for name in ENGINES if self._has(name))
            where = " on a CPU" if precision == "int8" else ""
            raise SearchError(
                f"{who} precision {precision!r}; {have} have it{where}: use one of them, or another precision"
            )
        known(self.device)
        if self.device != "cpu" and engine not in ("auto", *ON_GPU):
            raise SearchError(
                f"the engine {engine!r} works on the CPU, but device {device!r} was asked for; use device 'cpu', or "
                f"one of the engines {' and '.join(map(repr, ON_GPU))}"
            )
        self.loaded: dict[str, Engine | None] = {}
        self.lock = RLock()

    def for_search(self, search: Search, prefixes: bool = False, demands: bool = False) -> Engine:
        """The engine that does such a search, or an error that says why there is none."""
        for name in self.names:
            if demands and name != CONSTRAINS:
                continue
            engine = self.get(name)
            if engine is not None and engine.can(search, prefixes):
                return engine
        raise SearchError(self._why_none(search, prefixes, demands))

    def check_demands(self, search: Search, prefixes: bool) -> None:
        """Refuse words that are required or avoided where the engine that would heed them is ruled out."""
        if CONSTRAINS not in self.names:
            raise SearchError(self._why_none(search, prefixes, True))

    def running(self, search: Search, prefixes: bool = False, demands: bool = False) -> Running:
        """What does such a search, loaded if need be."""
        engine = self.for_search(search, prefixes, demands)
        models = len(self.others) + 1 if self.others else None
        return Running(engine.name, engine.precision, self.device, engine.threads, models)

    def _why_none(self, search: Search, prefixes: bool, demands: bool = False) -> str:
        there = [engine for name in self.names if (engine := self.get(name)) is not None]
        wrong = [(one.name, beyond(one, search, prefixes, demands)) for one in there]
        cannot = "; ".join(f"{name!r} does not do {', '.join(parts)}" for name, parts in wrong)
        if self.chosen == "auto":
            found = cannot or f"{' and '.join(map(repr, self.names))} cannot be had"
            precision = f"precision {self.precision!r}"
            return f"no engine here does this search with {precision}: {found}; use another precision, or 'auto'"
        if there:
            return f"the engine {cannot}; use engine 'auto' or 'torch'"
        match self.chosen:
            case "native":
                why = self._unknown("native") or why_not("translate")
            case "ctranslate2" if find_spec("ctranslate2") is None:
                why = "it is not installed: pip install 'dragoman[ctranslate2]'"
            case "ctranslate2":
                why = self._unknown("ctranslate2")
            case "cuda":
                why = f"it needs an NVIDIA GPU; the devices are: {', '.join(devices())}"
            case _:
                why = None
        return (
            f"the engine {self.chosen!r} cannot be had for {self.directory} on {self.device} here"
            f"{f' ({why})' if why else ''}; use engine 'auto', which takes what there is"
        )

    def _unknown(self, name: str) -> str | None:
        """What of the model an engine does not know, if anything."""
        from dragoman.config import Recipe
        from dragoman.engines import ctranslate2_model as ctranslate2
        from dragoman.engines import native_layout
        from dragoman.modeldir.layout import RECIPE

        model = Recipe.load(self.directory / RECIPE).model
        part = native_layout.unknown(model) if name == "native" else ctranslate2.why_not(model)
        return f"it does not know {part}" if part else None

    def _has(self, name: str) -> bool:
        return self.precision == "auto" or self.precision in HAVE[name]

    def get(self, name: str) -> Engine | None:
        """An engine by its name, None where it cannot be had."""
        with self.lock:
            if name not in self.loaded:
                self.loaded[name] = self._make(name)
            return self.loaded[name]

    def _make(self, name: str) -> Engine | None:
        match name:
            case "native":
                return self._native()
            case "ctranslate2":
                return self._ctranslate2()
            case "cuda":
                return self._cuda()
            case _:
                return self.torch

    @cached_property
    def torch(self) -> TorchEngine:
        """The reference, which also scores and shows attention."""
        import torch

        from dragoman.engines.torch import TorchEngine

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        engine = TorchEngine.load(self.directory, self.device, self.precision == "bfloat16")
        if not self.others:
            return engine
        from dragoman.search.ensemble import Ensemble

        beside = [TorchEngine.load(other, self.device, self.precision == "bfloat16").model for other in self.others]
        return TorchEngine(Ensemble([engine.model, *beside], self.mean), self.device)

    def _native(self) -> Engine | None:
        from dragoman.engines.native import NativeEngine

        return NativeEngine.load(self.directory, self.threads, quantize=self.precision != "float32")

    def _ctranslate2(self) -> Engine | None:
        from dragoman.engines.ctranslate2 import CTranslate2Engine

        try:
            engine = CTranslate2Engine.load(self.directory, self.threads, quantize=self.precision != "float32")
        except (DragomanError, OSError, RuntimeError) as error:  # its cache: not writable, or another is writing there
            if self.chosen == "auto":
                return None
            raise SearchError(
                f"the model cannot be converted for CTranslate2: {error}; set DRAGOMAN_CACHE to a directory that can "
                "be written, or use engine 'auto'"
            ) from None
        if engine is not None and self.precision != "auto" and not engine.precision.startswith(self.precision):
            return None  # this CPU does not have it
        return engine

    def _cuda(self) -> Engine | None:
        if not self.device.startswith("cuda"):
            return None
        import torch

        from dragoman.engines.cuda.engine import CudaEngine

        dtype = torch.float32 if self.precision == "float32" else torch.bfloat16
        return CudaEngine(self.torch.model, dtype, self.device)


def together(engine: str, precision: str) -> str:
    """The engine that drives several models together, or a refusal of what only one model can be driven by."""
    if engine not in ("auto", "torch"):
        raise SearchError(
            f"the engine {engine!r} drives one model; several that translate together are driven by 'torch': use that, "
            "or 'auto'"
        )
    if precision not in ("auto", *HAVE["torch"]):
        raise SearchError(
            f"precision {precision!r} is of engines that drive one model; several that translate together are driven "
            f"by 'torch', which has {' and '.join(map(repr, HAVE['torch']))}"
        )
    return "torch"


def beyond(engine: Engine, search: Search, prefixes: bool, demands: bool = False) -> list[str]:
    """What of a search an engine does not do, each as it was asked for; "this model" where it does none."""
    parts = {
        "this model": (Search(), False),
        f"beam={search.beam}": (Search(beam=search.beam), False),
        "sampling": (Search(sampling=search.sampling), False),
        f"no_repeat={search.no_repeat}": (Search(no_repeat=search.no_repeat), False),
        "a prefix": (Search(), prefixes),
    }
    wrong = [name for name, asked in parts.items() if not engine.can(*asked)]
    if demands and engine.name != CONSTRAINS:
        wrong.append("required or avoided words")
    return wrong[:1] if wrong[:1] == ["this model"] else wrong
