"""What a verb that answers line by line says on stderr: how far it is, how quick, and what to look at again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from dragoman.cli import tell


def wanted(progress: bool | None, place: Path | None) -> bool:
    """Whether to say how far it is: as asked, else where a person reads stderr and the lines go elsewhere."""
    if progress is not None:
        return progress
    return sys.stderr.isatty() and (place is not None or not sys.stdout.isatty())


class Report:
    """Lines done and lines a second on stderr, and at the end which lines need a second look."""

    def __init__(self, live: bool) -> None:
        self.live, self.terminal = live, sys.stderr.isatty()
        self.done, self.begun, self.told = 0, time.monotonic(), 0.0
        self.careful: dict[str, list[int]] = {}

    def count(self, translation: Any) -> None:
        """One line more."""
        self.done += 1
        for flag in translation.flags:
            if flag != "empty" or translation.source_tokens:  # an empty line is meant to stay one
                self.careful.setdefault(flag, []).append(self.done)
        self.tick()

    def tick(self) -> None:
        """Say how far it is, where it has not been said just now."""
        now = time.monotonic()
        if self.live and now - self.told > (0.2 if self.terminal else 10):
            self.told = now
            self._say()

    def _say(self) -> None:
        rate = self.done / max(1e-9, time.monotonic() - self.begun)
        text = f"{self.done:,} line{'' if self.done == 1 else 's'}, {rate:,.1f} a second"
        tell(f"\r{text}\x1b[K" if self.terminal else f"{text}\n")

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.done:
            self._say()
            tell("\n" if self.terminal else "")
        if self.careful:
            told = [f"{len(n):,} {flag} (line {n[0]}{', ...' if n[1:] else ''})" for flag, n in self.careful.items()]
            tell(f"dragoman: of {self.done:,} lines {', '.join(told)}\n")
