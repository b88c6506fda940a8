"""Choose the fastest engine that supports a request; load engines lazily."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final, cast, get_args

from dragoman.engines.base import Engine, EngineRequest, EngineSpec
from dragoman.engines.forced import ForcedEngine
from dragoman.engines.specs import SPECS
from dragoman.errors import DragomanWarning, MissingExtraError, SearchError
from dragoman.modeldir.layout import RECIPE
from dragoman.search.types import Mean, check_integer
from dragoman.values import MAX_THREADS, describe_value, plural, suggest

if TYPE_CHECKING:
    from dragoman.config import ModelRecipe
    from dragoman.engines.cuda.process import EngineProcess
    from dragoman.engines.torch import TorchEngine

ENGINES: Final = tuple(spec.name for spec in SPECS)
PRECISIONS: Final = ("auto", "int8", "bfloat16", "float32")


@dataclass(frozen=True)
class EngineInfo:
    """The engine that runs a request; `str` gives a readable line."""

    engine: str
    precision: str
    device: str
    threads: int | None  # None on devices other than the CPU
    models: int | None = None  # size of an ensemble

    def __str__(self) -> str:
        threads = "" if self.threads is None else f", {plural(self.threads, 'thread')}"
        models = "" if self.models is None else f", {self.models} models"
        return f"{self.engine} engine{models}, {self.precision}, on {self.device}{threads}"


@dataclass(frozen=True)
class Unsupported:
    """No engine supports a request; `missing` has the parts that each lacks."""

    missing: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return "; ".join(f"{name!r} does not support {', '.join(parts)}" for name, parts in self.missing.items())


def choose_engine(request: EngineRequest, available: Sequence[EngineSpec]) -> EngineSpec | Unsupported:
    """The first engine that supports the request, or what each of them lacks."""
    missing: dict[str, list[str]] = {}
    for spec in available:
        missing[spec.name] = spec.capabilities.missing(request)
        if not missing[spec.name]:
            return spec
    return Unsupported(missing)


class EngineSelector:
    """The engines of one model directory; "auto" takes the first that is available and supports a request.

    `others` are further models of an ensemble, combined by the `mean` of their probabilities or log-probabilities.
    `adapter` is a verified adapter of the first model.
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
        adapter: Path | None = None,
    ) -> None:
        for what, value, choices in (
            ("engine", engine, ("auto", *ENGINES)),
            ("precision", precision, PRECISIONS),
            ("mean", mean, get_args(Mean)),
        ):
            if value not in choices:
                raise SearchError(f"unknown {what} {value!r}{suggest(str(value), choices)}", code="unknown_choice")
        self.directory, self.engine, self.precision = directory, engine, precision
        self.others, self.mean, self.adapter = tuple(others), mean, adapter
        self.threads = None if threads is None else check_integer("threads", threads, 1, MAX_THREADS)
        device = str(device)  # a torch.device as well
        specs = [spec for spec in SPECS if engine in ("auto", spec.name)]
        request = EngineRequest(models=1 + len(self.others), precision=precision)
        if device == "auto":
            on_gpu = choose_engine(replace(request, device="cuda"), specs)
            device = "cuda" if isinstance(on_gpu, EngineSpec) and has_gpu() else "cpu"
        self.device, self.request = check_device(device), replace(request, device=device)
        self.specs = [spec for spec in specs if not spec.capabilities.missing(self.request)]
        if not self.specs:
            raise self._unsupported(self.request, specs)
        self.loaded: dict[str, Engine | None] = {}
        self.process: EngineProcess | None = None
        self.starts_processes = True  # False keeps every engine in this process
        self.lock = RLock()
        self.search_lock = RLock()  # of engines whose searches share buffers

    def spec_for(self, request: EngineRequest) -> EngineSpec:
        """The first engine that supports the request, without loading it; it may turn out to be unavailable."""
        spec = choose_engine(self._complete(request), self.specs)
        if isinstance(spec, Unsupported):
            raise self._unsupported(self._complete(request), self.specs)
        return spec

    def for_request(self, request: EngineRequest) -> Engine:
        """The engine for a request, loaded if it is not yet."""
        request, specs = self._complete(request), self.specs
        while isinstance(spec := choose_engine(request, specs), EngineSpec):
            engine = self.get(spec.name)
            if engine is not None and not engine.capabilities.missing(request):
                return engine
            specs = [other for other in specs if other is not spec]
        raise self._unsupported(request, self.specs)

    def info(self, request: EngineRequest) -> EngineInfo:
        """The engine for a request, loaded if it is not yet."""
        return self._describe(self.for_request(request))

    def _describe(self, engine: Engine) -> EngineInfo:
        models = len(self.others) + 1 if self.others else None
        return EngineInfo(engine.name, engine.precision, self.device, engine.threads, models)

    def get(self, name: str) -> Engine | None:
        """An engine by name, loaded on first use; None if it is not available."""
        with self.lock:
            if name not in self.loaded:
                self.loaded[name] = next(spec for spec in SPECS if spec.name == name).load(self)
            return self.loaded[name]

    def separable(self, engine: Engine) -> bool:
        """Whether an engine gains from a process of its own."""
        spec = next((spec for spec in SPECS if spec.name == engine.name), None)
        return self.starts_processes and spec is not None and spec.start is not None

    def separate(self, engine: Engine, start: bool) -> EngineProcess | None:
        """A loaded engine in a process of its own, if that is ready; with `start`, it is started if it is not yet.

        Nobody waits for it: loading takes seconds, and this process can search in the meantime. If the model cannot be
        loaded twice, everything stays in this process.
        """
        with self.lock:
            if not self.separable(engine):
                return None
            if self.process is not None and not self.process.alive:
                self.process = None
            if self.process is None and start:
                spec = next(spec for spec in SPECS if spec.name == engine.name)
                self.process = None if spec.start is None else spec.start(self, engine)
            if self.process is None or not self.process.ready:
                return None
            try:
                self.process.wait()
            except Exception as error:
                self.process.close()
                self.process, self.starts_processes = None, False
                message = f"the engine {engine.name!r} cannot have a process of its own, so it is slower: {error}"
                warnings.warn(message, DragomanWarning, stacklevel=2)
            return self.process

    def forced(self, exact: bool = False) -> ForcedEngine:
        """The engine for given translations, loaded if it is not yet: the native one if possible, else PyTorch.

        With `exact`, an engine in int8 is chosen only if the user asked for int8.
        """
        native = next((spec for spec in self.specs if spec.name == "native"), None)
        if native is not None:
            name = "native" if self.precision != "auto" or not exact else "native float32"
            with self.lock:
                if name not in self.loaded:
                    self.loaded[name] = native.load(self if name == "native" else self._in_float32)
                found = self.loaded[name]
            if found is not None:
                return cast(ForcedEngine, found)
        return self.torch

    @property
    def scoring_info(self) -> EngineInfo:
        """The engine that scores given translations, loaded if it is not yet."""
        return self._describe(self.forced(exact=True))

    @property
    def _in_float32(self) -> EngineSelector:
        return EngineSelector(
            self.directory, self.device, "native", self.threads, "float32", self.others, self.mean, self.adapter
        )

    @cached_property
    def torch(self) -> TorchEngine:
        """The reference engine, which supports everything."""
        if find_spec("torch") is None:
            raise MissingExtraError("torch", "train", "the engine 'torch'")
        import torch

        from dragoman.engines.torch import TorchEngine

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        engine = TorchEngine.load(self.directory, self.device, self.precision == "bfloat16", self.adapter)
        if not self.others:
            return engine
        from dragoman.search.ensemble import Ensemble

        others = [TorchEngine.load(other, self.device, self.precision == "bfloat16").model for other in self.others]
        return TorchEngine(Ensemble([engine.model, *others], self.mean), self.device)

    @cached_property
    def recipe(self) -> ModelRecipe:
        """The recipe of the model."""
        from dragoman.config import Recipe

        return Recipe.load(self.directory / RECIPE).model

    def _complete(self, request: EngineRequest) -> EngineRequest:
        """A request with this selector's models, precision and device."""
        ours = self.request
        return replace(request, models=ours.models, precision=ours.precision, device=ours.device)

    def _unsupported(self, request: EngineRequest, specs: Sequence[EngineSpec]) -> SearchError:
        """Why none of these engines supports the request, and which would."""
        missing = {spec.name: spec.capabilities.missing(request) for spec in specs}
        reasons = [str(Unsupported({name: parts})) for name, parts in missing.items() if parts]
        tried = [spec for spec in specs if not missing[spec.name]]  # not available here, or narrowed by the model
        for spec in tried:
            engine = self.loaded.get(spec.name)
            if engine is not None:
                reasons.append(str(Unsupported({spec.name: engine.capabilities.missing(request)})))
            else:
                why = spec.unavailable(self.recipe, self.device)
                reasons.append(f"{spec.name!r} is not available here{f': {why}' if why else ''}")
        anywhere, advice = replace(request, device=None), "; drop one of them" if any(missing.values()) else ""
        for other, how in ((anywhere, ""), (replace(anywhere, precision="auto"), " with another precision")):
            if names := [
                spec.name
                for spec in SPECS
                if spec not in tried
                and spec.name != self.engine
                and not spec.capabilities.missing(other)
                and self._runs_here(spec)
            ]:
                advice = f"; use {' or '.join(map(repr, names))}{how}"
                break
        prefix = "no engine here supports this request: " if self.engine == "auto" else "the engine "
        code = "unsupported_by_engine" if any(missing.values()) or not specs else "engine_unavailable"
        return SearchError(f"{prefix}{'; '.join(reasons)}{advice}", code=code)

    def _runs_here(self, spec: EngineSpec) -> bool:
        """Whether an engine can run the model on some device of this machine."""
        return any(spec.unavailable(self.recipe, device) is None for device in ("cpu", *["cuda"] * has_gpu()))


