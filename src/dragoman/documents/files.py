"""Translate document files: one of them, or files and folders into a directory, which can be resumed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Unpack

from dragoman.documents.detect import detect_file, find_format, read_document
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.reports.bilingual import SUFFIXES, bilingual_file
from dragoman.documents.reports.report import Report
from dragoman.documents.reports.review import review_page
from dragoman.documents.segment import ReadOptions
from dragoman.documents.sentences import ModelTranslator, model_languages
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError, DragomanError, OutputError
from dragoman.files import MANIFEST, parse_json, sha256, write_output
from dragoman.progress import Reporter
from dragoman.search.constraints.terms import Terms
from dragoman.translation.options import TranslationOptions
from dragoman.translation.overlap import interpreter_settings
from dragoman.translation.translator import Translator

RECORD: Final = ".dragoman-documents.json"  # in the output directory: what has been translated, from what, and how
RECORD_FORMAT: Final = 1


def translate_document(
    model: Translator | str | Path,
    source: str | Path,
    output: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the name of the option on the command line
    review: str | Path | None = None,
    bilingual: str | Path | None = None,
    memory: Sequence[str | Path] = (),
    retranslate: bool = False,
    reporter: Reporter | None = None,
    **options: Unpack[TranslationOptions],
) -> Report:
    """Translate a document and write it to `output`, with everything but its words unchanged.

    `model` is a `Translator` or a model directory. The format is recognized by the content or the suffix, or given as
    `format`. `options` are those of `Translator.translate`, such as `to`, `terms` and `beam`. The report has each
    segment with its translation, and says which need a look.

    `review` is a page to write with both texts side by side; `bilingual` is a file for CAT tools, .xlf or .tmx.
    `memory` are translation memories, .tmx or .tsv: sentences that they have are taken from there. `retranslate`
    replaces translations that a document has already (PO, XLIFF, TMX).
    """
    translator = model if isinstance(model, Translator) else Translator.load(model)
    source, output = Path(source), Path(output)
    check_separate(source, output)
    extras = Extras.parse(review, bilingual, [source, output])
    data = read_file(source)
    memories = load_memory(memory, translator, options)
    written, report = translate_bytes(
        translator, data, str(source), format, reporter, extras.needs_words, memories, retranslate, **options
    )
    write_output(output, written)
    extras.write(report, translator, source.name, options)
    return report


@dataclass(frozen=True)
class Extras:
    """What is written besides a translated document: a review page, and a bilingual file."""

    review: Path | None = None
    bilingual: Path | None = None

    @classmethod
    def parse(
        cls, review: str | Path | None, bilingual: str | Path | None, others: Sequence[Path | None] = ()
    ) -> Extras:
        """Check the names before anything is translated; `others` are the files that must not be overwritten."""
        found = cls(None if review is None else Path(review), None if bilingual is None else Path(bilingual))
        if found.bilingual is not None and found.bilingual.suffix.lower() not in SUFFIXES:
            raise OutputError(
                f"{found.bilingual} has no known suffix; bilingual files are {' or '.join(SUFFIXES)}",
                code="unsupported_format",
            )
        paths = [path for path in (found.review, found.bilingual) if path is not None]
        taken = [path.absolute() for path in others if path is not None]
        for path in paths:
            if path.absolute() in taken:
                raise OutputError(f"{path} is also an input or output; write to another file", code="output_is_input")
            taken.append(path.absolute())
        return found

    @property
    def needs_words(self) -> bool:
        """Whether words must be aligned everywhere."""
        return self.review is not None

    def write(self, report: Report, translator: Translator, name: str, options: TranslationOptions) -> None:
        """Write the files."""
        if self.review is not None:
            write_output(self.review, review_page(report, name))
        if self.bilingual is not None:
            _, target = model_languages(translator, options)
            content = bilingual_file(report, self.bilingual.suffix, name, translator.language, target or "und")
            write_output(self.bilingual, content)


def translate_bytes(
    translator: Translator,
    data: bytes,
    name: str,
    format_name: str | None = None,
    reporter: Reporter | None = None,
    align: bool = False,
    memory: Memory | None = None,
    retranslate: bool = False,
    **options: Unpack[TranslationOptions],
) -> tuple[bytes, Report]:
    """The translated document, and the report; with `align`, all of its words are aligned."""
    languages = model_languages(translator, options)
    with interpreter_settings:
        document = read_document(data, name, format_name, ReadOptions(*languages, retranslate))
        model = ModelTranslator(translator, **options)
        report = translate_segments(document.segments, model, reporter, name, align, memory)
        return document.write([result.target for result in report.results]), report


def load_memory(files: Sequence[str | Path], translator: Translator, options: TranslationOptions) -> Memory | None:
    """The translation memories of a call; None without any."""
    return Memory([Path(file) for file in files], *model_languages(translator, options)) if files else None


def read_file(path: Path) -> bytes:
    """The bytes of a document."""
    if path.is_dir():
        raise DocumentError(f"{path} is a directory; give a file", code="not_a_file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DocumentError(f"there is no file {path}", code="file_missing") from None
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}", code="file_unreadable") from None


def check_separate(source: Path, output: Path) -> None:
    """Raise if the output would overwrite the source, or is a directory."""
    if output.is_dir():
        raise OutputError(f"{output} is a directory; give the name of a file", code="not_a_file")
    if output.exists() and source.exists() and source.samefile(output):
        raise OutputError(f"{output} is also an input; write to another file", code="output_is_input")


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
        check_separate(file.source, output / file.name)
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
    """Whether a file of a folder has a supported format."""
    try:
        return path.is_file() and detect_file(path) is not None
    except DragomanError:
        return False


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
        data = read_file(document.source)
        entry = {"source": hashlib.sha256(data).hexdigest(), "settings": settings}
        if known is not None and known == entry | {"output": known.get("output")} and is_same(place, known):
            return None, None
        name = format or ("text" if detect_file(document.source) is None else None)
        written, report = translate_bytes(
            translator, data, str(document.source), name, reporter, False, memory, retranslate, **options
        )
    except DocumentError as error:
        return error, None
    write_output(place, written)
    return report, entry | {"output": hashlib.sha256(written).hexdigest()}


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
