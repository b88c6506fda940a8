"""Also report a run to TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import MissingExtraError
from dragoman.progress import Evaluation, Reporter


class TensorBoardReporter(Reporter):
    """Write every figure to TensorBoard, and pass everything on to another reporter.

    A resumed run purges what was written after its checkpoint, because it writes that again.
    """

    def __init__(self, directory: Path, onward: Reporter) -> None:
        try:
            import tensorboard  # noqa: F401  # only to know whether it is installed
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "--tensorboard") from None
        self.directory, self.onward = directory, onward
        self.writer: Any = None

    def start_stage(self, title: str, total: int | None, unit: str) -> None:
        """Forward it to the other reporter."""
        self.onward.start_stage(title, total, unit)

    def advance(self, amount: int = 1) -> None:
        """Forward it to the other reporter."""
        self.onward.advance(amount)

    def note(self, text: str) -> None:
        """Forward it to the other reporter."""
        self.onward.note(text)

    def start_training(self, step: int, steps: int) -> None:
        """Open the log, from `step` on."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.directory), purge_step=step + 1)
        self.onward.start_training(step, steps)

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        """Forward it; TensorBoard gets logged steps only."""
        self.onward.step_done(step, target_tokens, loss)

    def logged(self, entry: Mapping[str, Any]) -> None:
        """Add a point for each number of the line."""
        self._add("train", entry["step"], {k: v for k, v in entry.items() if k != "step"})
        self.onward.logged(entry)

    def evaluated(self, step: int, evaluation: Evaluation, improved: bool) -> None:
        """Add a point for each figure, and the sample translations as text."""
        self._add("valid", step, evaluation.figures)
        rows = "".join(f"| {a} | {b} | {c} |\n" for a, b, c in evaluation.samples)
        if self.writer is not None and rows:
            self.writer.add_text("samples", f"| source | ours | reference |\n|---|---|---|\n{rows}", step)
        self.onward.evaluated(step, evaluation, improved)

    def close(self) -> None:
        """Close the log."""
        if self.writer is not None:
            self.writer.close()
        self.onward.close()

    def _add(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        if self.writer is not None:
            for name, value in figures.items():
                self.writer.add_scalar(f"{group}/{name}", value, step)
