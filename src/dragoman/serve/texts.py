"""Translate the texts of a request; placeholders, URLs and text that the model cannot read stay, as in documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dragoman.documents.jobs import Split
from dragoman.documents.lines import MaskedLine, is_read_in_parts, mask_line, restore_alternatives, text_translations
from dragoman.documents.segment import Segment
from dragoman.documents.source_vocabulary import SourceVocabulary
from dragoman.documents.transfer.placeholders import has_placeholders
from dragoman.serve.documents import DocumentWork, source_vocabulary
from dragoman.serve.scheduling.budget import Meter
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Caller, Service, is_large
from dragoman.translation.result import Translation

TEXTS_WITH_TERMS = 100  # more of them are large: terms are looked for in each


async def translate_texts(
    service: Service, texts: Sequence[str], settings: BatchSettings, caller: Caller
) -> list[Translation]:
    """The translation of each text, in order."""
    service.check_size(texts)
    if not protects_placeholders(settings):
        return await service.translate(texts, settings, caller)
    has_terms = bool(settings.terms) or settings.model.terms is not None
    large = is_large(texts) or (has_terms and len(texts) > TEXTS_WITH_TERMS)
    if settings.search.n_best > 1:
        return await translate_masked(service, texts, settings, caller, large)
    find = partial(find_protected, texts, settings.model.segmenter.split_line, source_vocabulary(settings))
    protected = await service.run_step(find, caller, large)
    if not protected:
        return await service.translate(texts, settings, caller)
    check = partial(service.prepare, texts, settings)  # the limits apply to all texts together
    await service.run_step(check, caller, large)
    meter = Meter(service.limits)
    segments = [Segment(texts[i]) for i in protected]
    plan = partial(DocumentWork.plan, service, segments, settings, memory=False, meter=meter, large=large)
    work = await service.run_step(plan, caller, large)
    chosen = {*protected}
    others = [i for i in range(len(texts)) if i not in chosen]
    translated = await service.translate([texts[i] for i in others], settings, caller, meter)
    found = dict(zip(others, translated, strict=True))
    report = await work.translate(caller)
    join = partial(text_translations, work.segments.jobs, report.results)
    translations = await service.run_step(join, caller, large)
    found.update(zip(protected, translations, strict=True))
    return [found[i] for i in range(len(texts))]


async def translate_masked(
    service: Service, texts: Sequence[str], settings: BatchSettings, caller: Caller, large: bool
) -> list[Translation]:
    """The best translations of each text: those that keep all placeholders, or one that was made to keep them.

    Texts that are read in parts have one too.
    """
    split, vocabulary = settings.model.segmenter.split_line, source_vocabulary(settings)

    def mask() -> tuple[list[MaskedLine | None], set[int]]:
        lines = [mask_line(text) for text in texts]
        return lines, {i for i, text in enumerate(texts) if is_read_in_parts(text, split, vocabulary)}

    lines, in_parts = await service.run_step(mask, caller, large)
    sent = [text if line is None else line.masked.text for text, line in zip(texts, lines, strict=True)]
    found = await service.translate(["" if i in in_parts else text for i, text in enumerate(sent)], settings, caller)
    restored = [
        one if line is None else restore_alternatives(line, one) for one, line in zip(found, lines, strict=True)
    ]
    kept = {i: one for i, one in enumerate(restored) if one is not None and i not in in_parts}
    if lost := [i for i in range(len(texts)) if i not in kept]:
        single = replace(settings, search=replace(settings.search, n_best=1))
        again = await translate_texts(service, [texts[i] for i in lost], single, caller)
        kept.update(zip(lost, again, strict=True))
    return [kept[i] for i in range(len(texts))]


def protects_placeholders(settings: BatchSettings) -> bool:
    """Whether placeholders are masked: not if words of the text itself are needed, or limits apply to it as a whole."""
    search, constraints = settings.search, settings.constraints
    required = constraints is not None and bool(constraints.require)
    plain = search.sampling is None and search.for_part(2) == search
    return plain and not settings.alignment and not required


def find_protected(texts: Sequence[str], split: Split, vocabulary: SourceVocabulary) -> list[int]:
    """The indices of texts with placeholders, separators, sentences in capitals, or characters that cannot be read."""
    return [i for i, text in enumerate(texts) if has_placeholders(text) or is_read_in_parts(text, split, vocabulary)]
