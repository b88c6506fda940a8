"""A page to review a translated document: both texts side by side, what needs review, and aligned words."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from dragoman.documents.memory.lookup import Match
from dragoman.documents.reports.report import PROBLEMS, Report, SegmentResult


def review_page(report: Report, name: str) -> str:
    """One HTML file without links to others."""
    data = {"name": name, "summary": report.summary(), "segments": [entry(result) for result in report.results]}
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = files("dragoman.documents.reports").joinpath("web", "review.html").read_text(encoding="utf-8")
    return template.replace('"DATA"', content)


def describe(match: Match) -> str:
    """A match in a translation memory."""
    if match.score == 100:
        return f"in the memory: {match.target}"
    return f"{match.score:.0f} % like {match.source!r} in the memory: {match.target}"


def entry(result: SegmentResult) -> dict[str, Any]:
    """What the page shows of a segment."""
    found: dict[str, Any] = {"key": result.segment.key, "source": result.segment.text, "review": result.needs_review}
    if result.target is not None:
        found["target"] = result.target.text
    if result.confidence is not None:
        found["confidence"] = round(result.confidence, 3)
    notes = [f"left in the source language: {PROBLEMS[result.problem]}"] if result.problem else []
    notes += result.flags
    if result.low_confidence:
        notes.append("low confidence")
    notes += [f"lacks {phrase!r}" for phrase in result.unmet]
    notes += [f"no aligned words for <{tag}>" for tag in result.unaligned]
    if result.retried and result.problem is None:
        notes.append("placeholders needed a second try")
    notes += map(describe, result.matches)
    found["notes"] = notes
    if result.words is not None:
        found["words"] = [result.words.source, result.words.target, result.words.links]
    return found
