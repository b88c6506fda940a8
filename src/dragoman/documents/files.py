"""Translate a document file; a large one in chunks, if its format allows it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Unpack

from dragoman.documents.chunks import open_document
from dragoman.documents.detect import check_output_suffix, detect_file, find_format, read_document
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.reports.bilingual import SUFFIXES, bilingual_file
from dragoman.documents.reports.report import Report, ReportBuilder
from dragoman.documents.reports.review import review_page
from dragoman.documents.segment import Document, ReadOptions
from dragoman.documents.sentences import ModelTranslator, SentenceTranslator, model_languages
from dragoman.documents.translate import DocumentTranslation, translate_segments
from dragoman.errors import OutputError
from dragoman.files import check_parent, write_output
from dragoman.progress import Reporter
from dragoman.translation.options import TranslationOptions
from dragoman.translation.overlap import interpreter_settings
from dragoman.translation.translator import Translator

LARGE_BYTES: Final = 8 << 20  # above, documents are translated in chunks if their format allows it


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
    segment with its translation, and says which need review.

    `review` is a page to write with both texts side by side; `bilingual` is a file for CAT tools, .xlf or .tmx.
    `memory` are translation memories, .tmx or .tsv: sentences that they have are taken from there. `retranslate`
    replaces translations that a document has already (PO, XLIFF, TMX).
    """
    translator = model if isinstance(model, Translator) else Translator.load(model)
    source, output = Path(source), Path(output)
    extras = Extras.parse(review, bilingual)
    check_outputs([output, *extras.files], [source, *map(Path, memory)])
    check_parent(output)
    check_output_suffix(output, source, format)
    memories = load_memory(memory, translator, options)
    report = translate_file(
        translator, source, output, format, reporter, extras, memory=memories, retranslate=retranslate, **options
    )
    extras.write(report, translator, source.name, options)
    return report


def translate_file(
    translator: Translator,
    source: Path,
    output: Path,
    format_name: str | None = None,
    reporter: Reporter | None = None,
    extras: Extras | None = None,
    memory: Memory | None = None,
    retranslate: bool = False,
    **options: Unpack[TranslationOptions],
) -> Report:
    """Translate a file to another one; a large one in chunks, if nothing needs all results at once."""
    extras = extras or Extras()
    chunks = None
    if extras == Extras():
        languages = model_languages(translator, options)
        chunks = read_large(source, format_name, ReadOptions(*languages, retranslate))
    if chunks is None:
        written, report = translate_bytes(
            translator, read_file(source), str(source), format_name, reporter, extras.needs_words, memory, retranslate,
            **options,
        )  # fmt: skip
        write_output(output, written)
        return report
    found = ReportBuilder()
    model, show = ModelTranslator(translator, **options), reporter or Reporter()
    write_output(output, translate_chunks(chunks, model, found, show, str(source), memory))
    return found.build()


def read_large(source: Path, format_name: str | None, options: ReadOptions) -> Iterator[Document] | None:
    """A large document in chunks; None if it is small, or its format needs all of it at once."""
    if not source.is_file() or source.stat().st_size < LARGE_BYTES:
        return None
    found = detect_file(source) if format_name is None else find_format(format_name)
    return None if found is None else found.read_chunks(source, options)


def translate_chunks(
    chunks: Iterable[Document],
    model: SentenceTranslator,
    report: ReportBuilder,
    reporter: Reporter,
    name: str,
    memory: Memory | None = None,
) -> Iterator[bytes]:
    """The translation of a large document, chunk by chunk; `report` gets the results."""
    reporter.start_stage(name, None, "segments")
    with interpreter_settings:
        for chunk in chunks:
            segments = chunk.segments
            results = translate_segments(segments, model, memory=memory).results
            report.add(results)
            reporter.advance(len(segments))
            yield chunk.write([result.target for result in results])


@dataclass(frozen=True)
class Extras:
    """What is written besides a translated document: a review page, and a bilingual file."""

    review: Path | None = None
    bilingual: Path | None = None

    @classmethod
    def parse(cls, review: str | Path | None, bilingual: str | Path | None) -> Extras:
        """Check the names before anything is translated."""
        found = cls(None if review is None else Path(review), None if bilingual is None else Path(bilingual))
        for path in found.files:
            check_parent(path)
        if found.bilingual is not None and found.bilingual.suffix.lower() not in SUFFIXES:
            raise OutputError(
                f"{found.bilingual} has no known suffix; bilingual files are {' or '.join(SUFFIXES)}",
                code="unsupported_format",
            )
        return found

    @property
    def files(self) -> list[Path]:
        """The files that are written."""
        return [path for path in (self.review, self.bilingual) if path is not None]

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
    model = ModelTranslator(translator, **options)
    with interpreter_settings, DocumentTranslation(model, align, memory) as translation:
        document = read_document(data, name, format_name, ReadOptions(*languages, retranslate, translation.add))
        report = translation.finish(document.segments, reporter, name)
        return document.write([result.target for result in report.results]), report


def load_memory(files: Sequence[str | Path], translator: Translator, options: TranslationOptions) -> Memory | None:
    """The translation memories of a call; None without any."""
    return Memory([Path(file) for file in files], *model_languages(translator, options)) if files else None


def read_file(path: Path) -> bytes:
    """The bytes of a document."""
    with open_document(path) as file:
        return file.read()


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raise if an output is a directory, or would overwrite an input or another output."""
    taken = {identify_file(path) for path in inputs}
    for path in outputs:
        if path.is_dir():
            raise OutputError(f"{path} is a directory; give the name of a file", code="not_a_file")
        if (place := identify_file(path)) in taken:
            raise OutputError(f"{path} is also an input or output; write to another file", code="output_is_input")
        taken.add(place)


def identify_file(path: Path) -> tuple[int, int] | str:
    """What is equal for all names of a file: `..`, symbolic links and hard links."""
    try:
        found = path.stat()
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
