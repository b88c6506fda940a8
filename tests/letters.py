"""A vocabulary of a few letters, for searches over all the texts that it can write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from random import Random

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.tables import ConstraintCompiler, ConstraintTables
from dragoman.search.constraints.token_bytes import Spelling


class Letters:
    """As much of a tokenizer as `Spelling` needs: the longest token that fits, and bytes where none does."""

    marks_words = True

    def __init__(self, *learned: str) -> None:
        self.names = ["<pad>", "<s>", "</s>", "<unk>", *learned]
        self.written = [b"", b"", b"", b"#"]  # not U+FFFD, to be told from half a character
        for name in learned:
            byte = bytes([int(name[3:5], 16)]) if name.startswith("<0x") else name.replace("▁", " ").encode()
            self.written.append(byte)
        self.widths = [len(written) for written in self.written]
        self.vocabulary_size = len(self.names)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.names[i] for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.written[i] for i in ids).decode("utf-8", "replace")

    def encode(self, text: str) -> list[int]:
        return self.encode_marked(text if text[0] >= "一" else " " + text)

    def encode_marked(self, marked: str) -> list[int]:
        rest, found = marked.encode(), []
        while rest:
            fitting = [i for i in range(4, self.vocabulary_size) if rest.startswith(self.written[i])]
            assert fitting, f"{rest!r} cannot be written"
            found.append(max(fitting, key=self.widths.__getitem__))
            rest = rest[self.widths[found[-1]] :]
        return found

    @cached_property
    def compiler(self) -> ConstraintCompiler:
        return ConstraintCompiler(Spelling(self))  # type: ignore[arg-type]

    def plan(self, require: object = (), avoid: object = ()) -> ConstraintTables:
        return self.compiler.compile(Constraints.of(require, avoid))


ALPHABET = "abcde"
MIN_LETTERS = 15  # tokens of a vocabulary that can write every phrase of `random_constraints`


def random_letters(size: int, draw: Random) -> Letters:
    """A vocabulary of this size: letters, bytes, Chinese characters and a bracket, and random words of them."""
    base = ["▁", *ALPHABET, "你", "好", "(", "<0xC3>", "<0xA9>"][: size - 4]
    names = dict.fromkeys(base)
    while len(names) < size - 4:
        word = "".join(draw.choices(ALPHABET, k=draw.randint(1, 4)))
        names.setdefault(draw.choice(("▁", "▁", "", "(")) + word + draw.choice(("", "", "", "▁", "(", "你")))
    return Letters(*names)


def random_constraints(draw: Random) -> Constraints:
    """A few required and avoided phrases that `random_letters` can write."""

    def phrase() -> str:
        if draw.random() < 0.2:
            return draw.choice(("你好", "好", "é", "aé", "a你", "(a", "b (c"))
        words = ("".join(draw.choices(ALPHABET, k=draw.randint(1, 3))) for _ in range(draw.choice((1, 1, 2))))
        return " ".join(words)

    while True:
        require = [[phrase() for _ in range(draw.choice((1, 1, 2)))] for _ in range(draw.choice((0, 1, 1, 2, 3)))]
        with suppress(SearchError):
            return Constraints.of(require, [phrase() for _ in range(draw.choice((0, 0, 1, 3)))])


def random_tables(letters: Letters, count: int, draw: Random) -> list[ConstraintTables | None]:
    """Constraints of each sentence; some have none."""
    found: list[ConstraintTables | None] = []
    while len(found) < count:
        if draw.random() < 0.2:
            found.append(None)
            continue
        with suppress(SearchError):  # phrases of one token that contain each other may conflict
            found.append(letters.compiler.compile(random_constraints(draw)))
    return found
