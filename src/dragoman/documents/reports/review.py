"""A page to review a translated document: both texts side by side, what needs review, and aligned words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

from dragoman.documents.memory.lookup import Match
from dragoman.documents.reports.report import NUMBERS_DIFFER, PROBLEMS, Report, SegmentResult

FLAG_LABELS: Final = {
    "truncated": "cut off at the maximum length",
    "repetitive": "repeats itself",
    "too_short": "far too short",
    "too_long": "far too long",
    "copied": "same as the source",
    "no_letters": "has no letters",
    "unseen_length": "source longer than any in the training data",
    "split": "translated in parts",
    "empty": "a sentence has no translation",
    NUMBERS_DIFFER: "numbers differ",
}


def review_page(report: Report, name: str) -> str:
    """One HTML file without links to others."""
    data = {"name": name, "summary": report.summary(), "segments": [entry(result) for result in report.results]}
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = files("dragoman.documents.reports").joinpath("web", "review.html").read_text(encoding="utf-8")
    return template.replace('"DATA"', content)


def make_note(code: str, text: str, *values: str) -> dict[str, Any]:
    """A note in English, with a code and values for pages in other languages."""
    return {"code": code, "values": values, "text": text}


def match_note(match: Match) -> dict[str, Any]:
    """A match in a translation memory."""
    if match.score == 100:
        return make_note("match", f"in the memory: {match.target}", match.target)
    score = f"{match.score:.0f}"
    text = f"{score} % like {match.source!r} in the memory: {match.target}"
    return make_note("similar", text, score, match.source, match.target)


def segment_notes(result: SegmentResult) -> Iterator[dict[str, Any]]:
    """What a person should know about a segment."""
    if result.problem is not None:
        yield make_note("kept", f"left in the source language: {PROBLEMS[result.problem]}", result.problem)
    for flag in result.flags:
        if flag != "unmet":  # the phrases themselves are below
            yield make_note(flag, FLAG_LABELS[flag])
    if result.low_confidence:
        yield make_note("low_confidence", "low confidence")
    for phrase in result.unmet:
        yield make_note("lacks", f"lacks {phrase!r}", phrase)
    for tag in result.unaligned:
        yield make_note("unaligned", f"no aligned words for <{tag}>", tag)
    if result.retried and result.problem is None:
        yield make_note("retried", "placeholders needed a second try")
    yield from map(match_note, result.matches)


def entry(result: SegmentResult) -> dict[str, Any]:
    """What the page shows of a segment."""
    found: dict[str, Any] = {"key": result.segment.key, "source": result.segment.text, "review": result.needs_review}
    if result.target is not None:
        found["target"] = result.target.text
    if result.confidence is not None:
        found["confidence"] = round(result.confidence, 3)
    found["notes"] = list(segment_notes(result))
    if result.words is not None:
        found["words"] = [result.words.source, result.words.target, result.words.links]
    return found
