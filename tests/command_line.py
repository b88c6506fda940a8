"""The command line, run inside the test's own process."""

from __future__ import annotations

import os
import sys
from subprocess import CompletedProcess
from tempfile import TemporaryFile

import pytest

from dragoman.cli import main


def leave(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote to stdout and stderr."""
    code = exit_code(*args)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def exit_code(*args: object) -> int:
    """The exit code of a command."""
    try:
        main([str(arg) for arg in args])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_command(*args: object, given: bytes = b"") -> CompletedProcess[bytes]:
    """A command with `given` as standard input, and its streams as bytes, as `subprocess.run` would return them."""
    saved, streams = [os.dup(number) for number in range(3)], (sys.stdin, sys.stdout, sys.stderr)
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        for number, file in enumerate((stdin, stdout, stderr)):
            os.dup2(file.fileno(), number)
        try:
            with (
                open(0, closefd=False) as sys.stdin,
                open(1, "w", closefd=False) as sys.stdout,
                open(2, "w", closefd=False) as sys.stderr,
            ):
                code = exit_code(*args)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, file in enumerate(saved):
                os.dup2(file, number)
                os.close(file)
        stdout.seek(0)
        stderr.seek(0)
        return CompletedProcess(list(map(str, args)), code, stdout.read(), stderr.read())
