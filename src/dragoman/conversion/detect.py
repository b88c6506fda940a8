"""Which toolkit a model is of, by the files that are there and by what they hold."""

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
from dragoman.conversion.imported_model import Foreign
from dragoman.conversion.options import Asked
from dragoman.errors import ConversionError
from dragoman.files import format_names
from dragoman.modeldir.locate import is_model
from dragoman.values import suggest_directory

BEST: Final = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
PLAIN: Final = (  # what checkpoints hold beside tensors: settings, and numbers of NumPy
    Namespace, np.dtype, *(type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int32, np.int64)),
    (np._core.multiarray.scalar, "numpy.core.multiarray.scalar"), np._core.multiarray.scalar,  # type: ignore[attr-defined]
)  # fmt: skip
EXPECTED: Final = (
    "expected a directory of Opus-MT (config.json, source.spm, ...) or of JoeyNMT (config.yaml, *.ckpt), or a "
    "checkpoint of fairseq (*.pt)"
)


def read_foreign(path: Path, asked: Asked) -> Foreign:
    """The model at a place, whichever toolkit wrote it."""
    if not path.exists():
        raise ConversionError(
            f"there is no {path}{suggest_directory(path, looks_foreign) or f'; {EXPECTED}'}", code="model_not_found"
        )
    if path.is_dir() and is_model(path):
        raise ConversionError(f"{path} is a model of Dragoman already; use it as it is", code="already_imported")
    if is_marian(path):
        refuse(asked, "Opus-MT", "tokenizer", "target_tokenizer", "vocabulary")
        return read_marian(path, asked.one_target)
    if is_joeynmt(path):
        refuse(asked, "JoeyNMT", "vocabulary", "one_target")
        return read_joeynmt(path, asked)
    refuse(asked, "fairseq", "one_target")
    checkpoint = path if path.is_file() else chosen(path)
    found = read_pickle(checkpoint, PLAIN)
    if is_fairseq(found):
        return read_fairseq(checkpoint, found, asked)
    if isinstance(found, Mapping) and {"opt", "vocab", "generator"} <= found.keys():
        raise ConversionError(
            f"{checkpoint} is a checkpoint of OpenNMT-py, whose encoder reads sources without an end mark; models here "
            "read them with one, so it cannot be imported",
            code="unsupported_model",
        )
    held = f"; it holds {', '.join(sorted(map(str, found))[:6])}" if isinstance(found, Mapping) and found else ""
    raise ConversionError(f"{checkpoint} is no model that can be imported{held}; {EXPECTED}", code="not_a_model")


def looks_foreign(place: Path) -> bool:
    """Whether a directory may be one to import."""
    return is_marian(place) or is_joeynmt(place)


def chosen(directory: Path) -> Path:
    """The checkpoint of a directory that may have several."""
    there = sorted(directory.glob("*.pt"))
    best = next((directory / name for name in BEST if directory / name in there), None)
    if best is not None or len(there) == 1:
        return best if best is not None else there[0]
    if there:
        raise ConversionError(
            f"{directory} has {format_names(there)}; say which one to import, as {there[-1]}",
            code="several_checkpoints",
        )
    held = f" (it has {format_names(directory.iterdir())})" if any(directory.iterdir()) else " (it is empty)"
    raise ConversionError(f"{directory} is no model that can be imported{held}; {EXPECTED}", code="not_a_model")


def refuse(asked: Asked, toolkit: str, *names: str) -> None:
    """Refuse what would do nothing."""
    for name in names:
        value: Any = getattr(asked, name)
        if value:
            option = "--" + name.replace("_", "-")
            raise ConversionError(f"{option} does nothing for a model of {toolkit}; leave it out", code="unused_option")
