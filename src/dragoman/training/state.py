"""The training state: everything but the tensors that the next step depends on, saved with every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Window:
    """Sums since the last line of the log; saved too, because a resumed run must log the same numbers."""

    smoothed: float = 0.0
    plain: float = 0.0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    norm: float = 0.0
    steps: int = 0


@dataclass
class TrainingState:
    """Counters and the best evaluation of a run."""

    step: int = 0
    loader: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    best_value: float | None = None
    best_step: int = 0
    without_better: int = 0
    unevaluated: bool = False  # the evaluation was interrupted, and comes first when the run resumes
    metrics_lines: int = 0
    window: Window = field(default_factory=Window)

    def to_json(self) -> dict[str, Any]:
        """Plain values, exact: JSON writes a float with all its digits."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingState:
        """The state that `to_json` wrote."""
        return cls(**{**values, "window": Window(**values["window"])})
