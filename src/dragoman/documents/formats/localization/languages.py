"""Language codes in documents with two languages."""

from __future__ import annotations

from dragoman.errors import DocumentError


def primary(code: str) -> str:
    """The language of a code, without script and region: "pt" of "pt-BR" and "pt_BR"."""
    return code.strip().lower().replace("_", "-").split("@")[0].split("-")[0]


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
