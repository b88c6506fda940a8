"""Language codes in documents with two languages."""

from __future__ import annotations

from dragoman.documents.languages import primary
from dragoman.errors import DocumentError


def matches(code: str, wanted: str) -> bool:
    """Whether two codes are of the same language."""
    return bool(code) and primary(code) == primary(wanted)


def check_language(name: str, declared: str, wanted: str, side: str = "target") -> None:
    """Raise if a document declares another language than the one of the model; either may be unknown."""
    if declared and wanted and not matches(declared, wanted):
        raise DocumentError(
            f"the {side} language of {name} is {declared!r}, but the model's is {wanted!r}; use another model, or "
            "change the language in the file",
            code="language_mismatch",
        )
