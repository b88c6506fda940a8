"""Translate files and folders into a directory; a run that was interrupted can be resumed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Unpack

from dragoman.documents.chunks import open_document
from dragoman.documents.detect import detect_file, find_format, format_of_suffix
from dragoman.documents.files import check_outputs, translate_file
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.reports.report import Report
from dragoman.errors import DocumentError, DragomanError
from dragoman.files import MANIFEST, parse_json, sha256, write_output
from dragoman.progress import Reporter
from dragoman.search.constraints.terms import Terms
from dragoman.translation.options import TranslationOptions
from dragoman.translation.translator import Translator

RECORD: Final = ".dragoman-documents.json"  # in the output directory: what has been translated, from what, and how
RECORD_FORMAT: Final = 1


@dataclass(frozen=True)
class DocumentFile:
    """A document to translate, and the path of its translation in the output directory."""

    source: Path
    name: str  # relative to the output directory, with slashes


def find_documents(
    sources: Sequence[Path], output: Path, format_name: str | None = None
) -> tuple[list[DocumentFile], list[Path]]:
    """The documents among files and folders, and the files of the folders that are not documents.

    A file keeps its name, and files of a folder their path in it, below the folder's name if there are other sources.
    """
    found: list[DocumentFile] = []
    skipped: list[Path] = []
    if format_name is not None:
        find_format(format_name)
    for source in sources:
        if not source.is_dir():
            if format_name is None:
                detect_file(source)  # raises if it is not supported
            found.append(DocumentFile(source, source.name))
            continue
        for path in walk(source, output):
            inside = path.relative_to(source)
            if is_document(path):
                found.append(DocumentFile(path, (inside if len(sources) == 1 else source.name / inside).as_posix()))
            else:
                skipped.append(path)
    names: dict[str, Path] = {}
    for file in found:
        other = names.setdefault(file.name, file.source)
        if other is not file.source:
            raise DocumentError(
                f"{other} and {file.source} would both be written to {output / file.name}; translate them separately",
                code="duplicate_file",
            )
        check_outputs([output / file.name], [file.source])
    return found, skipped


def walk(folder: Path, output: Path) -> Iterator[Path]:
    """The files of a folder in order, without hidden ones and without the output directory."""
    for directory, folders, files in os.walk(folder):
        place = Path(directory)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not (output.exists() and output.samefile(place / name))
        )
        yield from (place / name for name in sorted(files) if not name.startswith("."))


def is_document(path: Path) -> bool:
    """Whether a file of a folder has a supported format, as far as it can be read."""
    try:
        return path.is_file() and detect_file(path) is not None
    except DragomanError as error:
        return error.code == "file_unreadable" and format_of_suffix(path.suffix) is not None


def translate_documents(
    translator: Translator,
    documents: Sequence[DocumentFile],
    output: Path,
    *,
    format: str | None = None,  # noqa: A002
    reporter: Reporter | None = None,
    memory: Memory | None = None,
    retranslate: bool = False,
    **options: Unpack[TranslationOptions],
) -> Iterator[tuple[DocumentFile, Report | DragomanError | None]]:
    """Translate documents into a directory; yield each with its report, or None if it had been translated before.

    A document that cannot be read does not stop the others: its error is yielded. Finished documents are recorded; they
    are translated again if they, the model or the options have changed.
    """
    settings = settings_digest(translator, format, memory, retranslate, options)
    record = read_record(output)
    for document in documents:
        result, entry = translate_into(
            translator, document, output, record.get(document.name), settings,
            format=format, reporter=reporter, memory=memory, retranslate=retranslate, **options,
        )  # fmt: skip
        if entry is not None:
            record[document.name] = entry
            write_record(output, record)
        yield document, result


def translate_into(
    translator: Translator,
    document: DocumentFile,
    output: Path,
    known: dict[str, str] | None,
    settings: str,
    *,
    format: str | None = None,  # noqa: A002
    reporter: Reporter | None = None,
    memory: Memory | None = None,
    retranslate: bool = False,
    **options: Unpack[TranslationOptions],
) -> tuple[Report | DragomanError | None, dict[str, str] | None]:
    """Translate a document into a directory, unless its record `known` says that this has been done.

    Return its report (None if nothing was done) or its error, and its new record, if there is one.
    """
    place = output / document.name
    try:
        with open_document(document.source) as file:
            entry = {"source": hashlib.file_digest(file, "sha256").hexdigest(), "settings": settings}
        if known is not None and place.exists():
            if known == entry | {"output": known.get("output")}:
                return None, None  # also if somebody has corrected the translation
            if not is_same(place, known):
                raise DocumentError(
                    f"{place} has been edited since it was translated, and {document.source} or the options have "
                    "changed; move the edited file away to translate again",
                    code="output_edited",
                )
        name = format or ("text" if detect_file(document.source) is None else None)
        place.parent.mkdir(parents=True, exist_ok=True)
        report = translate_file(
            translator, document.source, place, name, reporter, memory=memory, retranslate=retranslate, **options
        )
    except DocumentError as error:
        return error, None
    return report, entry | {"output": sha256(place)}


def is_same(path: Path, entry: dict[str, str]) -> bool:
    """Whether a translation is still the one that was recorded."""
    try:
        return sha256(path) == entry["output"]
    except (OSError, KeyError):
        return False


def read_record(output: Path) -> dict[str, dict[str, str]]:
    """The documents that have been translated into a directory, by name; empty if the record is missing or damaged."""
    try:
        found = parse_json((output / RECORD).read_bytes())
        if found["format"] == RECORD_FORMAT and all(isinstance(entry, dict) for entry in found["documents"].values()):
            return dict(found["documents"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


def write_record(output: Path, documents: dict[str, dict[str, str]]) -> None:
    """Record the documents that have been translated."""
    import json

    content = {"format": RECORD_FORMAT, "documents": documents}
    write_output(output / RECORD, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def settings_digest(
    translator: Translator,
    format_name: str | None,
    memory: Memory | None,
    retranslate: bool,
    options: TranslationOptions,
) -> str:
    """A digest of everything that decides a translation besides the document: model and options."""
    engines = translator.engines
    models = [sha256(model / MANIFEST) for model in (engines.directory, *engines.others)]
    values: list[Any] = [models, engines.mean, translator.language, format_name]
    if memory is not None or retranslate:
        values.append(([sha256(path) for path in memory.files] if memory is not None else [], retranslate))
    for name, value in sorted(options.items()):
        shown = (sorted(value.targets.items()), value.ignore_case) if isinstance(value, Terms) else value
        values.append((name, repr(shown)))
    return hashlib.sha256(repr(values).encode()).hexdigest()
