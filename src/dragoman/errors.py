"""The exceptions that Dragoman raises on purpose.

A message says what is wrong, with the value, and then what to do. `code` names the kind of problem: it is stable, so
programs and tests rely on it while messages improve. The command line prints the message without a traceback and exits
with code 2. Each class is also the built-in exception that fits it, so that `except ValueError` works as expected.
"""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable
from typing import ClassVar, Final, TextIO

PACKAGE_EXTRAS: Final = dict.fromkeys(("torch", "safetensors", "tokenizers", "rich"), "train")


class DragomanError(Exception):
    """Base class of all errors; raise a subclass, with a `code` for each kind of problem."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code


class RecipeError(DragomanError, ValueError):
    """An invalid recipe: an unknown key, a value of the wrong type, settings that do not go together."""


class ShapeError(DragomanError, ValueError):
    """Tensors that do not fit the model or each other."""

    default_code = "shape_mismatch"


class TextError(DragomanError, ValueError):
    """Text that cannot be encoded, or a tokenizer that cannot be learned or loaded."""


class TreeError(TextError):
    """A syntax tree that cannot be read, or is not a tree."""

    default_code = "invalid_tree"


class NotATokenizerError(TextError):
    """A file or bytes that are not the tokenizer they should be."""

    default_code = "not_a_tokenizer"


class DataError(DragomanError, ValueError):
    """Sentence pairs or series that cannot be used."""


class DamagedError(DragomanError, OSError):
    """Files that are missing, damaged, or not what their manifest says."""

    default_code = "file_damaged"


class ModelNotFoundError(DragomanError, FileNotFoundError):
    """A model that does not exist: no such directory or name, not a model directory, or an unfinished run."""

    default_code = "model_not_found"


class OutputError(DragomanError, OSError):
    """A file or directory that cannot be written: it already exists, there is no room, no permission."""

    default_code = "cannot_write"


class TrainingError(DragomanError, RuntimeError):
    """A training run that cannot start or continue."""


class MissingExtraError(DragomanError, ImportError):
    """An optional package is not installed; the message holds the pip line that installs it."""

    default_code = "missing_extra"

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}; install it with: pip install 'dragoman[{extra}]'")


def missing_extra(error: ModuleNotFoundError, purpose: str) -> MissingExtraError | None:
    """The error that names the pip line, if the missing package belongs to an extra."""
    package = (error.name or "").partition(".")[0]
    return MissingExtraError(package, PACKAGE_EXTRAS[package], purpose) if package in PACKAGE_EXTRAS else None


class SearchError(DragomanError, ValueError):
    """A search or a translation request that is not possible as requested."""


class DocumentError(DragomanError, ValueError):
    """A document that cannot be read or written: damaged, encrypted, hostile, or of an unsupported format."""

    default_code = "damaged_document"


class ConversionError(DragomanError, ValueError):
    """A model of another toolkit that cannot be converted: damaged, or with parts that Dragoman does not have."""

    default_code = "unsupported_model"


class DragomanWarning(UserWarning):
    """Something that works, but not as well as it could; the command line prints it as a note."""


def warning_printer(note: Callable[[str], object], write: Callable[[str], object]) -> Callable[..., None]:
    """A function for `warnings.showwarning`: `note` gets our own warnings, `write` others in Python's format."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DragomanWarning):
            note(str(message))
        else:
            write(warnings.formatwarning(message, category, filename, lineno, line))

    return show


def describe_exit(code: int) -> str:
    """How a process ended, such as "it was killed by SIGKILL"."""
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def shortage(error: BaseException) -> str | None:
    """The amount of memory that an out-of-memory error names, or "" if it names none; None for any other error.

    PyTorch raises a RuntimeError with different messages on a CPU and on a GPU.
    """
    words = str(error)
    if isinstance(error, MemoryError):
        return words
    short = r"CPUAllocator: (can't allocate|not enough) memory|CUDA (error: )?out of memory|ALLOC_FAILED"
    if not isinstance(error, RuntimeError) or not re.search(short, words):
        return None
    found = re.search(r"tried to allocate ([\d.]+) ?(bytes|[KMGT]iB)", words, re.IGNORECASE)
    if found is None:
        return ""
    number, unit = found.groups()
    return f"PyTorch asked for {f'{int(number) / (1 << 20):,.0f} MiB' if unit == 'bytes' else f'{number} {unit}'}"
