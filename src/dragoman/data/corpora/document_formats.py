"""Recognize documents, such as Word files, by their content: they are not plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ZIP: Final = b"PK\x03\x04"
STARTS: Final = {
    b"%PDF-": "a PDF document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a legacy Microsoft Office document (.doc, .ppt, .xls)",
    b"{\\rtf": "an RTF document",
}
OFFICE_DIRECTORIES: Final = {
    "word/": "a Word document (.docx)",
    "ppt/": "a PowerPoint presentation (.pptx)",
    "xl/": "an Excel spreadsheet (.xlsx)",
}
MIMETYPES: Final = {
    b"application/epub+zip": "an e-book (.epub)",
    b"application/vnd.oasis.opendocument.text": "an OpenDocument text (.odt)",
    b"application/vnd.oasis.opendocument.presentation": "an OpenDocument presentation (.odp)",
    b"application/vnd.oasis.opendocument.spreadsheet": "an OpenDocument spreadsheet (.ods)",
}


def document_kind(path: Path, start: bytes) -> str | None:
    """The kind of document of a file with these first bytes, with an article; None if it is not a document.

    The parts of a zip archive are listed if `path` is a file, and searched for in `start` if it is a pipe.
    """
    for magic, kind in STARTS.items():
        if start.startswith(magic):
            return kind
    if not start.startswith(ZIP):
        return None
    names, mimetype = zip_parts(path)
    for directory, kind in OFFICE_DIRECTORIES.items():
        if any(name.startswith(directory) for name in names) or (not names and directory.encode() in start):
            return kind
    for magic, kind in MIMETYPES.items():
        if mimetype.startswith(magic) or (not names and b"mimetype" + magic in start):
            return kind
    return None


def zip_parts(path: Path) -> tuple[list[str], bytes]:
    """The names in a zip archive, and its part `mimetype`; empty if it cannot be read."""
    import zipfile  # takes time, and text does not need it

    try:
        if not path.is_file():
            return [], b""
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "mimetype" not in names:
                return names, b""
            with archive.open("mimetype") as part:
                return names, part.read(200)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):  # truncated, or encrypted
        return [], b""
