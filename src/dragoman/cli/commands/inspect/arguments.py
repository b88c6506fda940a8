"""Arguments that the inspect commands share: output files, lines, models and trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import note
from dragoman.errors import DragomanError
from dragoman.inspect.pictures import PICTURE_SUFFIXES
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.text.trees.dependency import Tree

PAGE_SUFFIXES = (*PICTURE_SUFFIXES, ".html")


def check_suffix(path: Path, suffixes: tuple[str, ...]) -> None:
    """Reject an unknown output format before a model is loaded."""
    if path.suffix.lower() not in suffixes:
        raise DragomanError(f"{path} has an unknown format; use {', '.join(suffixes)}", code="unsupported_format")


def check_line(number: int, count: int, source: Path | None) -> None:
    """Reject an empty file, and a line number that is out of range."""
    if source is not None and not count:
        raise DragomanError(f"{source} is empty; expected a sentence per line", code="file_empty")
    if number > count:
        where = source or "--text"
        message = f"--line {number} is out of range: {where} has {plural(count, 'line')}"
        raise DragomanError(message, code="out_of_range")


def load_translator(model: str) -> Any:
    """Load a model on the CPU, in float32; PyTorch is imported only for a model that the native engine cannot run."""
    from dragoman.translation.translator import Translator

    return Translator.load(model, device="cpu", precision="float32")


def load_trees(path: Path | None) -> list[Tree] | None:
    """The trees of a file, if given."""
    from dragoman.data.corpora.reader import read_trees_file

    return None if path is None else list(read_trees_file(path))


def note_warning(warning: str) -> None:
    """Print a warning of a picture, such as missing characters; nothing if it is empty."""
    if warning:
        note(warning)
