"""What a step of training came to."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a step came to: sums over its target tokens, and the norm of its gradient before clipping."""

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
