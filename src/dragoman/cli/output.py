"""Write lines to standard output, a pipe, or a file that appears when it is complete; report progress."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar

from dragoman.cli import note, print_stderr
from dragoman.cli.input import is_pipe, parse_path
from dragoman.data.corpora.compression import COMPRESSIONS
from dragoman.errors import OutputError
from dragoman.file_locks import lock_file
from dragoman.files import check_parent
from dragoman.values import plural

T = TypeVar("T")


def parse_output(word: str) -> Path | None:
    """The path of an output file, None for `-`; reject the name of a directory."""
    if word.endswith(os.sep):  # which a Path would drop
        raise OutputError(f"{word} is a directory; give the name of a file, such as {word}out.txt", code="not_a_file")
    return parse_path(word)


def resolve_output(output: Path | None, files: Sequence[Path | None] = ()) -> Path | None:
    """The path to write to, None for standard output; reject one that is not writable or is among the inputs `files`.

    Links are followed: the target is written and the link stays. `/dev/stdout`, and any other path of the file that
    standard output writes to, is standard output.
    """
    if output is not None and sys.stdout is not None:
        out, there = try_stat(sys.stdout), try_stat(output)
        if out is not None and there is not None and os.path.samestat(out, there):
            output = None
    if output is None:
        check_stdout()
        check_not_input(sys.stdout, "standard output", files)
        return None
    if output.is_symlink() and not is_pipe(output):
        try:
            output = output.resolve()
        except (OSError, RuntimeError):
            raise OutputError(f"{output} is a link to itself; choose another --output", code="cannot_write") from None
    if output.is_dir():
        raise OutputError(
            f"{output} is a directory; give the name of a file, such as {output / 'out.txt'}", code="not_a_file"
        )
    if output.suffix in COMPRESSIONS.values() and not is_pipe(output):
        raise OutputError(
            f"{output} ends with {output.suffix}, but output is not compressed; drop {output.suffix}, or pipe the "
            "output to a compressor",
            code="unsupported_compression",
        )
    check_parent(output)
    check_not_input(output, str(output), files)
    check_not_input(
        partial_path(output), f"{partial_path(output)}, which holds the output until it is complete,", files
    )
    if output.exists() and not os.access(output, os.W_OK):
        raise OutputError(f"{output} is not writable; choose another --output, or change its permissions")
    return output


def partial_path(path: Path) -> Path:
    """The path of a file until it is complete."""
    return path.with_name(f"{path.name}.part")


def check_not_input(written: Path | TextIO, name: str, files: Sequence[Path | None]) -> None:
    """Reject an output that is also an input: it would be emptied, or never end."""
    out = try_stat(written)
    if out is None or not stat.S_ISREG(out.st_mode):
        return
    for file in files:
        read = try_stat(sys.stdin if file is None else file)
        if read is not None and os.path.samestat(out, read):
            raise OutputError(f"{name} is also an input; write to another file", code="output_is_input")


def try_stat(path: Path | TextIO) -> os.stat_result | None:
    """The status of a path or an open stream, or None."""
    try:
        return path.stat() if isinstance(path, Path) else os.fstat(path.fileno())
    except (OSError, ValueError):  # ValueError: a stream without a file, as in tests
        return None


def check_stdout() -> None:
    """Reject a closed standard output."""
    if sys.stdout is None:
        raise OutputError("standard output is closed; open it, for example with > FILE", code="stream_closed")


@contextmanager
def open_output(path: Path | None) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """Return a stream, and a function to call when everything is written; the file appears only then."""
    if path is None:
        yield sys.stdout.buffer, sys.stdout.buffer.flush
        return
    if is_pipe(path):
        with path.open("wb") as stream:
            yield stream, stream.flush
        return
    part = partial_path(path)
    with open_locked(part) as target:

        def done() -> None:
            target.flush()
            os.fsync(target.fileno())
            if sys.platform == "win32":
                target.close()  # Windows renames no open file
            else:
                with suppress(OSError):  # an existing file keeps its permissions
                    os.fchmod(target.fileno(), stat.S_IMODE(path.stat().st_mode))
            part.replace(path)

        try:
            yield target, done
        except BaseException:
            with suppress(OSError):  # a full disk
                target.flush()
            if part.exists() and part.stat().st_size:
                note(f"the output so far is in {part}")
            else:
                part.unlink(missing_ok=True)
            raise


def open_locked(part: Path) -> IO[bytes]:
    """Open the file, empty and locked, so that two runs with the same --output cannot mix their lines."""
    while True:
        try:
            target = part.open("ab")  # not "wb", which would truncate the file of another run
        except OSError as error:
            reason = error.strerror
            raise OutputError(f"cannot write {part.with_suffix('')}: {reason}; choose another --output") from None
        try:
            try:
                lock_file(target)
            except BlockingIOError:
                raise OutputError(
                    f"another process is writing {part}; wait for it, or choose another --output", code="locked"
                ) from None
            except OSError:  # a file system without locks
                pass
            if part.exists() and os.path.samestat(os.fstat(target.fileno()), part.stat()):
                target.truncate(0)
                return target
            target.close()  # its last holder has just renamed it to the output
        except BaseException:
            target.close()
            raise


def flush_before_waiting(target: IO[bytes], blocks: Iterable[list[T]]) -> Iterator[list[T]]:
    """The blocks of an input; the output is flushed after an empty one, before the next one is waited for."""
    for block in blocks:
        yield block
        if not block:
            target.flush()


def should_report(progress: bool | None, path: Path | None) -> bool:
    """Whether to show progress: by the option, or else if stderr is a terminal and the lines go elsewhere."""
    if progress is not None:
        return progress
    return sys.stderr.isatty() and (path is not None or not sys.stdout.isatty())


class LineReporter:
    """Show the number of lines and the speed on stderr, and at the end the lines that need review."""

    def __init__(self, live: bool, path: Path | None = None) -> None:
        lines_shown = path is None and sys.stdout.isatty()  # then progress cannot overwrite its line
        self.live, self.terminal = live, sys.stderr.isatty() and not lines_shown
        self.started = self.printed = time.monotonic()
        self.done = self.shown = 0
        self.flagged: dict[str, list[int]] = {}

    def count(self, translation: Any) -> None:
        """Count a line."""
        self.done += 1
        for flag in translation.flags:
            if flag != "split":  # true for nearly every paragraph
                self.flagged.setdefault(flag, []).append(self.done)
        self.tick()

    def tick(self) -> None:
        """Show progress, unless it was just shown."""
        if self.live and (now := time.monotonic()) - self.printed > (0.2 if self.terminal else 10):
            self.printed = now
            self._print()

    def _print(self) -> None:
        self.shown = self.done
        rate = self.done / max(1e-9, time.monotonic() - self.started)
        text = f"{plural(self.done, 'line')}, {rate:,.1f} per second"
        print_stderr(f"\r{text}\x1b[K" if self.terminal else f"{text}\n")

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.done:
            if self.terminal or self.shown < self.done:
                self._print()
            print_stderr("\n" if self.terminal else "")
        if self.flagged:
            counts = [f"{len(n):,} {flag} (line {n[0]}{', ...' if n[1:] else ''})" for flag, n in self.flagged.items()]
            note(f"of {plural(self.done, 'line')}, {', '.join(counts)}")
