"""Where a verb's lines go: standard output, a pipe, or a file that gets its name when it is whole."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from dragoman.cli import tell
from dragoman.cli.input import is_pipe
from dragoman.data.corpora.compression import COMPRESSIONS
from dragoman.errors import DataError


def place_of(output: Path | None, files: Sequence[Path | None] = ()) -> Path | None:
    """What to write to, None for standard output; refused where it cannot be written, or is one of the `files` read.

    A link is followed, so that the file it leads to is written and the link stays. `/dev/stdout`, and whatever else
    standard output is already open on, is standard output.
    """
    if output is not None and sys.stdout is not None:
        out, there = stat_of(sys.stdout), stat_of(output)
        if out is not None and there is not None and os.path.samestat(out, there):
            output = None
    if output is None:
        check_stdout()
        check_apart(sys.stdout, "standard output", files)
        return None
    if output.is_symlink() and not is_pipe(output):
        try:
            output = output.resolve()
        except (OSError, RuntimeError):
            raise DataError(f"{output} is a link that leads back to itself; choose another place to write to") from None
    if output.is_dir():
        raise DataError(f"{output} is a directory; give the name of a file to write to")
    if output.suffix in COMPRESSIONS.values() and not is_pipe(output):
        raise DataError(
            f"{output} is named {output.suffix}, but text is written unpacked; leave {output.suffix} away, or write "
            "to a pipe that packs it"
        )
    check_apart(output, str(output), files)
    check_apart(part_of(output), f"{part_of(output)}, which holds the output until it is whole,", files)
    if output.exists() and not os.access(output, os.W_OK):
        raise DataError(f"{output} may not be written; choose another place to write to, or change its permissions")
    return output


def part_of(place: Path) -> Path:
    """Where a file is written until it is whole."""
    return place.with_name(f"{place.name}.part")


def check_apart(written: Path | TextIO, name: str, files: Sequence[Path | None]) -> None:
    """Refuse to write into what is read: the one would be emptied, or never come to its end."""
    out = stat_of(written)
    if out is None or not stat.S_ISREG(out.st_mode):
        return
    for file in files:
        read = stat_of(sys.stdin if file is None else file)
        if read is not None and os.path.samestat(out, read):
            raise DataError(f"{name} is also what is to be read; write to another file")


def stat_of(place: Path | TextIO) -> os.stat_result | None:
    """What the system knows of a path or an open stream; None where there is nothing."""
    try:
        return place.stat() if isinstance(place, Path) else os.fstat(place.fileno())
    except (OSError, ValueError):  # ValueError: a stream that is no file, as under a test
        return None


def check_stdout() -> None:
    """Refuse a standard output that is closed."""
    if sys.stdout is None:
        raise DataError("standard output is closed, so that there is nowhere to write; open it, as with > FILE")


@contextmanager
def opened(place: Path | None) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """Where to write, and what to call when all is written: a file gets its name only then."""
    if place is None:
        yield sys.stdout.buffer, sys.stdout.buffer.flush
        return
    if is_pipe(place):
        with place.open("wb") as stream:
            yield stream, stream.flush
        return
    part = part_of(place)
    with held(part) as target:

        def done() -> None:
            target.flush()
            os.fsync(target.fileno())
            with suppress(OSError):  # a new one has what the system gives, an old one keeps what people gave it
                os.fchmod(target.fileno(), stat.S_IMODE(place.stat().st_mode))
            part.replace(place)

        try:
            yield target, done
        except BaseException:
            with suppress(OSError):  # a full disk: what is on it stays
                target.flush()
            if part.exists() and part.stat().st_size:
                tell(f"dragoman: what was written until then is in {part}\n")
            else:
                part.unlink(missing_ok=True)
            raise


def held(part: Path) -> IO[bytes]:
    """The file, empty and locked: two runs with one --output would write into each other's lines."""
    while True:
        try:
            target = part.open("ab")  # not "wb", which would empty what another run is writing
        except OSError as error:
            raise DataError(f"{part} cannot be written: {error.strerror}; choose another place to write to") from None
        try:
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise DataError(
                        f"another process is writing {part} right now; wait for it, or choose another place to write to"
                    ) from None
            if part.exists() and os.path.samestat(os.fstat(target.fileno()), part.stat()):
                target.truncate(0)
                return target
            target.close()  # its last holder has just given it its name: what we have locked is the output
        except BaseException:
            target.close()
            raise
