"""Ctrl-C, SIGTERM and a closed terminal: finish the step, save, and say how to go on; a second Ctrl-C ends at once.

An evaluation is broken off, and done again when the run goes on.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from dragoman.training.distributed.ranks import AgreedError

SAID = b"\ndragoman: asked to stop: finishing this step and saving (Ctrl-C again to stop at once)\n"


class InterruptedTrainingError(AgreedError):
    """The run was asked to stop (Ctrl-C, SIGTERM), and saved before it did."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number  # as shells have it: 130 after Ctrl-C, 143 after SIGTERM


class BrokenOffError(Exception):
    """Raised inside an evaluation that a request to stop breaks off."""


class StopRequest:
    """Remembers which signals came while it is entered; the loop looks at it between steps."""

    def __init__(self, speaks: bool) -> None:
        self.speaks = speaks
        self.came: set[int] = set()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # elsewhere, signals are not ours to catch
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.came and number == signal.SIGINT:
            raise KeyboardInterrupt
        if number == signal.SIGHUP:  # the terminal is gone, and a word to it would be an error before the save
            hole = os.open(os.devnull, os.O_WRONLY)
            os.dup2(hole, 1)
            os.dup2(hole, 2)
            number = signal.SIGTERM
        self.came.add(number)
        if self.speaks:
            os.write(2, SAID)  # nothing else may be called here: the signal may have come inside a print

    def check(self) -> None:
        """Raise where somebody has asked to stop; for work that can be broken off and done again."""
        if self.came:
            raise BrokenOffError

    def flags(self) -> tuple[float, float]:
        """Whether SIGINT came, and whether SIGTERM came, as numbers that can be summed over processes."""
        return float(signal.SIGINT in self.came), float(signal.SIGTERM in self.came)
