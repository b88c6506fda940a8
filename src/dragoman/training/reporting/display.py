"""What a person sees while a model trains: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import IO, Any, Final

from dragoman.training.reporting.progress import Evaluation, Progress

QUIET: Final = 30.0  # seconds after which a plain line comes before it is due, so that slow steps are seen to be steps


class Display:
    """Step, loss, tokens a second and time left; figures and sample translations after each evaluation."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self.live = self.console.is_terminal
        self.bar = Bar(
            TextColumn("[bold]training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[rate]:,.0f} tokens/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            disable=not self.live,
            speed_estimate_period=120,
        )
        self.steps = 0
        self.began = self.said = 0.0
        self.first_step = 0
        self.tokens = 0.0
        self.loss = 0.0

    def begin(self, step: int, steps: int) -> None:
        """Show the bar from `step` on."""
        self.steps, self.first_step, self.began = steps, step, time.perf_counter()
        self.said = self.began
        if step:
            self.note(f"going on after step {step:,}")
        self.task = self.bar.add_task("train", total=steps, completed=step, loss=0.0, rate=0.0)
        self.bar.start()

    def stepped(self, progress: Progress, target_tokens: float, loss: float) -> None:
        """Move the bar; the loss shown is a moving mean."""
        self.tokens += target_tokens
        self.loss = loss if not self.loss else 0.95 * self.loss + 0.05 * loss
        now = time.perf_counter()
        rate = self.tokens / max(now - self.began, 1e-9)
        if self.live:
            self.bar.update(self.task, completed=progress.step, loss=self.loss, rate=rate)
        elif now - self.said > QUIET:
            self._say(progress.step, self.loss, rate)

    def logged(self, entry: Mapping[str, Any]) -> None:
        """A plain line, where there is no bar to look at."""
        if not self.live:
            self._say(entry["step"], entry["loss"], entry["target_tokens_per_second"])

    def _say(self, step: int, loss: float, rate: float) -> None:
        self.said = time.perf_counter()
        left = (self.said - self.began) / max(1, step - self.first_step) * (self.steps - step)
        self.console.print(f"step {step:,}/{self.steps:,}  loss {loss:.3f}  {rate:,.0f} tokens/s  {clock(left)} left")

    def evaluated(self, step: int, evaluation: Evaluation, better: bool) -> None:
        """The figures, and a few translations to read."""
        figures = "  ".join(f"{name} {value:.3f}" for name, value in evaluation.figures.items())
        self.console.print(f"[bold]step {step:,}: {figures}[/]{'  (best so far)' if better else ''}")
        for source, ours, reference in evaluation.samples:
            self.console.print(f"  source     {source}", markup=False)
            self.console.print(f"  ours       {ours}", markup=False)
            self.console.print(f"  reference  {reference}", markup=False)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self.console.print(f"dragoman: {text}", markup=False)

    def end(self) -> None:
        """Leave the bar as it is."""
        self.bar.stop()


def clock(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
