"""Adapter directories: low-rank changes to the weights of a base model, which is named by its hash.

    my-adapter/           adapter.safetensors, adapter.json, recipe.toml, model.json, card.md, manifest.json
    my-adapter/training/  the training run, as in a model directory

For each adapted matrix W, the file has `<name>.lora_a` and `<name>.lora_b`; the adapted matrix is W + scale B A. It is
computed when a model is loaded, in float64, so every engine gets the same numbers as from a merged model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DamagedError, SearchError
from dragoman.files import parse_json
from dragoman.modeldir.layout import ADAPTER_INFO, ADAPTER_WEIGHTS, WEIGHTS, hashed_files, verify_model_cached
from dragoman.modeldir.locate import find_model, model_name
from dragoman.modeldir.tensor_file import read_tensor_file

ADAPTER_FORMAT: Final = 1


@dataclass(frozen=True)
class AdapterInfo:
    """The content of `adapter.json`; `base_weights` is the SHA-256 of the base model's weights."""

    rank: int
    scale: float
    base: str
    base_weights: str

    def to_json(self) -> str:
        """The content of the file."""
        return json.dumps({"format": ADAPTER_FORMAT, **asdict(self)}, ensure_ascii=False) + "\n"


def read_adapter_info(directory: Path) -> AdapterInfo:
    """Read and check `adapter.json`."""
    path = directory / ADAPTER_INFO
    try:
        table: dict[str, Any] = parse_json(path.read_bytes())
        version = table.pop("format")
        info = AdapterInfo(**table)
        valid = type(info.rank) is int and info.rank > 0 and isinstance(info.scale, int | float)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    if version != ADAPTER_FORMAT:
        raise DamagedError(
            f"{path} has format {version!r}; this Dragoman reads {ADAPTER_FORMAT}; use a newer version",
            code="unsupported_format",
        )
    if not valid or not all(isinstance(text, str) for text in (info.base, info.base_weights)):
        raise DamagedError(f"{path} does not describe an adapter; restore it from a copy")
    return info


def find_adapter(adapter: str | Path, base: Path) -> Path:
    """Find and verify an adapter, by path or name; raise SearchError unless it was trained on `base`."""
    directory = find_model(adapter, "adapter")
    verify_model_cached(directory)
    info, found = read_adapter_info(directory), hashed_files(base)[WEIGHTS][1]
    if info.base_weights != found:
        raise SearchError(
            f"{directory} adapts {info.base}, whose weights have the SHA-256 {info.base_weights[:12]}..., but those of "
            f"{model_name(base)} have {found[:12]}...; use it with the model that it was trained on",
            code="adapter_mismatch",
        )
    return directory


def read_products(directory: Path) -> dict[str, NDArray[np.float64]]:
    """What a verified adapter adds to each matrix, by the name of the matrix."""
    info, path = read_adapter_info(directory), directory / ADAPTER_WEIGHTS
    memory, tensors = read_tensor_file(path)
    if any(tensor.dtype != "F32" for tensor in tensors.values()):
        raise DamagedError(f"{path} has tensors that are not float32; restore it from a copy", code="weights_mismatch")
    arrays = {
        name: np.frombuffer(memory, np.float32, int(np.prod(tensor.shape)), tensor.first).reshape(tensor.shape)
        for name, tensor in tensors.items()
    }
    products: dict[str, NDArray[np.float64]] = {}
    for layer in sorted({name.rpartition(".")[0] for name in arrays}):
        a, b = arrays.get(f"{layer}.lora_a"), arrays.get(f"{layer}.lora_b")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or b.shape[1] != len(a):
            raise DamagedError(
                f"{path} has no matching lora_a and lora_b for {layer}; restore it from a copy", code="weights_mismatch"
            )
        products[f"{layer}.weight"] = info.scale * (b.astype(np.float64) @ a.astype(np.float64))
    return products


def merge_adapter(weights: Mapping[str, NDArray[np.float32]], directory: Path) -> None:
    """Add a verified adapter to the weights of its base, in place."""
    for name, product in read_products(directory).items():
        if name not in weights or weights[name].shape != product.shape:
            shape = tuple(weights[name].shape) if name in weights else "none"
            raise DamagedError(
                f"{directory} changes {name} of shape {product.shape}, but the base model has {shape}; restore it from "
                "a copy",
                code="weights_mismatch",
            )
        weights[name][...] = (weights[name] + product).astype(np.float32)
