"""The lines that a verb is given: those of files, of pipes and of standard input, each as soon as it is there."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from dragoman.data.corpora.compression import COMPRESSIONS, check_file, check_text_format, read_blocks
from dragoman.data.corpora.reader import split_lines
from dragoman.errors import DataError

AT_ONCE = 1 << 20  # bytes taken from a pipe before the first of its lines is worked on, if they are there already
STDIN = Path("standard input")


def named(word: str) -> Path | None:
    """The file of that name; None, which is a standard stream, for `-` (a file of that name is `./-`)."""
    return None if word == "-" else Path(word)


def text_of(option: str, word: str) -> str:
    """A text of the command line, whose bytes are UTF-8 whatever the system takes them for."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{option} is not UTF-8; got {os.fsencode(word)!r}") from None


def check_incoming(files: Sequence[Path | None]) -> None:
    """Refuse what cannot be read, all of it before an hour is spent on the first."""
    if None in files and sys.stdin is None:
        raise DataError("standard input is closed, so that there is nothing to read; give FILES, or open it")
    for path in files:
        if path is not None and not is_pipe(path):
            check_file(path)


def is_pipe(path: Path) -> bool:
    """Whether something can be read once and from the beginning only, as `<(...)` of a shell."""
    return path.is_fifo() or path.is_char_device()


def arriving(files: Sequence[Path | None]) -> Iterator[list[str]]:
    """Lines as soon as they are there: those of a slow writer one by one, those of a file by the megabyte."""
    for path in files:
        if path is None:
            yield from split_lines(STDIN, plain(STDIN, as_they_come(sys.stdin.buffer)))
        elif is_pipe(path):
            with path.open("rb", buffering=0) as pipe:
                yield from split_lines(path, plain(path, as_they_come(pipe)))
        else:
            yield from split_lines(path, read_blocks(path))


def plain(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of a pipe, refused where they are packed: what comes a bit at a time is not unpacked."""
    start = next(blocks, b"")
    check_text_format(path, start)
    for magic, suffix in COMPRESSIONS.items():
        if start.startswith(magic):
            raise DataError(f"{path} is packed as {suffix}; give the name of the file, which is unpacked, or unpack it")
    yield start
    yield from blocks


def as_they_come(source: IO[bytes]) -> Iterator[bytes]:
    """What a pipe or a terminal holds now, waiting only where it holds nothing."""
    handle, ended = source.fileno(), False
    while not ended:
        held = bytearray()
        while not held or (len(held) < AT_ONCE and select.select([handle], [], [], 0)[0]):
            try:
                block = os.read(handle, 1 << 16)
            except BlockingIOError:  # a pipe that its other users have told not to wait
                select.select([handle], [], [])
                continue
            held += block
            if not block:
                ended = True
                break
        yield bytes(held)


def side_by_side(source: Path | None, target: Path | None) -> Iterator[list[tuple[str, str]]]:
    """Line i of one with line i of the other, as soon as both are there; the two must end together."""
    counts = [0, 0]
    both = [arriving([source]), arriving([target])]
    held: list[list[str]] = [[], []]
    while True:
        for side in (0, 1):
            if not held[side]:
                held[side] = next(both[side], [])
                counts[side] += len(held[side])
        ready = min(map(len, held))
        if not ready:
            break
        yield list(zip(held[0][:ready], held[1][:ready], strict=True))
        held = [lines[ready:] for lines in held]
    for side in (0, 1):
        counts[side] += sum(map(len, both[side]))  # to the end, so that the message holds both counts
    if counts[0] != counts[1]:
        raise DataError(
            f"{source or STDIN} has {counts[0]:,} lines but {target or STDIN} has {counts[1]:,}; line i of one must be "
            "the translation of line i of the other, so the counts must be equal"
        )
