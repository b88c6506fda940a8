"""Plain text: each line is a segment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dragoman.documents.chunks import LineBlock, read_line_chunks
from dragoman.documents.segment import Segment
from dragoman.documents.spliced import Slot, SplicedText


def read(data: bytes, name: str) -> SplicedText:
    """Read a text file; indentation and white space at the end of lines are not part of segments."""
    return read_block(LineBlock(data), name)


def read_chunks(path: Path) -> Iterator[SplicedText] | None:
    """Read a large text file in blocks of lines."""
    return read_line_chunks(path, read_block)


def read_block(block: LineBlock, name: str) -> SplicedText:
    """Read a block of lines."""
    text, encoding = block.decode(name)
    slots, place = [], 0
    for number, line in enumerate(text.split("\n"), block.first_line):
        if content := line.strip():
            start = place + line.index(content)
            slots.append(Slot(start, start + len(content), Segment(content, key=f"line {number}")))
        place += len(line) + 1
    return SplicedText(text, slots, encoding)
