"""Write a model directory: complete or not at all, with the manifest last."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dragoman.config import Recipe
from dragoman.config.forecast import ForecasterRecipe
from dragoman.errors import DragomanError, OutputError
from dragoman.files import MANIFEST, parse_json, sha256, staged, sync, write_atomically, write_manifest
from dragoman.modeldir.adapter import AdapterInfo
from dragoman.modeldir.forecast_info import ForecastInfo
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.int8 import split_tensors, weight_file_name
from dragoman.modeldir.layout import (
    ADAPTER_INFO,
    ADAPTER_WEIGHTS,
    CARD,
    EDITABLE,
    INFO,
    RECIPE,
    WEIGHTS,
    hashed_files,
    save_tokenizers,
    verify_model,
)
from dragoman.text import Tokenizer

Arrays = Mapping[str, NDArray[Any]]


def save_model(
    out: Path,
    *,
    recipe: Recipe | ForecasterRecipe,
    info: ModelInfo | ForecastInfo,
    weights: Arrays,
    tokenizers: tuple[Tokenizer, Tokenizer] | None,
    card: str,
    staging: Path | None = None,
    adapter: AdapterInfo | None = None,
    max_file_bytes: int | None = None,
) -> None:
    """Write a model directory, or raise OutputError and leave nothing behind; forecasters have no tokenizers.

    With `adapter`, it is an adapter's, and `weights` are its own.

    A new directory is written under another name, then renamed. If `out` has other content, `staging` is a directory
    inside it: the files are written there, then moved into `out`, the manifest last.
    """

    def write(directory: Path) -> None:
        write_model_files(directory, recipe, info, weights, adapter, max_file_bytes)
        if tokenizers is not None:
            save_tokenizers(directory, *tokenizers)
        (directory / CARD).write_text(card, encoding="utf-8")
        mode = (directory / CARD).stat().st_mode
        for file in directory.iterdir():  # safetensors writes files that only their owner can read
            file.chmod(mode)
        write_manifest(directory, ignored=EDITABLE)
        verify_model(directory)

    try:
        if staging is None:
            with staged(out) as directory:
                write(directory)
        else:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            write(staging)
            move_files(staging, out)
    except (OSError, SafetensorError) as error:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, DragomanError):
            raise
        reason = getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
        raise OutputError(f"cannot write {out}: {reason}") from None


def write_model_files(
    directory: Path,
    recipe: Recipe | ForecasterRecipe,
    info: ModelInfo | ForecastInfo,
    weights: Arrays,
    adapter: AdapterInfo | None = None,
    max_file_bytes: int | None = None,
) -> None:
    """Write weights, recipe and `model.json` into a directory, and `adapter.json` of an adapter.

    Weights are written to several files if one would be larger than `max_file_bytes`.
    """
    if adapter is not None:
        save_file(dict(weights), directory / ADAPTER_WEIGHTS)
        (directory / ADAPTER_INFO).write_text(adapter.to_json(), encoding="utf-8")
    else:
        files = [dict(weights)] if max_file_bytes is None else split_tensors(weights, max_file_bytes)
        for number, tensors in enumerate(files, 1):
            save_file(tensors, directory / weight_file_name(number, WEIGHTS))
    (directory / RECIPE).write_text(recipe.to_toml(), encoding="utf-8")
    (directory / INFO).write_text(info.to_json(), encoding="utf-8")


def move_files(staging: Path, out: Path) -> None:
    """Move the files of a finished directory into another, the manifest after the files that it lists."""
    for file in sorted(staging.iterdir(), key=lambda file: file.name == MANIFEST):
        if file.name == MANIFEST:
            sync(out)
        file.replace(out / file.name)
    sync(out)
    staging.rmdir()


def set_license(directory: str | Path, name: str) -> None:
    """Record a license in the `model.json` of a finished model, and its new hash in the manifest."""
    directory = Path(directory)
    add_file(directory, INFO, replace(read_info(directory), license=name).to_json())


def add_file(directory: Path, name: str, content: str) -> None:
    """Write a file of a finished model, and then its size and hash in the manifest."""
    hashed_files(directory)
    write_atomically(directory / name, content)
    manifest = parse_json((directory / MANIFEST).read_bytes())
    manifest["files"][name] = {"bytes": (directory / name).stat().st_size, "sha256": sha256(directory / name)}
    write_atomically(directory / MANIFEST, json.dumps(manifest, indent=1) + "\n")
