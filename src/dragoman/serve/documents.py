"""Translate documents through the queue: read and write them off the event loop, within the limits of the server."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Final

from dragoman.documents.detect import ZIP, read_document
from dragoman.documents.formats.office.archive import BAD_ZIP, read_entry
from dragoman.documents.formats.office.xml.events import decode_part
from dragoman.documents.reports.report import Report, SegmentResult
from dragoman.documents.segment import Document, ReadOptions, Segment
from dragoman.documents.source_vocabulary import SourceVocabulary, TokenizerVocabulary
from dragoman.documents.transfer.protected import find_between
from dragoman.documents.translate import SegmentTranslation, SentenceRequest, divide_segments, next_step
from dragoman.errors import DocumentError, SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.terms import Terms
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import MAX_CONSTRAINT_CHARACTERS, MAX_SENTENCES, Limits
from dragoman.serve.scheduling.budget import Meter, check_reply, check_seconds, check_work, estimate_work
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Caller, Service, check_terms, count_characters, max_sentence_characters
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import LONG_LINE, Segmenter

UNPACKED_FACTOR: Final = 4  # by which an unpacked document may exceed the limit on bodies
STRUCTURE: Final = (b"<", b"\n", b"\r", b'"', b",", b"[", b"{", b"*", b"`", b"|")  # of HTML, JSON, YAML, Markdown...
MAX_STRUCTURE: Final = 100_000  # of these per document; a text of a million characters has about 50,000
MAX_TAGS: Final = 250_000  # in all parts of an archive
MAX_PROTECTED: Final = 20_000  # placeholders and symbols per request; they take a second
ASSEMBLED_CHARACTERS: Final = 4096  # at a time, so that other large requests wait for milliseconds
MAX_NAME: Final = 150  # characters of a file name


@dataclass(frozen=True)
class DocumentWork:
    """A document that has been read, split into sentences, and found to be within the limits."""

    service: Service
    settings: BatchSettings
    segments: SegmentTranslation
    meter: Meter  # counts sentences while they are translated
    large: bool  # whether its steps run off the event loop

    @classmethod
    def plan(
        cls,
        service: Service,
        segments: Sequence[Segment],
        settings: BatchSettings,
        align: bool = False,
        memory: bool = True,
        meter: Meter | None = None,
        large: bool = True,
    ) -> DocumentWork:
        """Split segments into sentences; reject documents that cost too much. With `align`, align all words.

        With `memory`, sentences that the translation memory of the model has are taken from there. `meter` has the
        costs of what else the request has.
        """
        texts = [segment.text for segment in segments if segment.translate]
        size = service.check_size(texts, "split the document")
        check_reply(len(texts), size, settings.search, service.limits)
        check_sentence_count(len(texts))
        segmenter = settings.model.segmenter
        split = partial(split_line, segmenter, max_sentence_characters(segmenter, texts))
        files = settings.model.memory
        found_in = files.between(*document_languages(settings)) if files is not None and memory else None
        aligned = align and settings.model.has_attention
        vocabulary = source_vocabulary(settings)
        check_protected(texts, vocabulary)
        work = SegmentTranslation(segments, split, vocabulary, aligned, found_in)
        check_sentence_count(sum(len(job.units) for job in work.jobs if job is not None))
        if sum(count_characters(targets) for _, targets in settings.terms) > MAX_CONSTRAINT_CHARACTERS:
            check_terms([unit.masked.text for unit in work.units], settings.terms)
        found = cls(service, settings, work, Meter(service.limits) if meter is None else meter, large)
        seconds = total = 0.0
        for aligned in (False, True):
            own = found.settings_for(aligned)
            sentences = [unit.masked.text for unit in work.units if unit.marked is aligned]
            cost = sum(estimate_work(sentence, own.search) for sentence in sentences)
            seconds, total = seconds + service.throughput.seconds(own, cost), total + cost
        check_work(int(total), service.limits)
        check_seconds(seconds, service.limits)
        return found

    @property
    def n_sentences(self) -> int:
        """The number of sentences; those that are translated again are not counted."""
        return len(self.segments.units)

    def settings_for(self, alignment: bool, required: Sequence[str] | None = None) -> BatchSettings:
        """The settings of a step; a model without attention does not align."""
        settings = replace(self.settings, alignment=alignment and self.settings.model.has_attention)
        if required is None:
            return settings
        kept = tuple((word, (word,)) for word in required)
        constraints = settings.constraints or Constraints.of((), ())
        return replace(settings, constraints=constraints, terms=(*settings.terms, *kept))

    async def translate(self, caller: Caller) -> Report:
        """Translate the sentences by the deadline; drop them if the client disconnects."""
        steps = self.segments.steps()
        found: Iterable[Translation] | None = None
        run = self.service.run_step
        while (step := await run(partial(next_step, steps, found), caller, self.large)) is not None:
            found = await self._translate_step(step, caller)
        results: list[SegmentResult] = []
        for part in divide_segments(self.segments.segments, ASSEMBLED_CHARACTERS):
            results += await run(partial(self.segments.assemble, part), caller, self.large)
        return Report(results)

    async def _translate_step(self, step: SentenceRequest, caller: Caller) -> list[Translation] | None:
        if step.required is not None and sum(map(len, step.required)) > MAX_CONSTRAINT_CHARACTERS:
            return None
        settings = [self.settings_for(step.alignment, step.required)] * len(step.texts)
        try:
            return await self.service.translate_sentences(step.texts, settings, caller, self.meter)
        except SearchError:
            if step.required is None:
                raise
            return None  # the engine does not support lexical constraints


def read_sent_document(
    data: bytes, name: str, format_name: str | None, options: ReadOptions, limits: Limits
) -> Document:
    """Read a document that a client sent; reject one that would take long to read, before it is parsed."""
    if data.startswith(ZIP):
        check_archive(data, limits)
    else:
        check_structure(sum(map(data.count, STRUCTURE)), MAX_STRUCTURE)
    return read_document(data, name, format_name, options)


def check_archive(data: bytes, limits: Limits) -> None:
    """Reject an archive that is too large when it is unpacked, or has too many XML tags."""
    limit, tags = UNPACKED_FACTOR * limits.max_bytes, 0
    with suppress(*BAD_ZIP), zipfile.ZipFile(io.BytesIO(data)) as archive:  # read_document says what is wrong with it
        entries = archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > limit:
            message = f"the document has {unpacked:,} bytes when it is unpacked; this server accepts {limit:,}"
            raise RequestError(413, "too_large", f"{message} (--max-characters); split it")
        for entry in entries:
            tags += count_tags(archive, entry)
            check_structure(tags, MAX_TAGS)


def count_tags(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """The tags of a part, whatever its name; 0 for a part that is not text, because it cannot be parsed either."""
    with suppress(DocumentError, *BAD_ZIP):
        return decode_part(read_entry(archive, entry), entry.filename)[0].count("<")
    return 0


def check_structure(n: int, maximum: int) -> None:
    """Reject a document with too many tags, lines or strings: each takes time and memory, whatever its text."""
    if n > maximum:
        message = f"the document has about {n:,} tags, lines or strings; this server accepts {maximum:,}"
        raise RequestError(413, "too_large", f"{message}; split it")


def document_text(segments: Iterable[Segment]) -> str:
    """The text of a document without markup, to detect its language."""
    return "\n".join(segment.text for segment in segments if segment.translate)


def check_sentence_count(n: int) -> None:
    """Reject a document with too many segments or sentences."""
    if n > MAX_SENTENCES:
        message = f"the document has {n:,} paragraphs or sentences; send at most {MAX_SENTENCES:,} at a time"
        raise RequestError(413, "too_large", message)


def split_line(segmenter: Segmenter, limit: int, line: str) -> list[str]:
    """The sentences of a line, none longer than `limit` characters."""
    found = (part for piece in cut_text(line, max(limit, LONG_LINE)) for part in segmenter.split_line(piece))
    return [part for sentence in found for part in cut_text(sentence, limit)]


def check_protected(texts: Sequence[str], vocabulary: SourceVocabulary) -> None:
    """Reject texts with too many placeholders, URLs and words that the model cannot read: each takes time."""
    found = (one for text in texts for one in find_between(text, (), vocabulary.unknown(text), program=True))
    if next(islice(found, MAX_PROTECTED, None), None) is not None:
        what = "placeholders, URLs, or symbols that the model cannot read"
        raise RequestError(413, "too_large", f"the text has over {MAX_PROTECTED:,} {what}; split it")


def source_vocabulary(settings: BatchSettings) -> TokenizerVocabulary:
    """What the model can read, or has terms for."""
    own = Terms(settings.terms) if settings.terms else None
    all_terms = [terms for terms in (settings.model.terms, own) if terms is not None]
    return TokenizerVocabulary(settings.model.segmenter.tokenizer, all_terms)


def cut_text(text: str, limit: int) -> Iterator[str]:
    """Parts of at most `limit` characters, cut at white space if possible, and not inside the mask of a placeholder."""
    while len(text) > limit:
        places = range(limit, limit // 2, -1)
        space = next((place for place in places if text[place].isspace()), None)
        end = space or next((place for place in places if not is_inside_word(text[place - 1 : place + 1])), limit)
        if part := text[:end].strip():
            yield part
        text = text[end:].strip()
    if text:
        yield text


def is_inside_word(pair: str) -> bool:
    """Whether two characters may be in the same mask, such as X1 or 4831."""
    return pair.isascii() and pair.isalnum()


def file_name(name: str) -> str:
    """The name of a file that a client sent, without folders and control characters."""
    found = PurePath(name.replace("\\", "/")).name
    printable = "".join(character for character in found if character.isprintable()).strip(" .")
    stem, suffix = PurePath(printable).stem, PurePath(printable).suffix[:20]
    return stem[: MAX_NAME - len(suffix)] + suffix or "document"


def document_languages(settings: BatchSettings, source: str = "") -> tuple[str, str]:
    """The codes of the source and target language of a request, empty where they are not known.

    `source` is the language of the document, for a model with several.
    """
    model = settings.model
    if model.languages is not None:
        return model.languages
    return model.sources[0] if len(model.sources) == 1 else source, settings.to or ""


def translated_name(name: str, settings: BatchSettings) -> str:
    """The name of the translated file: page.html becomes page.de.html."""
    path, (_, language) = PurePath(name), document_languages(settings)
    return f"{path.stem}.{language or 'translated'}{path.suffix}"
