"""The exceptions that Dragoman raises on purpose.

Every message answers three questions: what came, what was expected, and what to do. The command line prints the message
without a traceback and leaves with exit code 2; from Python each error is also the built-in that fits it, so that
`except ValueError` works as people expect.
"""

from __future__ import annotations

import re


class DragomanError(Exception):
    """Anything that Dragoman refuses to do, with the reason in words for the person who asked."""


class RecipeError(DragomanError, ValueError):
    """A recipe that cannot be: an unknown key, a value of the wrong kind, a combination that does not fit together."""


class ShapeError(DragomanError, ValueError):
    """Tensors that do not fit the model or each other."""


class TextError(DragomanError, ValueError):
    """Text that cannot be encoded, or a tokenizer that cannot be learned or loaded."""


class DataError(DragomanError, ValueError):
    """Files of sentence pairs that cannot be used as they are."""


class DamagedError(DragomanError, OSError):
    """A directory that is not what its manifest says."""


class TrainingError(DragomanError, RuntimeError):
    """A training run that cannot go on, or must not go on as it was asked to."""


class MissingExtraError(DragomanError, ImportError):
    """A part that needs an optional package; the message holds the pip line that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}; install it with: pip install 'dragoman[{extra}]'")


class SearchError(DragomanError, ValueError):
    """A search that cannot be done as it was asked."""


class ForeignError(DragomanError, ValueError):
    """A model of another toolkit that cannot be imported: damaged, or with parts that Dragoman does not have."""


def shortage(error: BaseException) -> str | None:
    """What could not be had, where an error says that memory is short, "" if it does not say what; else None.

    PyTorch raises a RuntimeError of many words, a CPU's of one kind and a GPU's of another.
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
