"""The engines in the order in which "auto" tries them: capabilities, availability, loaders, and a table of them.

Importing this module imports no engine and no PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from dragoman.config.model import PositionCodeName
from dragoman.engines.base import Capabilities, Engine, EngineSpec, unusual_part
from dragoman.errors import DragomanError, SearchError
from dragoman.native.build import why_not
from dragoman.search.types import MAX_BEAM

if TYPE_CHECKING:
    from dragoman.config import ModelRecipe
    from dragoman.engines.cuda.process import EngineProcess
    from dragoman.engines.select import EngineSelector

TORCH: Final = Capabilities(
    devices=("cpu", "gpu"),
    precisions=("float32", "bfloat16"),
    searches=("greedy", "beam", "sampling"),
    max_beam=MAX_BEAM,
    no_repeat=True,
    prefixes=True,
    constraints=True,
    ensembles=True,
    scoring=True,
    attention=True,
    alignment=True,
    records_attention=False,
    position_codes=get_args(PositionCodeName),
    decoders=("self_attention", "ssru"),
    batch_invariant=False,  # matrix products of different shapes differ in the last bits
    concurrent=False,
    preferred_batch=64,  # 256 on a GPU
)
NATIVE: Final = replace(
    TORCH,
    devices=("cpu",),
    precisions=("int8", "float32"),
    max_beam=64,
    records_attention=True,
    position_codes=("sinusoidal", "learned", "relative", "rotary", "alibi", "none"),
    batch_invariant=True,
    concurrent=True,
)
CTRANSLATE2: Final = replace(
    NATIVE,
    searches=("greedy", "beam"),
    constraints=False,
    max_beam=MAX_BEAM,
    no_repeat=False,
    prefixes=False,
    ensembles=False,
    scoring=False,
    attention=False,
    alignment=False,
    records_attention=False,
    position_codes=("sinusoidal", "learned"),
    decoders=("self_attention",),
    batch_invariant=False,
    preferred_batch=32,  # measured: larger batches per worker are slower
)
CUDA: Final = replace(
    CTRANSLATE2,
    devices=("gpu",),
    precisions=("bfloat16", "float32"),
    max_beam=32,
    no_repeat=True,
    prefixes=True,
    constraints=True,
    alignment=True,
    records_attention=True,
    position_codes=("sinusoidal", "learned", "none"),
    concurrent=False,
    preferred_batch=512,
)


def native_unavailable(recipe: ModelRecipe | None, device: str) -> str | None:
    """Why the native engine cannot run here."""
    if device != "cpu":
        return "it runs on the CPU only"
    from dragoman.engines.native_layout import unsupported_by_native

    if recipe is not None and (part := unsupported_by_native(recipe)):
        return f"it does not support {part}"
    from dragoman.engines.native_model import load_code

    return None if load_code() is not None else why_not("translate")


def ctranslate2_unavailable(recipe: ModelRecipe | None, device: str) -> str | None:
    """Why CTranslate2 cannot run here."""
    if device != "cpu":
        return "it is used on the CPU only"
    if find_spec("ctranslate2") is None:
        return "it is not installed: pip install 'dragoman[ctranslate2]'"
    from dragoman.engines.ctranslate2_conversion import unsupported_by_ctranslate2

    part = None if recipe is None else unsupported_by_ctranslate2(recipe)
    return f"it does not support {part}" if part else None


def cuda_unavailable(recipe: ModelRecipe | None, device: str) -> str | None:
    """Why the engine for NVIDIA GPUs cannot run here."""
    if not device.startswith("cuda"):
        return f"it needs an NVIDIA GPU; the device is {device!r}"
    if recipe is None:
        return None
    part = unusual_part(recipe, CUDA.position_codes)
    return f"it does not support {part}" if part else None


def torch_unavailable(recipe: ModelRecipe | None, device: str) -> str | None:
    """Why PyTorch's engine cannot run here."""
    return None if find_spec("torch") else "it is not installed: pip install 'dragoman[train]'"


