"""`dragoman translate` for documents: a file to a file, files and folders to a directory, or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dragoman.cli import note
from dragoman.cli.input import is_folder
from dragoman.cli.options import reject_unused
from dragoman.cli.options.ray_options import RayArguments, output_folder
from dragoman.cli.output import check_stdout, should_report
from dragoman.errors import DataError, DragomanError, OutputError
from dragoman.files import write_output
from dragoman.progress import ConsoleReporter, Reporter
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.documents.files import Extras
    from dragoman.documents.folders import DocumentFile
    from dragoman.documents.reports.report import Report
    from dragoman.translation.translator import Translator

MAX_NOTES = 5  # segments to list per document
DOUBTFUL_CONFIDENCE = (
    0.5  # the mean of a document; 0.37 of a German one with a model for English, 0.86 of an English one
)
SURE_DETECTION = 0.9  # probability of a language


def translate_files(
    translator: Translator,
    files: Sequence[Path | None],
    output: str,
    format_name: str | None,
    progress: bool | None,
    options: dict[str, Any],
    review: str | None = None,
    bilingual: str | None = None,
    memory: Sequence[str] = (),
    retranslate: bool = False,
    on_ray: RayArguments | None = None,
    given: Sequence[Path] = (),
) -> None:
    """Translate documents to `output`: a file or standard output for one, a directory for several.

    `given` are other files that must not be overwritten.
    """
    place = None if output == "-" else Path(output)
    from dragoman.documents.detect import check_output_suffix
    from dragoman.documents.files import Extras, check_outputs, load_memory

    memories = load_memory(memory, translator, options)  # type: ignore[arg-type]
    if memories is not None and memories.scorer is None:
        note("only exact matches are taken from the memory; for similar ones: pip install 'dragoman[memory]'")
    reading: dict[str, Any] = {"memory": memories, "retranslate": retranslate}
    if on_ray is not None:
        reject_unused(("review", "bilingual"), "--ray translates several documents; translate one at a time")
        options = options | reading | {"memory": memory}
        arguments = on_ray.keywords(translator.engines.threads, progress, rows=False)
        translate_many(translator, files, Path(output_folder(output)), format_name, Reporter(), options, arguments)
        return
    shows = should_report(progress, place)
    has_bar = shows and find_spec("rich") is not None
    reporter: Reporter = ConsoleReporter(transient=True) if has_bar else Reporter()
    try:
        if len(files) == 1 and not is_folder(files[0]) and not is_directory(output):
            extras = Extras.parse(review, bilingual)
            written = [*extras.files, *([] if place is None else [place])]
            check_outputs(written, [path for path in (*files, *map(Path, memory), *given) if path is not None])
            if place is not None:
                check_output_suffix(place, files[0], format_name)
            report = translate_one(translator, files[0], place, format_name, reporter, options | reading, extras)
            if shows and place is not None and not has_summary(report):
                note(f"wrote {place}: {report.summary()}")
        else:
            reject_unused(("review", "bilingual"), "there are several documents; translate one at a time")
            translate_many(translator, files, place, format_name, reporter, options | reading)
    finally:
        reporter.close()


def is_directory(output: str) -> bool:
    """Whether an output is a directory, or is written as one."""
    return output != "-" and (output.endswith(os.sep) or Path(output).is_dir())


def translate_one(
    translator: Translator,
    source: Path | None,
    output: Path | None,
    format_name: str | None,
    reporter: Reporter,
    options: dict[str, Any],
    extras: Extras,
) -> Report:
    """Translate a document, or standard input, to a file or standard output."""
    from dragoman.documents.files import read_file, translate_bytes, translate_file

    if output is None:
        check_stdout()
    name = "standard input" if source is None else str(source)
    if source is not None and output is not None:
        report = translate_file(translator, source, output, format_name, reporter, extras, **options)
    else:
        data = sys.stdin.buffer.read() if source is None else read_file(source)
        written, report = translate_bytes(translator, data, name, format_name, reporter, extras.needs_words, **options)
        if output is not None:
            write_output(output, written)
        elif b"\0" in written and sys.stdout.isatty():
            raise OutputError(f"the translation of {name} is not text; give a file: -o FILE", code="missing_option")
        else:
            sys.stdout.buffer.write(written)
            sys.stdout.buffer.flush()
    extras.write(report, translator, name, options)  # type: ignore[arg-type]
    reporter.close()
    show_report(name, report)
    show_other_language(name, report, translator, options)
    if report.needs_review:
        seen = f"open {extras.review}" if extras.review is not None else "add --review FILE"
        note(f"to see the segments to review, {seen}")
    return report


def translate_many(
    translator: Translator,
    files: Sequence[Path | None],
    output: Path | None,
    format_name: str | None,
    reporter: Reporter,
    options: dict[str, Any],
    ray_arguments: dict[str, Any] | None = None,
) -> None:
    """Translate files and folders into a directory; with the arguments of `dragoman.ray`, on a cluster."""
    from dragoman.documents.detect import format_of_suffix
    from dragoman.documents.folders import find_documents, translate_documents

    paths = [path for path in files if path is not None]
    if len(paths) < len(files):
        raise DataError("standard input cannot be combined with documents; give files only", code="conflicting_options")
    if output is None:
        what = next((f"{path} is a directory" for path in paths if path.is_dir()), "there are several documents")
        raise DataError(f"{what}; give a directory for the translations: -o DIR", code="missing_option")
    if not output.is_dir() and (output.exists() or format_of_suffix(output.suffix)):
        raise OutputError(
            f"{output} is the name of a file; several documents need a directory: -o DIR", code="not_a_directory"
        )
    documents, skipped = find_documents(paths, output, format_name)
    if skipped:
        note(f"skipped {plural(len(skipped), 'file')} that cannot be translated, such as {skipped[0]}")
    if not documents:
        raise DataError(f"no documents in {paths[0]}", code="no_data")
    before, errors, to_review = 0, list[DragomanError](), False
    if ray_arguments is None:
        results = translate_documents(translator, documents, output, format=format_name, reporter=reporter, **options)
    else:
        results = translate_documents_on_ray(
            translator, documents, output, format=format_name, **ray_arguments, **options
        )
    try:
        for document, result in results:
            if result is None:
                before += 1
            elif isinstance(result, DragomanError):
                errors.append(result)
                note(f"{document.source} was not translated: {result}")
            else:
                show_report(str(document.source), result)
                show_other_language(str(document.source), result, translator, options)
                to_review = to_review or result.needs_review
    except KeyboardInterrupt:
        note("finished documents are kept; run the same command to continue")
        raise
    if to_review:
        note("to see the segments to review, translate one document at a time with --review FILE")
    if before:
        note(f"{plural(before, 'document')} had been translated before and did not change")
    if errors:
        raise DataError(
            f"{plural(len(errors), 'document')} of {len(documents):,} could not be translated; see above",
            code=errors[0].code,
        )


def translate_documents_on_ray(
    translator: Translator, documents: Sequence[DocumentFile], output: Path, **options: Any
) -> Iterator[tuple[DocumentFile, Report | DragomanError | None]]:
    """Translate documents on a cluster, whose workers load the same model again."""
    import dragoman.ray

    engines = translator.engines
    loading = {
        "engine": engines.engine,
        "device": engines.device,
        "precision": engines.precision,
        "ensemble": engines.others,
        "mean": engines.mean,
        "adapter": engines.adapter,
        "language": translator.language,
    }
    return dragoman.ray.translate_documents(engines.directory, documents, output, loading=loading, **options)


def show_report(name: str, report: Report) -> None:
    """Print what needs review."""
    from dragoman.documents.reports.report import PROBLEMS

    for result in report.kept[:MAX_NOTES]:
        assert result.problem is not None
        where = f"{name}, {result.segment.key}"
        note(f"{where}: left in the source language, because {PROBLEMS[result.problem]}")
    if has_summary(report):
        note(f"{name}: {report.summary()}")


def has_summary(report: Report) -> bool:
    """Whether the summary of a report is printed even if progress is not."""
    return report.from_memory > 0 or report.needs_review


def show_other_language(name: str, report: Report, translator: Translator, options: dict[str, Any]) -> None:
    """Say if a document seems to be in another language than the model translates from.

    Only a document with low confidence is examined, because loading the detector takes a second.
    """
    from dragoman.documents.sentences import model_languages
    from dragoman.text.languages.detection import detect_languages, detection_available, detector_label
    from dragoman.text.languages.names import language_name

    expected, _ = model_languages(translator, options)  # type: ignore[arg-type]
    found = [result.confidence for result in report.results if result.confidence is not None]
    if not expected or not found or fmean(found) >= DOUBTFUL_CONFIDENCE or not detection_available():
        return
    best = detect_languages("\n".join(result.segment.text for result in report.results))[0]
    if best.confidence >= SURE_DETECTION and detector_label(best.language) != detector_label(expected):
        languages = language_name(best.language), language_name(expected)
        note(f"{name} seems to be in {languages[0]}, but the model translates from {languages[1]}")
