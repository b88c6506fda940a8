"""Report the progress of long work: what reporters receive, and one for terminals, logs and notebooks."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import IO, Any, Final, Protocol

STAGE_SECONDS: Final = 10.0  # seconds between plain lines of a stage
STEP_SECONDS: Final = 30.0  # without a plain line for this long, print one early


class Evaluation(Protocol):
    """The result of an evaluation during training."""

    @property
    def figures(self) -> Mapping[str, float]:
        """`loss` and other scores, by name."""

    @property
    def samples(self) -> Sequence[tuple[str, str, str]]:
        """A few translations to read: source, hypothesis, reference."""


class Reporter:
    """Receives the progress of preparing, training, evaluating and inspecting; this base class shows nothing."""

    def start_stage(self, title: str, total: int | None, unit: str) -> None:
        """Start a stage of `total` units, if that is known; the stage before it is complete."""

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more units of the current stage."""

    def note(self, text: str) -> None:
        """Show a line that the user should read."""

    def start_training(self, step: int, steps: int) -> None:
        """Training starts or resumes after `step` of `steps` steps."""

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        """A training step is complete; `loss` is its label-smoothed loss per target token."""

    def logged(self, entry: Mapping[str, Any]) -> None:
        """A line was added to metrics.jsonl."""

    def evaluated(self, step: int, evaluation: Evaluation, improved: bool) -> None:
        """The model was evaluated; `improved` if it is the best so far."""

    def close(self) -> None:
        """The work has ended, with or without success; more work may follow."""


class SilentReporter(Reporter):
    """A reporter that shows nothing."""


class PlainConsole:
    """What the reporter needs of rich's console, without rich: plain lines, no bars."""

    is_terminal = is_jupyter = False

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def print(self, text: str, markup: bool = True) -> None:
        """Print a line; markup is for terminals."""
        plain = re.sub(r"\[(/|bold)\]", "", text) if markup else text
        self.stream.write(f"{plain}\n")


def make_console(stream: IO[str]) -> Any:
    """rich's console, or a plain one if rich is not installed."""
    if find_spec("rich") is None:
        return PlainConsole(stream)
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=True)


