"""JSON lines: each line is a JSON value, whose strings are translated as in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dragoman.documents.chunks import LineBlock, read_line_chunks
from dragoman.documents.formats.strings.json import value_slots
from dragoman.documents.spliced import Slot, SplicedText


def read(data: bytes, name: str) -> SplicedText:
    """Read a file of JSON lines; empty lines are left."""
    return read_block(LineBlock(data), name)


def read_chunks(path: Path) -> Iterator[SplicedText] | None:
    """Read a large file in blocks of lines."""
    return read_line_chunks(path, read_block)


def read_block(block: LineBlock, name: str) -> SplicedText:
    """Read a block of lines."""
    text, encoding = block.decode(name)
    slots, start = list[Slot](), 0
    for number, line in enumerate(text.split("\n"), block.first_line):
        end = start + len(line)
        if line.strip():
            slots += value_slots(text, f"{name}, line {number},", start, end, f"line {number}: ")
        start = end + 1
    return SplicedText(text, slots, encoding)
