"""Local attention as a band also where sentences are as short as in these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _bands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local attention as a band also where sentences are as short as here."""
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)
    monkeypatch.setattr("dragoman.nn.attention.sees.WORTH", 4)
