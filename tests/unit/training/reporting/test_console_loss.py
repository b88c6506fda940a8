"""The loss in the lines of a training is that of metrics.jsonl, whichever way a line is triggered."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from dragoman.progress import ConsoleReporter
from tiny_run import metrics, prepare_tiny, tiny_run

CHANGES = ("train.label_smoothing=0.3", "train.steps=12", "train.log_every=4", "train.evaluate_every=12")


def printed(stream: io.StringIO) -> dict[int, str]:
    """The loss of each printed step."""
    found = re.findall(r"^step (\d+)/12  loss (\S+)", stream.getvalue(), re.MULTILINE)
    return {int(step): loss for step, loss in found}


def test_lines_triggered_by_time_show_the_loss_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_tiny(tmp_path)
    lines = {}
    for name, seconds in (("timed", -1.0), ("logged", 1e9)):  # a line after each step, or only those of the log
        monkeypatch.setattr("dragoman.progress.STEP_SECONDS", seconds)
        stream = io.StringIO()
        tiny_run(tmp_path, tmp_path / name, *CHANGES, reporter=ConsoleReporter(stream))
        lines[name] = printed(stream)
    entries = [entry for entry in metrics(tmp_path / "timed") if "loss" in entry]
    assert [entry["step"] for entry in entries] == [4, 8, 12]
    assert all(entry["loss"] - entry["nll"] > 0.05 for entry in entries)  # the two are not mistaken for each other
    assert list(lines["timed"]) == [*range(1, 13)]
    assert lines["logged"] == {entry["step"]: f"{entry['loss']:.3f}" for entry in entries}
    assert {step: lines["timed"][step] for step in lines["logged"]} == lines["logged"]
