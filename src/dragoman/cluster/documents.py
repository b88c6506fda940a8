"""Translate the documents of a folder on a cluster: a worker takes a document at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.cluster.executor import Executor
from dragoman.cluster.tasks import ModelSource
from dragoman.cluster.throughput import WorkerThroughput
from dragoman.documents.files import load_memory
from dragoman.documents.folders import DocumentFile, read_record, settings_digest, translate_into, write_record
from dragoman.documents.reports.report import Report
from dragoman.errors import DocumentError, DragomanError


@dataclass(frozen=True)
class DocumentTask:
    """How documents are translated; `memory` are the files of translation memories."""

    source: ModelSource
    output: Path
    format: str | None = None
    memory: Sequence[str] = ()
    retranslate: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DocumentBlock:
    """A document, and its record if it was translated before."""

    document: DocumentFile
    known: dict[str, str] | None


@dataclass(frozen=True)
class DocumentResult:
    """The report or the error (message and code) of a document, and its new record."""

    document: DocumentFile
    report: Report | None
    error: tuple[str, str] | None
    entry: dict[str, str] | None


def read_block(block: DocumentBlock) -> Iterator[DocumentBlock]:
    """The block itself: the worker that translates a document reads it."""
    yield block


def load_document_worker(task: DocumentTask) -> Callable[[DocumentBlock], DocumentResult]:
    """Load the model; return the function that translates a document."""
    from dragoman.translation.translator import Translator

    translator, options = Translator.load(task.source.model, **task.source.options), dict(task.options)
    memory = load_memory(task.memory, translator, options)  # type: ignore[arg-type]
    digest = settings_digest(translator, task.format, memory, task.retranslate, options)  # type: ignore[arg-type]

    def run(block: DocumentBlock) -> DocumentResult:
        found, entry = translate_into(
            translator, block.document, task.output, block.known, digest,
            format=task.format, memory=memory, retranslate=task.retranslate, **options,
        )  # fmt: skip
        if isinstance(found, DragomanError):
            return DocumentResult(block.document, None, (str(found), found.code), None)
        return DocumentResult(block.document, found, None, entry)

    return run


def run_documents(
    documents: Sequence[DocumentFile], task: DocumentTask, executor: Executor, throughput: WorkerThroughput
) -> Iterator[tuple[DocumentFile, Report | DragomanError | None]]:
    """Translate documents in any order; yield each with its report, its error, or None if it was done before."""
    record = read_record(task.output)
    blocks = [DocumentBlock(document, record.get(document.name)) for document in documents]
    for outcome in executor.map(blocks, read_block, partial(load_document_worker, task)):
        found = outcome.value
        throughput.count(outcome.worker, 1, 1, outcome.seconds)
        if found.entry is not None:
            record[found.document.name] = found.entry
            write_record(task.output, record)
        error = None if found.error is None else DocumentError(found.error[0], code=found.error[1])
        yield found.document, error or found.report
