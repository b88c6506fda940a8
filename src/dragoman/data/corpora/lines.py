"""Read the lines of text files, optionally compressed as .gz, .xz or .zst.

A line ends only at `\\n`, so U+2028 and the like stay inside their sentence; a `\\r` before it is dropped. Unreadable
lines are never skipped, because a corpus that is off by one line ruins the model: a DataError names the file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.data.corpora.compression import OpenFile, open_binary, read_blocks
from dragoman.errors import DataError

MAX_LINE_BYTES = 1 << 26
CONTROLS = re.compile(rb"[\0-\x08\x0e-\x19]")  # rare in text, except in UTF-16


def read_line_blocks(
    path: Path, open_file: OpenFile = open_binary, holds: str = "a sentence per line"
) -> Iterator[list[str]]:
    """The lines of a file, decompressed and decoded, a block of them at a time."""
    number = 0
    for found in split_lines(path, read_blocks(path, open_file)):
        number += len(found)
        yield found
    if not number:
        raise DataError(f"{path} is empty; expected {holds}", code="file_empty")


def split_lines(path: Path, blocks: Iterable[bytes]) -> Iterator[list[str]]:
    """The lines in blocks of bytes, yielded as each block arrives; `path` is for messages.

    All lines before an unreadable one are yielded before the error. An empty block is passed on as an empty list.
    """
    number, rest = 0, b""
    for block in blocks:
        if not block:
            yield []
            continue
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}, line {number + 1}: more than {MAX_LINE_BYTES >> 20} MiB without a line break; expected "
                    "text with a sentence per line",
                    code="line_too_long",
                )
            continue
        found, wrong = decode(path, rest + block[: cut - 1], number)
        number += len(found)
        rest = block[cut:]
        if found:
            yield found
        if wrong is not None:
            raise wrong
    if rest:
        found, wrong = decode(path, rest, number)
        if wrong is not None:
            raise wrong
        yield found


def decode(path: Path, block: bytes, before: int) -> tuple[list[str], DataError | None]:
    """Decode UTF-8 lines up to the first that cannot be decoded; return them with its error.

    `before` is the number of earlier lines of the file.
    """
    wrong = None
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        start = block.rfind(b"\n", 0, error.start) + 1
        line = before + block.count(b"\n", 0, start) + 1
        bad = " ".join(f"{byte:02x}" for byte in block[error.start : error.start + 4])
        place = f"{path}, line {line}, byte {error.start - start + 1}: not UTF-8 ({bad}: {error.reason})"
        end = block.find(b"\n", error.start)
        if b"\0" in block or CONTROLS.search(block, start, len(block) if end < 0 else end):
            advice = "it may be a binary file, or UTF-16: it has control characters; give a text file in UTF-8"
        else:
            advice = "convert the file, for example with: iconv -f LATIN1 -t UTF-8"
        wrong = DataError(f"{place}; {advice}", code="not_utf8")
        text = block[:start].decode("utf-8")
    if "\0" in text:
        start = text.rfind("\n", 0, text.index("\0")) + 1
        line = before + text.count("\n", 0, start) + 1
        wrong = DataError(
            f"{path}, line {line}: NUL byte; expected UTF-8 text, but this may be UTF-16 or a binary file",
            code="invalid_character",
        )
        text = text[:start]
    if not before and text.startswith("\ufeff"):
        text = text[1:]
    found = text.split("\n")
    if wrong is not None:
        found.pop()  # the empty remainder after the last valid line
    return [line.removesuffix("\r") for line in found] if "\r" in text else found, wrong
