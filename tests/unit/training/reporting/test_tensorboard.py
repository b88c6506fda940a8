from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.errors import MissingExtraError
from dragoman.progress import SilentReporter
from dragoman.training.reporting.tensorboard import TensorBoardReporter


@dataclass
class Figures:
    figures: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)


def points(directory: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    return [(event.step, round(event.value, 4)) for event in events.Scalars(tag)]


def test_figures_reach_tensorboard_and_a_resumed_run_writes_over_what_it_repeats(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    first = TensorBoardReporter(tmp_path, SilentReporter())
    first.start_training(0, 100)
    for step in (10, 20, 30):
        first.logged({"step": step, "loss": step / 10})
    first.evaluated(20, Figures({"bleu": 12.5}, [("a", "b", "c")]), improved=True)
    first.close()
    again = TensorBoardReporter(tmp_path, SilentReporter())
    again.start_training(20, 100)
    again.logged({"step": 30, "loss": 7.0})
    again.close()
    assert points(tmp_path, "train/loss") == [(10, 1.0), (20, 2.0), (30, 7.0)]
    assert points(tmp_path, "valid/bleu") == [(20, 12.5)]


def test_without_the_package_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dragoman\[tensorboard\]'"):
        TensorBoardReporter(tmp_path, SilentReporter())
