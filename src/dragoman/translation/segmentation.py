"""Split text into segments that fit the model, and join their translations.

Lines keep their breaks and indentation. A line that does not fit is split into sentences, and a sentence that does not
fit into parts, after a clause where possible. `fits` alone decides what is split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.text import Tokenizer
from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.trees.token_depths import attach_depths
from dragoman.translation.options import SplitMode

Ids = tuple[int, ...]
SplitLine = Callable[[str], list[str]]
CLAUSE_ENDS: Final = tuple(",;:.!?…—–)]»”、，；：。！？）」』،؛؟।")
MAX_SENTENCE_CHARACTERS: Final = 2_000  # of a queued sentence; the translator splits it further where it must


def fits(n_tokens: int, max_tokens: int, split: SplitMode = "long") -> bool:
    """Whether a text is translated as a whole instead of sentence by sentence."""
    return split == "never" or (split == "long" and n_tokens <= max_tokens)


def encode_segments(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    max_tokens: int,
    language: str,
    split: SplitMode = "long",
    depths: Sequence[bytes] | None = None,
) -> list[list[Ids]]:
    """The token ids of each segment of each text; white space alone has no segment.

    `depths` are the tree depths of each text's bytes, for models that read trees.
    """
    segments: list[list[Ids]] = []
    for number, (text, ids) in enumerate(zip(texts, tokenizer.encode_many(texts), strict=True)):
        whole = fits(len(ids), max_tokens, split)
        if depths is not None:
            sizes = [len(ids)] if whole else map(len, split_tokens(ids, tokenizer, max_tokens))
            segments.append([*attach_depths(ids, tokenizer, depths[number]).parts(sizes if ids else ())])
        elif whole:
            segments.append([tuple(ids)] if ids else [])
        else:
            sentences = tokenizer.encode_many(split_sentences(text, language))
            segments.append([tuple(part) for ids in sentences for part in split_tokens(ids, tokenizer, max_tokens)])
    return segments


def split_line(line: str, tokenizer: Tokenizer, max_tokens: int, language: str) -> list[str]:
    """The line itself if it fits, else its sentences, each of bounded size."""
    short = len(line) < max_tokens and len(line.encode("utf-8", "replace")) < max_tokens  # a token is at least a byte
    if short or fits(len(tokenizer.encode(line)), max_tokens):
        return [line]
    return [part for sentence in split_sentences(line, language) for part in split_characters(sentence)] or [line]


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text, by the rules of its language."""
    from sentencex import segment

    return [sentence for found in segment(language, text) if (sentence := found.strip())]


def split_tokens(ids: list[int], tokenizer: Tokenizer, max_tokens: int) -> list[list[int]]:
    """Parts of at most `max_tokens`: split after a clause if possible, else before a word, else anywhere.

    A split is searched in the second half of what fits, which at most doubles the number of parts.
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


def split_characters(sentence: str) -> Iterator[str]:
    """Parts of at most `MAX_SENTENCE_CHARACTERS`, split at white space if possible."""
    limit = MAX_SENTENCE_CHARACTERS
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


@dataclass(frozen=True, slots=True)
class LineLayout:
    """A line: the white space around it, including empty lines before it, and its number of sentences."""

    before: str
    n_sentences: int
    after: str


@dataclass(frozen=True)
class TextLayout:
    """Where the sentences of a text stand."""

    lines: tuple[LineLayout, ...]

    @property
    def n_sentences(self) -> int:
        """The number of sentences in all lines."""
        return sum(line.n_sentences for line in self.lines)


def split_texts(texts: Sequence[str], split: SplitLine) -> tuple[list[TextLayout], list[str]]:
    """The layout of each text, and the sentences of all texts in order."""
    sentences: list[str] = []
    layouts = []
    for text in texts:
        lines = []
        blank: list[str] = []  # joined once: a text may have a million empty lines
        for raw in text.splitlines(keepends=True):
            content = raw.strip()
            if not content:
                blank.append(raw)
                continue
            found = split(content)
            sentences += found
            before = raw[: len(raw) - len(raw.lstrip())]
            lines.append(LineLayout("".join(blank) + before, len(found), raw[len(before) + len(content) :]))
            blank.clear()
        if blank:
            lines.append(LineLayout("".join(blank), 0, ""))
        layouts.append(TextLayout(tuple(lines)))
    return layouts, sentences
