"""Constituency trees: read from Penn Treebank brackets, cleaned as usual, and written as one line of brackets.

A tree is stored flat: its words, and the span of words of each phrase. (Dependency trees: `dependency.py`.)

    ( (S (NP-SBJ (NNP John) ) (VP (VBZ has) (NP (DT a) (NN dog) )) (. .) ))

Cleaning, as usual for training and scoring parsers: traces (`-NONE-`) are removed, and phrases that consist of traces;
labels are cut at `-` or `=` (NP-SBJ, NP=2), unless they begin with it; a top bracket that is empty, TOP, ROOT or S1 is
removed if one phrase below it has all the words, and renamed TOP otherwise. Words are unescaped: -LRB- is `(`, `\\/` is
`/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from dragoman.errors import TreeError

TOP: Final = "TOP"
ROOT_LABELS: Final = frozenset({"", TOP, "ROOT", "S1"})
TRACE: Final = "-NONE-"
UNKNOWN_TAG: Final = "XX"  # the tag of a word without one
SPACE: Final = " \t\r\f\v"  # separators; a no-break space may be inside a word
PART: Final = re.compile(rf"[()]|[^()\n{SPACE}]+")
ESCAPES: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ESCAPED: Final = re.compile("|".join(ESCAPES) + r"|\\([/*])")
CHARACTERS: Final = str.maketrans({character: escape for escape, character in ESCAPES.items()})


@dataclass(frozen=True)
class Phrase:
    """A label over the words from number `first`, counted from 0, to before number `end`."""

    label: str
    first: int
    end: int


@dataclass(frozen=True)
class Bracketing:
    """The words of a sentence, their tags, and its phrases: outer before inner, left before right.

    The first phrase covers all words. `where` names the tree in messages.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    phrases: tuple[Phrase, ...]
    where: str = field(default="the tree", compare=False)

    def __post_init__(self) -> None:
        """Reject words without tags."""
        if not self.words or len(self.words) != len(self.tags):
            raise TreeError(f"{self.where} needs words and a tag for each; got {self.words!r} and {self.tags!r}")

    def walk(
        self, opening: Callable[[str], str], word: Callable[[int], str], closing: Callable[[str], str]
    ) -> Iterator[str]:
        """The parts of the tree in order: `opening` and `closing` of labels, and `word` of word indices."""
        around: list[Phrase] = []
        coming = iter(self.phrases)
        phrase = next(coming, None)
        for number in range(len(self.words)):
            while phrase is not None and phrase.first == number:
                yield opening(phrase.label)
                around.append(phrase)
                phrase = next(coming, None)
            yield word(number)
            while around and around[-1].end == number + 1:
                yield closing(around.pop().label)

    def text(self) -> str:
        """The tree in Penn Treebank brackets, on one line."""
        words, tags = ([text.translate(CHARACTERS) for text in texts] for texts in (self.words, self.tags))
        parts = self.walk("({}".format, lambda number: f"({tags[number]} {words[number]})", lambda _: ")")
        return " ".join(parts).replace(" )", ")")


def read_brackets(lines: Iterable[str], name: str) -> Iterator[Bracketing]:
    """Read the trees of a file in Penn Treebank brackets, cleaned; trees without a word are left out.

    A tree may span several lines, and a line may have several trees. Messages give `name` and the line number.
    """
    tree: TreeBuilder | None = None
    for number, line in enumerate(lines, 1):
        for part in PART.findall(line):
            if tree is None:
                if part != "(":
                    raise TreeError(
                        f"{name}, line {number}: {part!r} is outside of any tree; write trees in brackets, such as "
                        "(S (NP (PRP it)) (VP (VBZ works)))"
                    )
                tree = TreeBuilder(f"{name}, line {number}")
            tree.add(part, f"{name}, line {number}")
            if not tree.open:
                yield from tree.build()
                tree = None
    if tree is not None:
        raise TreeError(
            f"{tree.where}: the tree that begins here is not closed; {len(tree.open)} closing brackets are missing"
        )


@dataclass
class OpenBracket:
    """A bracket that is not closed yet."""

    label: str | None  # not read yet
    first: int  # number of words before it
    index: int  # number of phrases before it
    parts: int = 0  # brackets inside it
    word: str | None = None


@dataclass
class TreeBuilder:
    """Build a tree from its brackets, labels and words."""

    where: str
    open: list[OpenBracket] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    phrases: list[Phrase | None] = field(default_factory=list)  # None until closed, and for removed phrases

    def add(self, part: str, where: str) -> None:
        """Add a bracket, a label or a word."""
        if part == "(":
            if self.open:
                above = self.open[-1]
                if above.label is None:
                    if len(self.open) > 1:
                        raise TreeError(f"{where}: a bracket without a label; only the outermost may have none")
                    above.label = ""
                if above.word is not None:
                    raise TreeError(self._extra_content(where, above))
                above.parts += 1
            self.open.append(OpenBracket(None, len(self.words), len(self.phrases)))
            self.phrases.append(None)
        elif part == ")":
            self._close(self.open.pop(), where)
        elif self.open[-1].label is None:
            self.open[-1].label = part
        else:
            here = self.open[-1]
            if here.word is not None or here.parts:
                raise TreeError(self._extra_content(where, here, part))
            here.word = part

    @staticmethod
    def _extra_content(where: str, here: OpenBracket, part: str = "") -> str:
        return (
            f"{where}: {part or here.word!r} is not alone in {here.label}; write a word and its tag in separate "
            "brackets, such as (DT the)"
        )

    def _close(self, here: OpenBracket, where: str) -> None:
        if here.word is not None:
            if here.label != TRACE:
                self.words.append(ESCAPED.sub(lambda found: found[1] or ESCAPES[found[0]], here.word))
                self.tags.append(here.label or UNKNOWN_TAG)
        elif not here.parts:
            raise TreeError(
                f"{where}: the bracket ({here.label or ''}) is empty; write a word with its tag, such as (NN dog)"
            )
        elif len(self.words) > here.first:
            self.phrases[here.index] = Phrase(strip_function(here.label or ""), here.first, len(self.words))

    def build(self) -> Iterator[Bracketing]:
        """The finished tree, or None if it has no words."""
        if not self.words:
            return
        phrases = [phrase for phrase in self.phrases if phrase is not None]
        if not phrases or phrases[0].label in ROOT_LABELS:
            covers_all = len(phrases) > 1 and phrases[1].end - phrases[1].first == len(self.words)
            phrases[:1] = [] if covers_all else [Phrase(TOP, 0, len(self.words))]
        yield Bracketing(tuple(self.words), tuple(self.tags), tuple(phrases), self.where)


def strip_function(label: str) -> str:
    """A label without its function: NP for NP-SBJ-1 and NP=2; labels that begin with a hyphen are unchanged."""
    return re.split("[-=]", label, maxsplit=1)[0] or label
