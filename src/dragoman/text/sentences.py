"""Split a line of text into sentences: with sentencex if it is installed, else with a few rules."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Final

from dragoman.errors import DragomanWarning

Span = tuple[int, int]
# The end of a sentence with its closing quotes, then a space and a character that can begin a sentence; Chinese and
# Japanese need neither.
BOUNDARY: Final = re.compile(
    r"""(?<![.!?…؟۔।])[.!?…؟۔।]++["'”’»)\]]*+\s++(?=["'“‘«„(\[¿¡]*+[^\W_a-zß-öø-ÿа-я])|[。！？]+[”’」』）]*(?=.)""",
    re.DOTALL,
)
ABBREVIATION: Final = re.compile(
    r"""(?:^|[\s("“„])(?:\w|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|No|Nr|Abs|bzw|ca|usw|vgl|Sra|Sres?|Mme|Mlle|e\.g|i\.e"""
    r"""|[A-Z]\.[A-Z]|z\.\s?B|d\.\s?h|u\.\s?a|\d{1,2})\.\s+$"""
)
MARK, WORD = re.compile(r"[^\w\s,'’-]"), re.compile(r"\w")
ASCII_MARK: Final = re.compile(f"[{re.escape(''.join(MARK.findall(''.join(map(chr, range(128))))))}]")  # much faster


def has_inner_mark(line: str) -> bool:
    """Whether end punctuation is followed by a word, in linear time; otherwise, the line is one sentence."""
    mark = (ASCII_MARK if line.isascii() else MARK).search(line)
    return mark is not None and WORD.search(line, mark.end()) is not None


def sentence_spans(line: str, language: str) -> list[Span]:
    """Start and end of each sentence of a line, without surrounding spaces."""
    if not has_inner_mark(line):
        return [(0, len(line))] if line else []
    spans, start = [], 0
    for end in (*_splitter()(line, language), len(line)):
        text = line[start:end]
        if content := text.strip():
            first = start + len(text) - len(text.lstrip())
            spans.append((first, first + len(content)))
        start = end
    return spans


def sentencex_boundaries(line: str, language: str) -> list[int]:
    """Ends of sentences by sentencex's rules for the language."""
    from sentencex import segment

    ends, cursor = [], 0
    for sentence in segment(language, line):
        cursor = line.index(sentence, cursor) + len(sentence)
        ends.append(cursor)
    return ends


def simple_boundaries(line: str, language: str) -> list[int]:
    """Ends of sentences: after a period, question or exclamation mark, but not after an abbreviation.

    A period after a number or an initial does not count: German writes "am 3. Mai".
    """
    ends = (found.end() for found in BOUNDARY.finditer(line))
    return [end for end in ends if not ABBREVIATION.search(line, max(0, end - 12), end)]


@cache
def _splitter() -> Callable[[str, str], list[int]]:
    """The splitter of sentencex, or the rules above, with a warning."""
    try:
        import sentencex  # noqa: F401
    except ImportError:
        warnings.warn(
            "sentencex is not installed: text is split into sentences by simple rules; pip install sentencex",
            DragomanWarning,
            stacklevel=2,
        )
        return simple_boundaries
    return sentencex_boundaries
