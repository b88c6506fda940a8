"""The result of a training step."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class StepResult:
    """Sums of the loss over target tokens, token counts, and the gradient norm before clipping."""

    step: int
    target: float
    source: float
    smoothed: float
    plain: float
    norm: float

    @property
    def finite(self) -> bool:
        """Whether the step was applied."""
        return math.isfinite(self.smoothed) and math.isfinite(self.norm)
