"""Bilingual files of a translated document, for CAT tools: XLIFF 1.2 and TMX 1.4."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dragoman.documents.formats.localization.states import CREATION_TOOL, MEMORY_STATE, MT_STATE
from dragoman.documents.markup import escape_attribute, escape_xml
from dragoman.documents.reports.report import Report
from dragoman.documents.segment import Segment, Span, Target, render

SUFFIXES: Final = (".xlf", ".xliff", ".tmx")
HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'


def bilingual_file(report: Report, suffix: str, name: str, source: str, target: str) -> str:
    """The segments of a document with their translations; `source` and `target` are the codes of the languages."""
    write = write_tmx if suffix.lower() == ".tmx" else write_xliff
    return write(report, name, source, target)


def write_xliff(report: Report, name: str, source: str, target: str) -> str:
    """XLIFF 1.2, with the states of machine translations, and a note to those that need review more than others."""
    units = []
    for number, result in enumerate(report.results, 1):
        unit = [f'<trans-unit id="{number}" resname="{escape_attribute(result.segment.key)}"']
        unit.append(">\n" if result.segment.translate else ' translate="no">\n')
        unit.append(f"<source>{with_elements(result.segment)}</source>\n")
        if result.target is not None:
            state = MEMORY_STATE if result.target.approved else MT_STATE
            attributes = " ".join(f'{name}="{value}"' for name, value in state.items())
            unit.append(f"<target {attributes}>{with_elements(result.target)}</target>\n")
        low = ["low_confidence"] if result.low_confidence else []
        tags = [f"no aligned words for <{tag}>" for tag in result.unaligned]
        if notes := [*([result.problem] if result.problem else []), *result.flags, *low, *result.unmet, *tags]:
            unit.append(f"<note>{escape_xml(', '.join(notes))}</note>\n")
        units.append("".join([*unit, "</trans-unit>\n"]))
    return (
        f'{HEAD}<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n<file '
        f'original="{escape_attribute(name)}" source-language="{source}" target-language="{target}" '
        f'datatype="plaintext">\n<body>\n{"".join(units)}</body>\n</file>\n</xliff>\n'
    )


def write_tmx(report: Report, name: str, source: str, target: str) -> str:
    """TMX 1.4: the segments that were translated; machine translations have Dragoman as their creation tool."""
    units = []
    for result in report.results:
        if result.target is not None:
            tool = "" if result.target.approved else f' creationtool="{CREATION_TOOL}"'
            original = f'<tuv xml:lang="{source}"><seg>{with_codes(result.segment)}</seg></tuv>'
            variant = f'<tuv xml:lang="{target}"{tool}><seg>{with_codes(result.target)}</seg></tuv>'
            units.append(f"<tu>{original}{variant}</tu>\n")
    return (
        f'{HEAD}<tmx version="1.4">\n<header creationtool="dragoman" creationtoolversion="1" segtype="paragraph" '
        f'o-tmf="dragoman" adminlang="en" srclang="{source}" datatype="plaintext"><note>{escape_xml(name)}</note>'
        f"</header>\n<body>\n{''.join(units)}</body>\n</tmx>\n"
    )


def with_elements(content: Segment | Target) -> str:
    """Text with its spans as the elements of XLIFF: g around words, x for the rest."""
    spans = []
    for number, span in enumerate(content.spans, 1):
        opening = f'<g id="{number}">' if span.kind == "pair" else f'<x id="{number}" equiv-text="{equivalent(span)}"/>'
        spans.append(replace(span, open=opening, close="</g>" if span.kind == "pair" else ""))
    return render(replace(content, spans=tuple(spans)), escape_xml)


def with_codes(content: Segment | Target) -> str:
    """Text with its spans as the elements of TMX: bpt and ept around words, ph for the rest."""
    spans = []
    for number, span in enumerate(content.spans, 1):
        if span.kind == "pair":
            opening = f'<bpt i="{number}">{escape_xml(span.open)}</bpt>'
            spans.append(replace(span, open=opening, close=f'<ept i="{number}">{escape_xml(span.close)}</ept>'))
        else:
            spans.append(replace(span, open=f'<ph x="{number}">{escape_xml(span.open or span.name)}</ph>', close=""))
    return render(replace(content, spans=tuple(spans)), escape_xml)


def equivalent(span: Span) -> str:
    """What a span stands for, as the value of an attribute."""
    return escape_attribute(escape_xml(span.open or span.name).replace("&lt;", "<").replace("&gt;", ">")[:200])
