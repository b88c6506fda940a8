"""Language codes in documents with two languages."""

from __future__ import annotations

from dragoman.documents.languages import primary
from dragoman.errors import DocumentError


def matches(code: str, wanted: str) -> bool:
    """Whether two codes are of the same language."""
    return bool(code) and primary(code) == primary(wanted)


def check_language(name: str, declared: str, wanted: str, side: str = "target") -> None:
    """Raise if a document declares another language than the wanted one; either may be unknown."""
    if declared and wanted and not matches(declared, wanted):
        raise DocumentError(
            f"the {side} language of {name} is {declared!r}, not {wanted!r}; use another model (in "
            "`dragoman remember`, other --from and --to), or change the language in the file",
            code="language_mismatch",
        )
