"""The speed of a job: of each worker and of all together, with the share that is done and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dragoman.progress import clock
from dragoman.values import plural

INTERVAL_SECONDS: Final = 10.0
MAX_WORKERS: Final = 8  # in a line of progress; the summary has all


@dataclass
class WorkerRate:
    """The rows that a worker has finished, and the seconds that it worked."""

    rows: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Rows per second of work."""
        return self.rows / max(self.seconds, 1e-9)


class WorkerThroughput:
    """Counts what workers finish; `show` receives a line of progress every few seconds."""

    def __init__(
        self,
        total: int,
        show: Callable[[str], None] | None,
        unit: str = "line",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.show, self.unit, self.now = total, show, unit, now
        self.workers: dict[str, WorkerRate] = {}
        self.done = self.rows = 0
        self.started = self.shown = now()

    def count(self, worker: str, rows: int, amount: int, seconds: float) -> None:
        """Count the rows of a block, and what is done of the total."""
        known = self.workers.setdefault(worker, WorkerRate())
        known.rows, known.seconds = known.rows + rows, known.seconds + seconds
        self.rows, self.done = self.rows + rows, self.done + amount
        now = self.now()
        if self.show is not None and now - self.shown >= INTERVAL_SECONDS:
            self.shown = now
            self.show(self.line())

    def line(self) -> str:
        """Share, speed and time left, and the speed of each worker."""
        seconds = max(self.now() - self.started, 1e-9)
        share = self.done / max(self.total, 1)
        left = f"{clock(seconds * (1 / share - 1))} left" if share else "time left unknown"
        names = sorted(self.workers)
        rates = [f"{name} {self.workers[name].rate:,.0f}" for name in names[:MAX_WORKERS]]
        more = f" and {len(names) - MAX_WORKERS:,} more" if len(names) > MAX_WORKERS else ""
        return (
            f"{100 * share:.0f} %, {self.rows / seconds:,.0f} {self.unit}s/s, {left}; "
            f"{self.unit}s/s by worker: {', '.join(rates)}{more}"
        )

    def summary(self) -> list[str]:
        """A line for all workers, and one for each of them."""
        seconds = max(self.now() - self.started, 1e-9)
        lines = [f"{plural(self.rows, self.unit)} in {clock(seconds)}, {self.rows / seconds:,.1f} {self.unit}s/s"]
        for name, worker in sorted(self.workers.items()):
            lines.append(
                f"{name}: {plural(worker.rows, self.unit)}, {worker.rate:,.1f} {self.unit}s/s, "
                f"busy {worker.seconds:.0f} s"
            )
        return lines
