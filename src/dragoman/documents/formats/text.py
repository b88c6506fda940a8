"""Plain text: each line is a segment."""

from __future__ import annotations

from dragoman.documents.encoding import decode
from dragoman.documents.segment import Segment
from dragoman.documents.spliced import Slot, SplicedText


def read(data: bytes, name: str) -> SplicedText:
    """Read a text file; indentation and white space at the end of lines are not part of segments."""
    text, encoding = decode(data, name)
    slots, place = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if content := line.strip():
            start = place + line.index(content)
            slots.append(Slot(start, start + len(content), Segment(content, key=f"line {number}")))
        place += len(line) + 1
    return SplicedText(text, slots, encoding)
