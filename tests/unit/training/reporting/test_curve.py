"""The learning curve."""

from __future__ import annotations

from pathlib import Path

from dragoman.training.reporting.metrics import draw_training_curves


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    entries = [{"step": s, "loss": 3 / s, "nll": 2 / s} for s in range(1, 9)]
    entries += [{"step": 4, "valid": {"loss": 1.0, "bleu": 3.0}}, {"step": 8, "valid": {"loss": 0.5, "bleu": 9.0}}]
    assert draw_training_curves(entries, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
