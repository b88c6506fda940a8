"""Where a run stands: a few numbers that are saved with every checkpoint, and what a person is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Evaluation(Protocol):
    """What an evaluating function finds."""

    @property
    def figures(self) -> Mapping[str, float]:
        """`loss`, and whatever else is measured, by name."""

    @property
    def samples(self) -> Sequence[tuple[str, str, str]]:
        """A few translations to read: source, ours, reference."""


@dataclass
class Window:
    """Sums since the last line of the log. They are saved too, so that a resumed run logs the same numbers."""

    smoothed: float = 0.0
    plain: float = 0.0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    norm: float = 0.0
    steps: int = 0


@dataclass
class Progress:
    """Everything but the tensors that the next step depends on."""

    step: int = 0
    loader: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    best_value: float | None = None
    best_step: int = 0
    without_better: int = 0
    unevaluated: bool = False  # its evaluation was broken off, and comes first when the run goes on
    metrics_lines: int = 0
    window: Window = field(default_factory=Window)

    def to_json(self) -> dict[str, Any]:
        """Plain values, exact: JSON writes a float with all its digits."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        """The same again."""
        return cls(**{**values, "window": Window(**values["window"])})


class Watch(Protocol):
    """Someone who is told how the run goes."""

    def begin(self, step: int, steps: int) -> None:
        """The run begins, or goes on, after `step` of `steps` steps."""

    def stepped(self, progress: Progress, target_tokens: float, loss: float) -> None:
        """A step is done."""

    def logged(self, entry: Mapping[str, Any]) -> None:
        """A line went into the log."""

    def evaluated(self, step: int, evaluation: Evaluation, better: bool) -> None:
        """The model was evaluated."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def end(self) -> None:
        """The run ends."""


class Silence:
    """A watch that says nothing."""

    def begin(self, step: int, steps: int) -> None:
        """Say nothing."""

    def stepped(self, progress: Progress, target_tokens: float, loss: float) -> None:
        """Say nothing."""

    def logged(self, entry: Mapping[str, Any]) -> None:
        """Say nothing."""

    def evaluated(self, step: int, evaluation: Evaluation, better: bool) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""
