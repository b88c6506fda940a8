"""Split text into segments that the model translates well, and keep their layout.

Lines keep their breaks, indentation and bullets. A line is split into sentences, and neighboring sentences are joined
again if the training data had such lines. Segments that are still too long are split into parts, after a clause if
possible.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple

from dragoman.text import Tokenizer
from dragoman.text.line_lengths import LineLengths
from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.sentences import Span, has_inner_mark, sentence_spans
from dragoman.translation.options import SplitMode

Ids = tuple[int, ...]
LONG_LINE: Final = 8_000  # characters; a server cuts longer lines before it finds sentences, so that each call is short
GAP: Final = "   "  # this many spaces, or a tab, separate columns, never words
BEFORE_LINE: Final = re.compile(r"\s*([-*•‣◦▪–]\s+)?(?=\S)")  # indentation, and the bullet of a list
CLAUSE_ENDS: Final = tuple(",;:.!?…—–)]»”、，；：。！？）」』،؛؟।")


class LineLayout(NamedTuple):
    """A line: what surrounds it, such as empty lines, indentation and a bullet, and its number of segments."""

    before: str
    n_segments: int
    after: str


ONE_SEGMENT: Final = (LineLayout("", 1, ""),)  # the layout of nearly every text


class Layout(NamedTuple):
    """The layout of the segments of a text."""

    lines: tuple[LineLayout, ...] = ONE_SEGMENT

    @property
    def n_segments(self) -> int:
        """The number of segments in all lines."""
        return sum([line.n_segments for line in self.lines])


WHOLE: Final = Layout()


@dataclass(frozen=True)
class Segmenter:
    """Split text for a model.

    `max_tokens` is the longest segment that the model accepts. `lengths` describes the lines that each model of an
    ensemble was trained on; if unknown, the model gets one sentence at a time.
    """

    tokenizer: Tokenizer
    language: str
    max_tokens: int
    lengths: tuple[LineLengths | None, ...] = (None,)

    def split_texts(
        self, texts: Sequence[str], split: SplitMode = "auto", max_characters: int | None = None
    ) -> tuple[list[Layout], list[str]]:
        """The layout of each text, and the segments of all texts in order; none is longer than `max_characters`."""
        lines = [text_lines(text, split) for text in texts]
        contents: list[str] = []
        for text, of_text in zip(texts, lines, strict=True):
            contents += [text] if of_text is None else [content for _, content, _ in of_text if content]
        found = self.split_lines(contents, split, max_characters)
        each, layouts = iter(found), list[Layout]()
        for of_text in lines:
            if of_text is None:
                n = len(next(each))
                layouts.append(WHOLE if n == 1 else Layout((LineLayout("", n, ""),)))
                continue
            counts = [len(next(each)) if content else 0 for _, content, _ in of_text]
            layouts.append(Layout(tuple(LineLayout(b, n, a) for (b, _, a), n in zip(of_text, counts, strict=True))))
        return layouts, [*chain.from_iterable(found)]

    def split_line(self, line: str, split: SplitMode = "auto") -> list[str]:
        """The segments of a line: itself, its sentences, or groups of neighboring sentences."""
        return self.split_lines([line], split)[0]

    def split_lines(
        self, lines: Sequence[str], split: SplitMode = "auto", max_characters: int | None = None
    ) -> list[list[str]]:
        """The segments of each line; the sentences of all lines are encoded together, which is faster."""
        if max_characters is not None:
            pieces = [[*split_characters(line, max(max_characters, LONG_LINE))] for line in lines]
            found = iter(self.split_lines([*chain.from_iterable(pieces)], split))
            whole = ([*chain.from_iterable(islice(found, len(of_line)))] for of_line in pieces)
            return [[part for one in segments for part in split_characters(one, max_characters)] for segments in whole]
        if split == "never":
            return [[line] for line in lines]
        marked = [i for i, line in enumerate(lines) if has_inner_mark(line)]  # the others are one sentence each
        spans = {i: own for i in marked if len(own := sentence_spans(lines[i], self.language)) > 1}
        if split == "auto" and None not in self.lengths:
            sentences = [lines[i][start:end] for i, own in spans.items() for start, end in own]
            counts = map(len, self.tokenizer.encode_many(sentences))
            spans = {i: self._join(own, [*islice(counts, len(own))]) for i, own in spans.items()}
        segments = [[line] for line in lines]
        for i, own in spans.items():
            segments[i] = [lines[i][start:end] for start, end in own]
        return segments

    def _join(self, spans: Sequence[Span], counts: Sequence[int]) -> list[Span]:
        """Sentences of `counts` tokens, joined as long as training lines had as many sentences and tokens."""
        joined: list[Span] = []
        n_sentences = n_tokens = 0
        for (start, end), count in zip(spans, counts, strict=True):
            if joined and self.supports(n_sentences + 1, n_tokens + count):
                joined[-1], n_sentences, n_tokens = (joined[-1][0], end), n_sentences + 1, n_tokens + count
            else:
                joined.append((start, end))
                n_sentences, n_tokens = 1, count
        return joined

    def supports(self, n_sentences: int, n_tokens: int) -> bool:
        """Whether every model was trained on enough lines of this many sentences and tokens."""
        fits = n_tokens <= self.max_tokens
        return fits and all(known is not None and known.supports(n_sentences, n_tokens) for known in self.lengths)

    def encode(
        self, layouts: Sequence[Layout], segments: Sequence[str], split: SplitMode
    ) -> tuple[list[Layout], list[list[Ids]]]:
        """The ids of the segments of each text, and the layouts; segments over `max_tokens` are split into parts.

        A segment without tokens, such as a byte-order mark, is left out.
        """
        found, encoded = iter(self.tokenizer.encode_many(segments)), list[list[Ids]]()
        new_layouts = list(layouts)
        max_tokens = sys.maxsize if split == "never" else self.max_tokens
        for number, layout in enumerate(layouts):
            parts: list[Ids] = []
            lines: list[LineLayout] = []
            if layout is WHOLE:  # nearly every text
                ids = next(found)
                if 0 < len(ids) <= max_tokens:
                    encoded.append([tuple(ids)])
                    continue
                found = chain([ids], found)
            for line in layout.lines:
                before = len(parts)
                for ids in islice(found, line.n_segments):
                    if len(ids) > max_tokens:
                        parts += map(tuple, split_tokens(ids, self.tokenizer, max_tokens))
                    elif ids:
                        parts.append(tuple(ids))
                if len(parts) - before != line.n_segments:
                    line = line._replace(n_segments=len(parts) - before)
                lines.append(line)
            encoded.append(parts)
            if len(parts) != layout.n_segments:
                new_layouts[number] = Layout(tuple(lines))
        return new_layouts, encoded


def text_lines(text: str, split: SplitMode) -> list[tuple[str, str, str]] | None:
    """What is before each line of a text, its content, and what is after it; blank lines are before the next one.

    None if the text is one line without anything around it, as nearly every text is. Without splitting, bullets are
    content.
    """
    if text[:1].isalnum() and text.rstrip() is text and len(text.splitlines()) == 1:
        return None
    lines: list[tuple[str, str, str]] = []
    blank: list[str] = []  # joined once: a text may have a million empty lines
    for raw in text.splitlines(keepends=True):
        found = BEFORE_LINE.match(raw) if split != "never" else None
        before = found[0] if found else raw[: len(raw) - len(raw.lstrip())]
        content = raw[len(before) :].rstrip()
        if not content:
            blank.append(raw)
            continue
        lines.append(("".join(blank) + before, content, raw[len(before) + len(content) :]))
        blank.clear()
    if blank:
        lines.append(("".join(blank), "", ""))
    return lines


def split_tokens(ids: list[int], tokenizer: Tokenizer, max_tokens: int) -> list[list[int]]:
    """Parts of at most `max_tokens`: split after a clause if possible, else before a word, else anywhere.

    The split is in the second half of what fits, which at most doubles the number of parts.
    """
    names = tokenizer.tokens(ids)
    parts, start = [], 0
    while len(ids) - start > max_tokens:
        ends = range(start + max_tokens, start + max_tokens // 2, -1)
        after_clause = (end for end in ends if names[end - 1].endswith(CLAUSE_ENDS) and begins_word(names, end))
        before_word = (end for end in ends if begins_word(names, end))
        between_bytes = (end for end in ends if not (names[end].startswith("<0x") and names[end - 1].startswith("<0x")))
        end = next(after_clause, None) or next(before_word, None) or next(between_bytes, start + max_tokens)
        parts.append(ids[start:end])
        start = end
    return [*parts, ids[start:]]


def split_characters(sentence: str, limit: int) -> Iterator[str]:
    """Parts of at most `limit` characters, split at white space if possible."""
    while len(sentence) > limit:
        spaces = [found.start() for found in re.finditer(r"\s", sentence[limit // 2 : limit])]
        end = limit // 2 + spaces[-1] if spaces else limit
        if part := sentence[:end].strip():
            yield part
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence


def begins_word(names: Sequence[str], index: int) -> bool:
    """Whether this token begins a word; in scripts without spaces, every token may."""
    return names[index].startswith(MARK) or SPACELESS.match(names[index]) is not None


def join_segments(texts: Sequence[str]) -> str:
    """Join segments with spaces, except between characters of scripts that write none."""
    joined = ""
    for text in texts:
        touching = joined and text and SPACELESS.match(joined[-1]) is not None and SPACELESS.match(text) is not None
        joined += text if touching or not joined or not text else " " + text
    return joined