def has_gpu() -> bool:
    """Whether a GPU is usable; PyTorch is imported only if the system appears to have one."""
    if not (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists() or Path("/dev/kfd").exists()):
        return False
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def available_devices() -> list[str]:
    """Names of the devices that can be used here, the CPU first."""
    if find_spec("torch") is None:
        return ["cpu"]
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    found = torch.accelerator.current_accelerator()
    kind = found.type if found is not None else "cuda"
    return ["cpu", *(f"{kind}:{i}" for i in range(torch.accelerator.device_count()))]


def check_device(device: str) -> str:
    """The device with this name; raise if it does not exist."""
    if not isinstance(device, str):
        message = f"a device is given by its name, such as 'cpu' or 'cuda:1'; got {describe_value(device)}"
        raise SearchError(message, code="wrong_type")
    if device == "cpu":
        return device
    available = available_devices()
    if device in available or f"{device}:0" in available:
        return device
    if find_spec("torch") is None:
        why = " (PyTorch is not installed: pip install 'dragoman[train]')"
    else:
        import torch

        no_cuda = device.startswith("cuda") and not (torch.version.cuda or torch.version.hip)
        why = f" (PyTorch {torch.__version__} is built without CUDA)" if no_cuda else ""
    message = f"device {device!r} is not available{why}; use one of: auto, {', '.join(available)}"
    raise SearchError(message, code="device_unavailable")
