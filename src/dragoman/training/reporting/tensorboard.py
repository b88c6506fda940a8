"""The run in TensorBoard, beside what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import MissingExtraError
from dragoman.training.reporting.progress import Evaluation, Progress, Watch


class Board:
    """A watch that writes every figure to TensorBoard and passes all that it hears on to another.

    A resumed run purges what was written after its checkpoint, as it writes that again.
    """

    def __init__(self, directory: Path, onward: Watch) -> None:
        try:
            import tensorboard  # noqa: F401  # only to know whether it is there
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "--tensorboard") from None
        self.directory, self.onward = directory, onward
        self.writer: Any = None

    def begin(self, step: int, steps: int) -> None:
        """Open the log, from `step` on."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.directory), purge_step=step + 1)
        self.onward.begin(step, steps)

    def stepped(self, progress: Progress, target_tokens: float, loss: float) -> None:
        """Pass it on: not every step is worth a point."""
        self.onward.stepped(progress, target_tokens, loss)

    def logged(self, entry: Mapping[str, Any]) -> None:
        """A point for each number of the line."""
        self._add("train", entry["step"], {k: v for k, v in entry.items() if k != "step"})
        self.onward.logged(entry)

    def evaluated(self, step: int, evaluation: Evaluation, better: bool) -> None:
        """A point for each figure, and the sample translations as text."""
        self._add("valid", step, evaluation.figures)
        rows = "".join(f"| {a} | {b} | {c} |\n" for a, b, c in evaluation.samples)
        if self.writer is not None and rows:
            self.writer.add_text("samples", f"| source | ours | reference |\n|---|---|---|\n{rows}", step)
        self.onward.evaluated(step, evaluation, better)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.onward.note(text)

    def end(self) -> None:
        """Close the log."""
        if self.writer is not None:
            self.writer.close()
        self.onward.end()

    def _add(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        if self.writer is not None:
            for name, value in figures.items():
                self.writer.add_scalar(f"{group}/{name}", value, step)