class ConsoleReporter(Reporter):
    """Progress on stderr: live bars in a terminal or notebook, plain lines in a log.

    With `transient`, bars disappear when they are complete, and a log gets nothing.
    """

    def __init__(self, stream: IO[str] | None = None, *, transient: bool = False, unit: str = "tokens") -> None:
        self.console = make_console(stream or sys.stderr)
        widgets = self.console.is_jupyter and find_spec("ipywidgets") is not None  # without them rich only warns
        self.live, self.transient, self.trained = self.console.is_terminal or widgets, transient, unit
        self._bar: Any = None
        self._task: Any = None
        self._title, self._total, self._unit, self._done = "", 0, "", 0
        self._started = self._printed = 0.0
        self._first_step, self._printed_step, self._tokens = 0, 0, 0.0
        self._loss_sum = self._loss_tokens = 0.0  # since the last entry of the training log

    def start_stage(self, title: str, total: int | None, unit: str) -> None:
        """Start a new bar, or a new series of lines."""
        self._complete_stage()
        self._title, self._total, self._unit, self._done = title, total or 0, unit, 0
        self._started = self._printed = time.perf_counter()
        if self.live:
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

            if self._bar is None:
                rate = TextColumn("{task.fields[rate]}")
                columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), rate)
                self._start_bar(*columns, TimeRemainingColumn())
            self._task = self._bar.add_task(title, total=total, rate="")

    def advance(self, amount: int = 1) -> None:
        """Move the bar; in a log, print a line every few seconds."""
        if not self._title:  # work before the first stage
            return
        self._done += amount
        now = time.perf_counter()
        if self.live:
            self._bar.update(self._task, completed=self._done, rate=self._rate())
        elif now - self._printed > STAGE_SECONDS and not self.transient:
            self._printed = now
            left = (now - self._started) * (self._total / max(self._done, 1) - 1)
            share = 100 * self._done / max(self._total, 1)
            self.console.print(f"{self._title}: {share:.0f} %, {self._rate()}, {left:.0f} s left", markup=False)

    def note(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.live or not self.transient:
            self.console.print(f"dragoman: {text}", markup=False)

    def start_training(self, step: int, steps: int) -> None:
        """Show the bar from `step` on."""
        self.close()
        self._total, self._first_step, self._printed_step, self._tokens = steps, step, step, 0.0
        self._loss_sum = self._loss_tokens = 0.0
        self._started = self._printed = time.perf_counter()
        self._first_result: tuple[float, int] | None = None  # its time and its step
        if step:
            self.note(f"resuming after step {step:,}")
        if self.live:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._start_bar(
                TextColumn("[bold]training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]:.3f}"),
                TextColumn(f"{{task.fields[rate]:,.0f}} {self.trained}/s"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(elapsed_when_finished=False),
            )
            self._task = self._bar.add_task("training", total=steps, completed=step, loss=0.0, rate=0.0)

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        """Move the bar; the loss shown is the mean over target tokens since the last entry of the training log."""
        self._tokens += target_tokens
        self._loss_sum, self._loss_tokens = self._loss_sum + loss * target_tokens, self._loss_tokens + target_tokens
        now, mean = time.perf_counter(), self._loss_sum / self._loss_tokens
        rate = self._tokens / max(now - self._started, 1e-9)
        if self._first_result is None:
            self._first_result = now, step
        if self.live:
            self._bar.update(self._task, completed=step, loss=mean, rate=rate)
        elif now - self._printed > STEP_SECONDS:
            self._print_step(step, mean, rate)

    def logged(self, entry: Mapping[str, Any]) -> None:
        """Print a plain line where there is no bar; the next loss shown starts anew."""
        self._loss_sum = self._loss_tokens = 0.0
        if not self.live and entry["step"] != self._printed_step:  # a slow step was printed when it was done
            self._print_step(entry["step"], entry["loss"], entry["target_tokens_per_second"])

    def evaluated(self, step: int, evaluation: Evaluation, improved: bool) -> None:
        """Print the figures, and a few translations to read."""
        figures = format_figures(evaluation.figures)
        where = f"step {step:,}" if step else "starting model"
        self.console.print(f"[bold]{where}: {figures}[/]{'  (best so far)' if improved and step else ''}")
        for source, hypothesis, reference in evaluation.samples:
            self.console.print(f"  source     {source}", markup=False)
            self.console.print(f"  hypothesis {hypothesis}", markup=False)
            self.console.print(f"  reference  {reference}", markup=False)

    def close(self) -> None:
        """Stop the bar."""
        if self._done >= self._total and sys.exc_info()[0] is None:  # not while an error passes through `finally`
            self._complete_stage()
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._title = None, ""

    def _start_bar(self, *columns: Any) -> None:
        from rich.progress import Progress

        self._bar = Progress(
            *columns, console=self.console, transient=self.transient, speed_estimate_period=120
        )  # over the last two minutes, because evaluations interrupt training
        self._bar.start()

    def _complete_stage(self) -> None:
        if not self._title:
            return
        if self.live:
            self._bar.update(self._task, completed=self._total)
        elif not self.transient:
            seconds = time.perf_counter() - self._started
            self.console.print(f"{self._title}: done in {seconds:.1f} s, {self._rate()}", markup=False)
        self._title = ""

    def _rate(self) -> str:
        rate = self._done / max(time.perf_counter() - self._started, 1e-9)
        return f"{rate / 1e6:.1f} MB/s" if self._unit == "B" else f"{rate:,.0f} {self._unit}/s"

    def _print_step(self, step: int, loss: float, rate: float) -> None:
        self._printed, self._printed_step = time.perf_counter(), step
        since, first = self._started, self._first_step
        if self._first_result is not None and step > self._first_result[1]:  # the first step may have been compiled
            since, first = self._first_result
        left = (self._printed - since) / max(1, step - first) * (self._total - step)
        done, speed = f"step {step:,}/{self._total:,}", f"{rate:,.0f} {self.trained}/s"
        self.console.print(f"{done}  loss {loss:.3f}  {speed}  {clock(left)} left")


def format_figures(figures: Mapping[str, float], separator: str = "  ") -> str:
    """The figures of an evaluation in one line; `exact` is the share of translations that equal the reference."""
    return separator.join(
        f"exact match {value:.1f} %" if name == "exact" else f"{name} {value:.3f}" for name, value in figures.items()
    )


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, or m:ss under an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
