"""The colors of numbers, in pictures and on the page: nothing at 0, one color for each sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class SignColors:
    """The colors of the most negative and the most positive number; those between fade into the background."""

    negative: str
    positive: str


LIGHT: Final = SignColors("#c8602d", "#2f5d8a")  # pictures have it too
DARK: Final = SignColors("#f0975a", "#7fb2e5")
