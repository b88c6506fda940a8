"""The document formats, and which one a file has: by its content, then by its suffix."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import Final, cast

from dragoman.data.corpora.compression import COMPRESSIONS
from dragoman.documents.formats.office.archive import encrypted
from dragoman.documents.segment import NO_OPTIONS, Document, ReadOptions, TranslationPair
from dragoman.errors import DocumentError
from dragoman.values import suggest

ZIP: Final = b"PK\x03\x04"
START_BYTES: Final = 8192  # enough to recognize a format that is not a zip archive
Reader = Callable[[bytes, str], Document]
ChunkReader = Callable[[Path], Iterator[Document] | None]


def begins(pattern: bytes) -> Callable[[bytes], bool]:
    """Whether a text begins with a pattern, after a byte order mark, white space, comments and an XML declaration."""
    start = re.compile(
        rb"(?:\xef\xbb\xbf)?(?:\s|<\?xml[^>]{0,200}\?>|<!--(?:[^-]|-(?!->)){0,4000}-->)*(?:" + pattern + rb")",
        re.IGNORECASE,
    )
    return lambda data: start.match(data[:START_BYTES]) is not None


def zip_names(data: bytes) -> list[str]:
    """The names of the parts of a zip archive; empty if it is not one, or damaged."""
    if not data.startswith(ZIP):
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OSError, EOFError):
        return []


def has_parts(folder: str) -> Callable[[bytes], bool]:
    """Whether a file is an Office Open XML document with parts in that folder."""

    def is_content(data: bytes) -> bool:
        names = zip_names(data)
        return "[Content_Types].xml" in names and any(name.startswith(folder) for name in names)

    return is_content


def has_mimetype(kind: bytes, part: str, flat: bytes = rb"(?!)") -> Callable[[bytes], bool]:
    """Whether the first part of a zip archive is a mimetype that begins like that, or it has `part`; or it is XML."""
    is_flat = begins(flat)

    def is_content(data: bytes) -> bool:
        if data.startswith(ZIP) and data[30:38] == b"mimetype":
            return data[38 : 38 + len(kind)] == kind
        return part in zip_names(data) or is_flat(data)

    return is_content


@dataclass(frozen=True)
class Format:
    """A document format: `module` in `documents/formats/` has `read`; `is_content` recognizes its files.

    A `bilingual` format has both languages; one that `declares` a language says which one it is in. The `read` of both
    gets `ReadOptions` as well. `chunked` formats have `read_chunks`, which reads a large file as a series of documents
    that make up the whole.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    is_content: Callable[[bytes], bool] | None = None
    bilingual: bool = False
    declares: bool = False
    chunked: bool = False

    def read(self, data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> Document:
        """Read a file: its bytes, and its name for messages."""
        module = import_module(f"dragoman.documents.formats.{self.module}")
        read = partial(module.read, options=options) if self.bilingual or self.declares else module.read
        return cast(Reader, read)(data, name)

    def read_chunks(self, path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Document] | None:
        """Read a large file in chunks; None if the format or the encoding of the file does not allow it."""
        if not self.chunked:
            return None
        module = import_module(f"dragoman.documents.formats.{self.module}")
        read = partial(module.read_chunks, options=options) if self.bilingual else module.read_chunks
        return cast(ChunkReader, read)(path)


FORMATS: Final = (
    Format("text", (".txt", ".text"), "text", chunked=True),
    Format("html", (".html", ".htm", ".xhtml"), "html.html", begins(rb"<!doctype\s+html|<html[\s>]"), declares=True),
    Format("docx", (".docx", ".docm", ".dotx", ".dotm"), "office.docx", has_parts("word/"), declares=True),
    Format("pptx", (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx"), "office.pptx", has_parts("ppt/"), declares=True),
    Format("xlsx", (".xlsx", ".xlsm", ".xltx", ".xltm"), "office.xlsx", has_parts("xl/"), declares=True),
    Format(
        "odf",
        (".odt", ".ods", ".odp", ".ott", ".ots", ".otp", ".fodt", ".fods", ".fodp"),
        "office.odf",
        has_mimetype(b"application/vnd.oasis.opendocument.", "content.xml", rb"<office:document[\s>]"),
        declares=True,
    ),
    Format(
        "epub",
        (".epub",),
        "office.epub",
        has_mimetype(b"application/epub+zip", "META-INF/container.xml"),
        declares=True,
    ),
    Format("markdown", (".md", ".markdown"), "markdown"),
    Format("json", (".json", ".arb"), "strings.json", declares=True),
    Format("jsonl", (".jsonl", ".ndjson"), "strings.jsonl", chunked=True),
    Format("yaml", (".yaml", ".yml"), "strings.yaml"),
    Format("properties", (".properties",), "strings.properties"),
    Format("xliff", (".xlf", ".xliff"), "localization.xliff", begins(rb"<(?:\w+:)?xliff[\s>]"), bilingual=True),
    Format(
        "tmx",
        (".tmx",),
        "localization.tmx",
        begins(rb"(?:<!doctype\s+tmx[^>]*>\s*)?<tmx[\s>]"),
        bilingual=True,
        chunked=True,
    ),
    Format("srt", (".srt",), "subtitles.srt", begins(rb"\d+\s*\r?\n\s*\d+:\d\d:\d\d[,.]\d+\s*-->")),
    Format("vtt", (".vtt",), "subtitles.vtt", begins(rb"WEBVTT[ \t\r\n]")),
    Format("ass", (".ass", ".ssa"), "subtitles.ass", begins(rb"\[Script Info\]")),
    Format("po", (".po", ".pot"), "localization.po", begins(rb'(?:#[^\n]*\n|\s)*msg(?:ctxt|id)\s*"'), bilingual=True),
)
OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # legacy Microsoft Office documents, and those with a password
ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")  # a stream in the latter
PICTURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
ADVICE: Final = {  # files that are recognized and rejected: their first bytes, what they are, what to do
    b"%PDF-": ("a PDF", "it has no text in reading order; translate the document that it was made "
               "from, such as a .docx, or extract its text with pdftotext"),
    OLE: ("a legacy Microsoft Office document", "open it in an office suite and save it as .docx, .pptx or .xlsx"),
    b"{\\rtf": ("an RTF document", "open it in an office suite and save it as .docx"),
    **dict.fromkeys(PICTURES, ("a picture", "it is neither a text nor a document; recognize its text first (OCR)")),
}  # fmt: skip

# Suffixes of files that look like text, but are damaged when their lines are translated.
OTHER_SUFFIXES: Final = re.compile(
    r"""\.(?:
      xml | xsl | xsd | svg | resx | plist | strings | stringsdict | xcstrings | sgml? | csv | tsv | rtf
    | tex | sty | bib | ini | cfg | conf | toml | sql | s?css | py | ipynb | [mc]?js | jsx | tsx | vue
    | c | h | cc | cpp | hpp | java | php | swift
    )""",
    re.VERBOSE | re.IGNORECASE,
)
BINARY_SUFFIXES: Final = (".pdf", ".doc", ".ppt", ".xls")


def read_translations(data: bytes, name: str, found: Format, options: ReadOptions) -> Iterator[TranslationPair]:
    """The sources and translations of a bilingual document."""
    module = import_module(f"dragoman.documents.formats.{found.module}")
    return cast(Iterator[TranslationPair], module.read_pairs(data, name, options))


def find_format(name: str) -> Format:
    """The format of that name."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise DocumentError(
        f"unknown format {name!r}{suggest(name, [one.name for one in FORMATS])}", code="unsupported_format"
    )


def detect(data: bytes, name: str) -> Format | None:
    """The format of a file with these bytes, None if it is unknown; raise if it is known and not supported."""
    if data.startswith(OLE) and ENCRYPTED in data:
        raise encrypted(name)
    for start, (kind, advice) in ADVICE.items():
        if data.startswith(start):
            raise DocumentError(f"{name} is {kind}, which is not supported: {advice}", code="unsupported_format")
    suffix = PurePath(name).suffix.lower()
    by_suffix = next((one for one in FORMATS if suffix in one.suffixes), None)
    if by_suffix is not None and by_suffix.is_content is None and not data.startswith(ZIP):
        return by_suffix  # content says nothing about text, JSON, ...
    return next((one for one in FORMATS if one.is_content is not None and one.is_content(data)), by_suffix)


def check_text_suffix(path: Path) -> None:
    """Raise if the suffix of a file says that it is neither a document nor plain text; most suffixes say nothing."""
    suffixes = [suffix for suffix in path.suffixes[-2:] if suffix.lower() not in COMPRESSIONS.values()]
    if suffixes and OTHER_SUFFIXES.fullmatch(suffixes[-1]):
        raise DocumentError(
            f"{path}: {suffixes[-1]} files are not supported, and translating their lines may damage them; to "
            "translate every line as plain text, use --format text",
            code="unsupported_format",
        )


def format_of_suffix(suffix: str) -> str | None:
    """The name of the format whose files have a suffix."""
    return next((one.name for one in FORMATS if suffix.lower() in one.suffixes), None)


def check_output_suffix(output: Path, source: Path | None, format_name: str | None) -> None:
    """Raise if the suffix of a translated document is that of another format: documents keep theirs."""
    suffix = output.suffix.lower()
    by_suffix = format_of_suffix(suffix)
    known = by_suffix is not None or suffix in BINARY_SUFFIXES or OTHER_SUFFIXES.fullmatch(suffix)
    if not known or (source is not None and source.suffix.lower() == suffix):
        return
    if format_name is None and source is not None:
        found = detect_file(source)
        format_name = None if found is None else found.name
    if format_name is not None and format_name != by_suffix:
        expected = (source and source.suffix) or find_format(format_name).suffixes[0]
        raise DocumentError(
            f"{output} has the suffix {suffix}, but the translation is written in the format of the document, "
            f"{format_name}; give a name with the suffix {expected}",
            code="unsupported_format",
        )


def check_text_output(output: Path) -> None:
    """Raise if lines of text would be written to a file with the suffix of an Office document, an e-book or a PDF."""
    suffix = output.suffix.lower()
    is_office = any(suffix in one.suffixes for one in FORMATS if one.module.startswith("office."))
    if is_office or suffix in BINARY_SUFFIXES:
        message = f"{output} has the suffix {suffix}, but the translation of plain text is plain text"
        raise DocumentError(
            f"{message}; give another name, such as {output.with_suffix('.txt').name}", code="unsupported_format"
        )


def detect_file(path: Path) -> Format | None:
    """The format of a file."""
    try:
        with path.open("rb") as file:
            start = file.read(START_BYTES)
            return detect(start + file.read() if start.startswith((ZIP, OLE)) else start, str(path))
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}", code="file_unreadable") from None


def read_document(
    data: bytes, name: str, format_name: str | None = None, options: ReadOptions = NO_OPTIONS
) -> Document:
    """Read a document of a given format, or of the one that it has."""
    found = detect(data, name) if format_name is None else find_format(format_name)
    if found is None:
        supported = ", ".join(suffix for one in FORMATS for suffix in one.suffixes)
        raise DocumentError(
            f"{name} is not a document that can be translated; supported are {supported}; to translate it line by "
            "line, use the format 'text'",
            code="unsupported_format",
        )
    if not data and found.module.startswith("office."):
        raise DocumentError(f"{name} is empty; save or copy it again", code="file_empty")
    return found.read(data, name, options)