def load_native(selector: EngineSelector) -> Engine | None:
    """The C engine, or None if it cannot be built or does not support the model."""
    from dragoman.engines.native import NativeEngine

    return NativeEngine.load(
        selector.directory,
        selector.threads,
        selector.precision != "float32",
        selector.others,
        selector.mean,
        selector.adapter,
    )


def load_ctranslate2(selector: EngineSelector) -> Engine | None:
    """CTranslate2, or None if it is not installed or cannot convert or run the model in this precision."""
    from dragoman.engines.ctranslate2 import CTranslate2Engine

    quantize = selector.precision != "float32"
    try:
        engine = CTranslate2Engine.load(selector.directory, selector.threads, quantize, selector.adapter)
    except (DragomanError, OSError, RuntimeError) as error:  # the cache is not writable, or in use by another process
        if selector.engine == "auto":
            return None
        raise SearchError(
            f"CTranslate2 cannot convert the model: {error}; set DRAGOMAN_CACHE to a writable directory, or use the "
            "engine 'auto'",
            code="engine_unavailable",
        ) from None
    if engine is not None and selector.precision != "auto" and not engine.precision.startswith(selector.precision):
        return None  # not supported by this CPU
    return engine


def load_cuda(selector: EngineSelector) -> Engine | None:
    """The engine for NVIDIA GPUs, which shares its model with the PyTorch engine."""
    if cuda_unavailable(selector.recipe, selector.device):
        return None
    import torch

    from dragoman.engines.cuda.engine import CudaEngine

    dtype = torch.float32 if selector.precision == "float32" else torch.bfloat16
    return CudaEngine(selector.torch.model, dtype, selector.device)


def start_cuda(selector: EngineSelector, engine: Engine) -> EngineProcess:
    """The engine for NVIDIA GPUs in a process of its own, which loads the model once more."""
    from dragoman.engines.cuda.messages import EngineOptions
    from dragoman.engines.cuda.process import EngineProcess

    rounded = selector.precision == "bfloat16"
    return EngineProcess(
        EngineOptions(selector.directory, selector.device, engine.precision, rounded, selector.adapter)
    )


def load_torch(selector: EngineSelector) -> Engine | None:
    """PyTorch's engine, or None if PyTorch is not installed."""
    return None if torch_unavailable(selector.recipe, selector.device) else selector.torch


SPECS: Final = (
    EngineSpec("native", NATIVE, native_unavailable, load_native),
    EngineSpec("ctranslate2", CTRANSLATE2, ctranslate2_unavailable, load_ctranslate2),
    EngineSpec("cuda", CUDA, cuda_unavailable, load_cuda, None if sys.platform == "win32" else start_cuda),
    EngineSpec("torch", TORCH, torch_unavailable, load_torch),
)


@dataclass(frozen=True)
class EngineStatus:
    """An engine on this machine; `unavailable` is the reason why it cannot be used, if any."""

    name: str
    capabilities: Capabilities
    unavailable: str | None

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {
            "engine": self.name,
            "available": self.unavailable is None,
            "reason": self.unavailable,
            "capabilities": asdict(self.capabilities),
        }


def engine_statuses(recipe: ModelRecipe | None, device: str) -> list[EngineStatus]:
    """Every engine, and whether it can run a model (any model, without a recipe) on a device of this machine."""
    return [EngineStatus(spec.name, spec.capabilities, spec.unavailable(recipe, device)) for spec in SPECS]


def capability_rows() -> list[list[str]]:
    """A header and one row per capability, with one column per engine."""
    columns = [asdict(spec.capabilities) for spec in SPECS]
    labels = {name: hint.__metadata__[0] for name, hint in get_type_hints(Capabilities, include_extras=True).items()}
    header = ["", *(f"`{spec.name}`" for spec in SPECS)]
    return [header, *([label, *(_format(column[name]) for column in columns)] for name, label in labels.items())]


def format_text(rows: Sequence[Sequence[str]], width: int = 22) -> str:
    """Rows as aligned columns for a terminal; cells longer than `width` are wrapped."""
    cells = [[wrap(cell.replace("`", ""), width) or [""] for cell in row] for row in rows]
    lines = [line for row in cells for line in zip_longest(*row, fillvalue="")]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else f"{value:,}"
