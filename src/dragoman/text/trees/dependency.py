"""Dependency trees: read from CoNLL-U, and the depth of each token of a sentence in its tree.

A token belongs to the word in which it begins, and a space to the word after it. A tree is converted to one depth per
UTF-8 byte of the text, which works for the tokens of any tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from numbers import Integral
from typing import Any, Final

from dragoman.errors import TextError, TreeError
from dragoman.text.normalization import normalize
from dragoman.values import plural, render_value

MAX_DEPTH: Final = 255  # deeper words count as this, so a depth is one byte
COLUMNS: Final = 10
NO_MORE_TREES: Final = object()  # after the last tree
NUMBER: Final = re.compile(r"(\d+)(?:-(\d+))?|\d+\.\d+")  # a word, a token of several words, or an empty node
MAX_DIGITS: Final = 9  # digits of a word number


@dataclass(frozen=True)
class Tree:
    """The words of a sentence as written, and the depth of each; the root's is 0.

    `where` names the tree in messages.
    """

    words: tuple[str, ...]
    depths: tuple[int, ...]
    where: str = "the tree"

    @classmethod
    def of(cls, words: Iterable[str], heads: Iterable[int], where: str = "the tree") -> Tree:
        """Create a tree from words and the number of each word's head, counted from 1; 0 for the root."""
        all_words, all_heads = as_tuple(words), as_tuple(heads)
        if all_words is None or all_heads is None or len(all_words) != len(all_heads):
            raise TreeError(f"{where} needs a list of words and a head for each; got {words!r} and {heads!r}")
        return cls(all_words, tuple(tree_depths(all_heads, [where] * len(all_heads))), where)

    def __post_init__(self) -> None:
        """Reject words and depths that do not match; they may be lists."""
        words, deep = as_tuple(self.words), as_tuple(self.depths)
        paired = words is not None and deep is not None and len(words) == len(deep)
        if not (
            paired
            and all(isinstance(word, str) for word in words or ())
            and all(isinstance(depth, Integral) and int(depth) >= 0 for depth in deep or ())
        ):
            raise TreeError(
                f"{self.where} needs words and a depth of 0 or more for each; got {self.words!r} and {self.depths!r}"
            )
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "depths", deep)

    def byte_depths(self, text: str, name: str = "its sentence") -> bytes:
        """The depth of each byte of a normalized text, whose words must be those of the tree.

        White space is not compared. `name` names the text in messages.
        """
        forms = [normalize(word).replace(" ", "") for word in self.words]
        if "".join(forms) != text.replace(" ", ""):
            raise TextError(self._mismatch(forms, text, name), code="tree_mismatch")
        deep = zip(forms, self.depths, strict=True)
        bare = b"".join(bytes([min(depth, MAX_DEPTH)]) * len(form.encode()) for form, depth in deep)
        by_byte, start = bytearray(), 0
        for run in text.split(" "):
            stop = start + len(run.encode())
            by_byte += bare[start : start + 1] + bare[start:stop]  # the space before it, then itself
            start = stop
        return bytes(by_byte[1:])

    def _mismatch(self, forms: Sequence[str], text: str, name: str) -> str:
        """The message for the first difference between tree and text."""
        has, rest = "its end", text
        for number, form in enumerate(forms):
            rest = rest.lstrip(" ")
            seen = "".join(islice((c for c in rest if c != " "), len(form)))
            if seen != form:
                has = f"word {number + 1}, {self.words[number]!r},"
                break
            for character in form:
                rest = rest.lstrip(" ").removeprefix(character)
        there = repr(rest.lstrip(" ")[:30]) if rest.strip(" ") else "no more text"
        return (
            f"{self.where}: this tree does not match {name}: it has {has} where the text has {there}; give one "
            "tree for each line with text, in the same order"
        )


def as_tuple(values: object) -> tuple[Any, ...] | None:
    """Values as a tuple; None if they are a str or not iterable."""
    return None if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)


def tree_depths(heads: Sequence[int], where: Sequence[str]) -> list[int]:
    """The depth of each word from head numbers, counted from 1 (0 for a root); `where` names each word in messages.

    Several roots are allowed, because a line may have two sentences.
    """
    found: list[int | None] = [None] * len(heads)
    for start in range(len(heads)):
        path: dict[int, None] = {}  # from the word upward
        word = start
        while found[word] is None and word not in path:
            path[word] = None
            head = heads[word]
            if isinstance(head, bool) or not isinstance(head, Integral) or not 0 <= head <= len(heads):
                raise TreeError(
                    f"{where[word]}: word {word + 1} has head {head!r}; heads are words of the sentence, 1 to "
                    f"{len(heads)}, or 0 for the root"
                )
            if head == 0:
                found[word] = 0
                break
            word = int(head) - 1
        above = found[word]
        if above is None:  # the path has returned to itself
            climbed = [*path]
            cycle = " -> ".join(str(i + 1) for i in [*climbed[climbed.index(word) :], word])
            prefix = "no word has head 0, and " if 0 not in heads else ""
            raise TreeError(f"{where[word]}: {prefix}heads form a cycle, {cycle}")
        for distance, each in enumerate(reversed([one for one in path if found[one] is None]), 1):
            found[each] = above + distance
    return [deep for deep in found if deep is not None]


