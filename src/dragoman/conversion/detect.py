"""Detect the toolkit of a model by its files, and read it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.conversion.checkpoint_files import read_pickle
from dragoman.conversion.from_fairseq import is_fairseq, read_fairseq
from dragoman.conversion.from_joeynmt import is_joeynmt, read_joeynmt
from dragoman.conversion.from_marian import is_marian, read_marian
from dragoman.conversion.imported_model import ImportedModel
from dragoman.conversion.options import ImportOptions
from dragoman.errors import ConversionError
from dragoman.files import format_names
from dragoman.modeldir.locate import is_model
from dragoman.values import suggest_directory

PREFERRED_CHECKPOINTS: Final = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
SAFE_CLASSES: Final = (  # in checkpoints next to tensors: settings, and NumPy numbers
    Namespace, np.dtype, *(type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int32, np.int64)),
    (np._core.multiarray.scalar, "numpy.core.multiarray.scalar"), np._core.multiarray.scalar,  # type: ignore[attr-defined]
)  # fmt: skip
EXPECTED: Final = (
    "expected a directory of Opus-MT (config.json, source.spm, ...) or of JoeyNMT (config.yaml, *.ckpt), or a "
    "checkpoint of fairseq (*.pt)"
)


def read_source_model(path: Path, options: ImportOptions) -> ImportedModel:
    """Read the model at a path, of any supported toolkit."""
    if not path.exists():
        raise ConversionError(
            f"{path} does not exist{suggest_directory(path, is_importable) or f'; {EXPECTED}'}", code="model_not_found"
        )
    if path.is_dir() and is_model(path):
        raise ConversionError(f"{path} is already a Dragoman model; use it as it is", code="already_imported")
    if is_marian(path):
        check_unused(options, "Opus-MT", "tokenizer", "target_tokenizer", "vocabulary")
        return read_marian(path, options.one_target)
    if is_joeynmt(path):
        check_unused(options, "JoeyNMT", "vocabulary", "one_target")
        return read_joeynmt(path, options)
    check_unused(options, "fairseq", "one_target")
    checkpoint = path if path.is_file() else choose_checkpoint(path)
    found = read_pickle(checkpoint, SAFE_CLASSES)
    if is_fairseq(found):
        return read_fairseq(checkpoint, found, options)
    if isinstance(found, Mapping) and {"opt", "vocab", "generator"} <= found.keys():
        raise ConversionError(
            f"{checkpoint} is a checkpoint of OpenNMT-py, whose encoder reads sources without EOS; it cannot be "
            "imported",
            code="unsupported_model",
        )
    held = f"; it has {', '.join(sorted(map(str, found))[:6])}" if isinstance(found, Mapping) and found else ""
    raise ConversionError(f"{checkpoint} is not a model that can be imported{held}; {EXPECTED}", code="not_a_model")


def is_importable(path: Path) -> bool:
    """Whether a directory looks like a model to import."""
    return is_marian(path) or is_joeynmt(path)


def choose_checkpoint(directory: Path) -> Path:
    """The checkpoint of a directory, which may have several."""
    there = sorted(directory.glob("*.pt"))
    best = next((directory / name for name in PREFERRED_CHECKPOINTS if directory / name in there), None)
    if best is not None or len(there) == 1:
        return best if best is not None else there[0]
    if there:
        raise ConversionError(
            f"{directory} has {format_names(there)}; choose one to import, such as {there[-1]}",
            code="several_checkpoints",
        )
    held = f" (it has {format_names(directory.iterdir())})" if any(directory.iterdir()) else " (it is empty)"
    raise ConversionError(f"{directory} is not a model that can be imported{held}; {EXPECTED}", code="not_a_model")


def check_unused(options: ImportOptions, toolkit: str, *names: str) -> None:
    """Reject options that have no effect."""
    for name in names:
        value: Any = getattr(options, name)
        if value:
            option = "--" + name.replace("_", "-")
            raise ConversionError(
                f"{option} has no effect for a model of {toolkit}; leave it out", code="unused_option"
            )
