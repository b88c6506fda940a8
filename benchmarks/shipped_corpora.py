"""The lines of the corpora from which the shipped models are made."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.data.corpora.reader import read_line_blocks

NEWS = ("news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file."""
    for block in read_line_blocks(path):
        yield from block


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, in one step."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    temporary.rename(path)


def is_chosen(line: str, share: float) -> bool:
    """Whether a line is one of this share of all lines; always the same ones."""
    return zlib.crc32(line.encode()) < share * 2**32


def fold(line: str) -> str:
    """A line without case, punctuation and spaces, to recognize sentences that differ in nothing else."""
    return "".join(character for character in line.casefold() if character.isalnum())
