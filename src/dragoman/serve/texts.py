"""Translate the texts of a request; placeholders, URLs and text that the model cannot read stay, as in documents."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.documents.lines import text_translations
from dragoman.documents.segment import Segment
from dragoman.documents.transfer.placeholders import has_placeholders
from dragoman.serve.documents import DocumentWork, unknown_characters
from dragoman.serve.offload import offload
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import LARGE_CHARACTERS, Caller, Service
from dragoman.translation.result import Translation


async def translate_texts(
    service: Service, texts: Sequence[str], settings: BatchSettings, caller: Caller
) -> list[Translation]:
    """The translation of each text, in order."""
    service.check_size(texts)
    protected = await find_protected(texts, settings) if protects_placeholders(settings) else []
    if not protected:
        return await service.translate(texts, settings, caller)
    segments = [Segment(texts[i]) for i in protected]
    work = await offload(DocumentWork.plan, service, segments, settings, memory=False)
    chosen = {*protected}
    others = [i for i in range(len(texts)) if i not in chosen]
    found = dict(zip(others, await service.translate([texts[i] for i in others], settings, caller), strict=True))
    report = await work.translate(caller)
    translations = await offload(text_translations, work.segments.jobs, report.results)
    found.update(zip(protected, translations, strict=True))
    return [found[i] for i in range(len(texts))]


def protects_placeholders(settings: BatchSettings) -> bool:
    """Whether placeholders are masked: not if words of the text itself are needed, or limits apply to it as a whole."""
    search, constraints = settings.search, settings.constraints
    required = constraints is not None and bool(constraints.require)
    plain = search.n_best == 1 and search.sampling is None and search.for_part(2) == search
    return plain and not settings.alignment and not required


async def find_protected(texts: Sequence[str], settings: BatchSettings) -> list[int]:
    """The indices of texts with placeholders, or with characters that the model cannot read.

    Many or long texts are searched off the event loop.
    """

    def find() -> list[int]:
        return [i for i, text in enumerate(texts) if has_placeholders(text) or unknown_characters(settings, text)]

    return await offload(find) if len(texts) + sum(map(len, texts)) > LARGE_CHARACTERS else find()
