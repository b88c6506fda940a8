"""The display, the card and the curve."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.training.reporting.curve import draw_curve
from dragoman.training.reporting.display import Display, clock
from dragoman.training.reporting.progress import Progress


@dataclass
class Figures:
    figures: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    display = Display(stream)
    display.begin(40, 100)
    display.stepped(Progress(step=50), 900, 2.5)
    display.logged({"step": 50, "loss": 2.5, "target_tokens_per_second": 1234.5})
    display.evaluated(50, Figures({"loss": 2.25, "bleu": 12.5}, [("[a]", "b", "c")]), better=True)
    display.note("mind [this]")
    display.end()
    said = stream.getvalue()
    assert "going on after step 40" in said
    assert "step 50/100  loss 2.500  1,23" in said
    assert "left" in said
    assert "step 50: loss 2.250  bleu 12.500  (best so far)" in said
    assert "  source     [a]\n  ours       b\n  reference  c\n" in said  # brackets are text, not markup
    assert "dragoman: mind [this]" in said
    assert "\x1b" not in said


def test_seconds_as_people_say_them() -> None:
    assert [clock(s) for s in (0, 59.9, 61, 3600, 36_061)] == ["0:00", "0:59", "1:01", "1:00:00", "10:01:01"]


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    entries = [{"step": s, "loss": 3 / s, "nll": 2 / s} for s in range(1, 9)]
    entries += [{"step": 4, "valid": {"loss": 1.0, "bleu": 3.0}}, {"step": 8, "valid": {"loss": 0.5, "bleu": 9.0}}]
    assert draw_curve(entries, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_slow_steps_are_seen_before_a_line_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr("dragoman.training.reporting.display.time.perf_counter", lambda: now[0])
    display = Display(stream)
    display.begin(2, 12)
    for step, seconds, lines in [(3, 20, 0), (4, 20, 1), (5, 29, 1), (6, 2, 2), (7, 31, 3)]:
        now[0] += seconds
        display.stepped(Progress(step=step), 1000, 2.5)
        assert len(stream.getvalue().splitlines()) == 1 + lines  # the first says from where it goes on
    assert stream.getvalue().splitlines()[1] == "step 4/12  loss 2.500  50 tokens/s  2:40 left"
    now[0] += 1
    display.logged({"step": 8, "loss": 2.0, "target_tokens_per_second": 70.0})
    assert stream.getvalue().splitlines()[-1].startswith("step 8/12  loss 2.000  70 tokens/s")
