"""The command line, run inside the test's own process."""

from __future__ import annotations

import pytest

from dragoman.cli import main


def leave(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote to stdout and stderr."""
    try:
        main(list(args))
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err
