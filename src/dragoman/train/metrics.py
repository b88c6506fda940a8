"""`metrics.jsonl`: a line of JSON for each logged step and evaluation, cut back where a run resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

# What depends on the clock and not on the run; two runs that are equal to the bit may differ here.
CLOCK: Final = frozenset({"seconds", "target_tokens_per_second"})


class Metrics:
    """The log of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def size(self) -> int:
        """Bytes so far, on the disk for certain."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        return self.path.stat().st_size

    def cut(self, size: int) -> None:
        """Forget what was written after a checkpoint; the run writes it again."""
        if self.path.exists():
            os.truncate(self.path, size)

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines so far."""
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                for line in file:
                    yield json.loads(line)
