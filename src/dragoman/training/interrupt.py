"""Ctrl-C, SIGTERM and a closed terminal: finish the step, save and exit; a second Ctrl-C exits at once.

A running evaluation is abandoned, and repeated when the run resumes.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from dragoman.training.distributed.ranks import CollectiveError

MESSAGE = b"\ndragoman: stopping: finishing this step and saving (Ctrl-C again to stop at once)\n"


class InterruptedTrainingError(CollectiveError):
    """The run was stopped by Ctrl-C or SIGTERM, and saved first."""

    default_code = "interrupted"

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number  # as in shells: 130 after Ctrl-C, 143 after SIGTERM


class EvaluationAbandonedError(Exception):
    """Raised inside an evaluation when the run should stop."""


class StopRequest:
    """Record signals inside the context; the training loop checks for them between steps."""

    def __init__(self, prints: bool) -> None:
        self.prints = prints
        self.received: set[int] = set()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # signals can be caught only in the main thread
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if number == signal.SIGHUP:  # the terminal is closed, and writing to it would raise before the save
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            number = signal.SIGTERM
        self.received.add(number)
        if self.prints:
            os.write(2, MESSAGE)  # nothing else may be called here: the signal may have come inside a print

    def check(self) -> None:
        """Raise if the run should stop; for work that can be abandoned and repeated."""
        if self.received:
            raise EvaluationAbandonedError

    def flags(self) -> tuple[float, float]:
        """Whether SIGINT and SIGTERM were received, as numbers that can be summed over ranks."""
        return float(signal.SIGINT in self.received), float(signal.SIGTERM in self.received)
