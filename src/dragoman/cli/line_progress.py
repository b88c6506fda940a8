"""Progress of commands that work line by line: lines done, speed, and lines that need a second look."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from dragoman.cli import note, print_stderr


def should_report(progress: bool | None, path: Path | None) -> bool:
    """Whether to show progress: as the option says, else if stderr is a terminal and the lines go elsewhere."""
    if progress is not None:
        return progress
    return sys.stderr.isatty() and (path is not None or not sys.stdout.isatty())


class LineReporter:
    """Show lines done and lines a second on stderr, and at the end which lines need a second look."""

    def __init__(self, live: bool) -> None:
        self.live, self.terminal = live, sys.stderr.isatty()
        self.done, self.started, self.printed = 0, time.monotonic(), 0.0
        self.flagged: dict[str, list[int]] = {}

    def count(self, translation: Any) -> None:
        """Count a line."""
        self.done += 1
        for flag in translation.flags:
            if flag != "empty" or translation.source_tokens:  # an empty line stays empty
                self.flagged.setdefault(flag, []).append(self.done)
        self.tick()

    def tick(self) -> None:
        """Show progress, unless it was shown just now."""
        now = time.monotonic()
        if self.live and now - self.printed > (0.2 if self.terminal else 10):
            self.printed = now
            self._print()

    def _print(self) -> None:
        rate = self.done / max(1e-9, time.monotonic() - self.started)
        text = f"{self.done:,} line{'' if self.done == 1 else 's'}, {rate:,.1f} a second"
        print_stderr(f"\r{text}\x1b[K" if self.terminal else f"{text}\n")

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.done:
            self._print()
            print_stderr("\n" if self.terminal else "")
        if self.flagged:
            counts = [f"{len(n):,} {flag} (line {n[0]}{', ...' if n[1:] else ''})" for flag, n in self.flagged.items()]
            note(f"of {self.done:,} lines {', '.join(counts)}")
