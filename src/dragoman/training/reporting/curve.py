"""Plot the learning curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw_curve(entries: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Plot training and validation loss, and BLEU, against the step; False if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [e for e in entries if "loss" in e]
    valid = [e for e in entries if "valid" in e]
    figure, axis = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axis.plot([e["step"] for e in steps], [e["nll"] for e in steps], color="#9ecae1", label="training")
    at = [e["step"] for e in valid]
    axis.plot(at, [e["valid"]["loss"] for e in valid], "o-", color="#08519c", label="validation")
    axis.set_xlabel("step")
    axis.set_ylabel("cross-entropy of a target token")
    lines, labels = axis.get_legend_handles_labels()
    if valid and "bleu" in valid[0]["valid"]:
        right = axis.twinx()
        (line,) = right.plot(at, [e["valid"]["bleu"] for e in valid], "s--", color="#d94801")
        right.set_ylabel("BLEU, greedy")
        right.set_ylim(bottom=0)
        lines, labels = [*lines, line], [*labels, "BLEU"]
    axis.legend(lines, labels, loc="center right")
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
