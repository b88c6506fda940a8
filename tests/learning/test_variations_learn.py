"""Every variation of positions and patterns learns to write digit strings backwards; without positions nothing can."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import reverse_digits


def exact(**changes: Any) -> int:
    """Of 1,000 unseen strings, how many come out right after 300 steps."""
    model = reverse_digits.train(replace(reverse_digits.RECIPE, **changes), steps=300)
    stream = reverse_digits.strings(seed=2, held_out=True)
    unseen = [next(stream) for _ in range(1000)]
    answers = reverse_digits.write(model, unseen)
    return sum(answer == text[::-1] for text, answer in zip(unseen, answers, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "relative", "max_distance": 8},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"pattern": "local", "window": 2},
        {"pattern": "sparse", "window": 1, "random_tokens": 1},
        {"pattern": "low_rank", "rank": 3, "max_positions": 16},
    ],
    ids=lambda c: next(iter(c.values())),
)
def test_it_learns(changes: dict[str, Any]) -> None:
    assert exact(**changes) >= 500  # 700 to 1,000 with two seeds


def test_without_positions_it_cannot() -> None:
    assert exact(positions="none") <= 350  # about 170: the short ones, and luck