def read_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Read the trees of CoNLL-U lines, in order; messages give `name` and the line number."""
    sentence = SentenceBuilder(name)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield from sentence.build()
            sentence = SentenceBuilder(name)
        elif not line.startswith("#"):
            sentence.add(line, number)
    yield from sentence.build()


@dataclass
class SentenceBuilder:
    """Build a tree from the lines of one sentence."""

    name: str
    heads: list[int] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)  # file and line of each word
    tokens: list[tuple[str, int, int]] = field(default_factory=list)  # surface form, and its words first .. last
    open: str = ""  # location of a multiword token whose words have not all been read

    def add(self, line: str, number: int) -> None:
        """Add a word, a multiword token, or an empty node, which is ignored."""
        where, cells = f"{self.name}, line {number}", line.split("\t")
        if len(cells) != COLUMNS:
            raise TreeError(
                f"{where}: {plural(len(cells), 'column')}, but CoNLL-U has {COLUMNS}, separated by tabs, with one "
                "word per line and an empty line after each sentence"
            )
        form, head = cells[1], cells[6]
        kind = NUMBER.fullmatch(cells[0])
        if kind is None or len(cells[0]) > 2 * MAX_DIGITS:
            raise TreeError(f"{where}: {render_value(cells[0], 40)} is not a word number; expected e.g. 3, 3-4 or 3.1")
        if kind[1] is None:
            return
        first, last = int(kind[1]), int(kind[2] or kind[1])
        if first != len(self.heads) + 1 or last < first or (kind[2] and first <= self._covered()):
            raise TreeError(f"{where}: {cells[0]} where word {len(self.heads) + 1} was expected; words count from 1")
        if kind[2]:
            self.tokens.append((form, first, last))
            self.open = where
            return
        if not head.isdecimal() or len(head) > MAX_DIGITS:
            raise TreeError(
                f"{where}: word {first} has head {render_value(head, 40)}; expected a number, 0 for the root"
            )
        if first > self._covered():
            self.tokens.append((form, first, first))
        self.heads.append(int(head))
        self.locations.append(where)

    def _covered(self) -> int:
        """The last word covered by the tokens so far."""
        return self.tokens[-1][2] if self.tokens else 0

    def build(self) -> Iterator[Tree]:
        """The finished tree, or None without words; a multiword token has the smallest depth of its words."""
        if self._covered() > len(self.heads):
            token = self.tokens[-1]
            raise TreeError(f"{self.open}: the token {token[1]}-{token[2]} ends after the last word of the sentence")
        if self.heads:
            deep = tree_depths(self.heads, self.locations)
            words = tuple(form for form, _, _ in self.tokens)
            yield Tree(words, tuple(min(deep[first - 1 : last]) for _, first, last in self.tokens), self.locations[0])


def depths_of_tokens(ids: Sequence[int], widths: Sequence[int], of_bytes: bytes) -> tuple[int, ...]:
    """The depth of each token of a text: that of its first byte.

    `widths` are the numbers of bytes that each id writes. The first word's space may be missing from the text.
    """
    position = len(of_bytes) - sum(widths[number] for number in ids)
    if position not in (-1, 0):
        raise TextError(
            f"{len(ids)} tokens write {len(of_bytes) - position} bytes, but their tree's text has {len(of_bytes)}; "
            "give the tree of the same text",
            code="tree_mismatch",
        )
    found = []
    for number in ids:
        found.append(of_bytes[max(position, 0)])
        position += widths[number]
    return tuple(found)


class TreeAligner:
    """Match trees with texts, in order; an empty text has no tree."""

    def __init__(self, trees: Iterable[Tree]) -> None:
        self.trees = iter(trees)
        self.texts = self.taken = 0
        self.last = ""  # location of the previous tree

    def byte_depths(self, text: str) -> bytes:
        """The depth of each byte of the next normalized text, from the next tree."""
        self.texts += 1
        if not text:
            return b""
        tree = next(self.trees, NO_MORE_TREES)
        if tree is NO_MORE_TREES:
            raise TextError(
                f"got only {plural(self.taken, 'tree')}, and none for line {self.texts:,}, {text[:60]!r}; give one "
                f"for each line with text{f' (the last tree is at {self.last})' if self.last else ''}",
                code="count_mismatch",
            )
        if not isinstance(tree, Tree):
            raise TextError(
                "give trees as `read_trees_file` of dragoman.data.corpora.reader returns them, none for an empty text; "
                f"got {tree!r}",
                code="wrong_type",
            )
        self.taken, self.last = self.taken + 1, tree.where
        return tree.byte_depths(text, f"line {self.texts:,}")

    def check_finished(self) -> None:
        """Reject trees that are left over when all texts have one."""
        more = next(self.trees, NO_MORE_TREES)
        if more is not NO_MORE_TREES:
            where = more.where if isinstance(more, Tree) else repr(more)
            raise TextError(
                f"{where}: an extra tree: every line with text already has one; remove it",
                code="count_mismatch",
            )
