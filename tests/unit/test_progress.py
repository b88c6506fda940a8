"""The reporter of terminals, logs and notebooks."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from dragoman.progress import ConsoleReporter, clock


@dataclass
class Figures:
    figures: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    reporter = ConsoleReporter(stream)
    reporter.start_training(40, 100)
    reporter.step_done(50, 900, 2.5)
    reporter.logged({"step": 50, "loss": 2.5, "target_tokens_per_second": 1234.5})
    reporter.evaluated(50, Figures({"loss": 2.25, "bleu": 12.5}, [("[a]", "b", "c")]), improved=True)
    reporter.note("mind [this]")
    reporter.close()
    said = stream.getvalue()
    assert "resuming after step 40" in said
    assert "step 50/100  loss 2.500  1,23" in said
    assert "left" in said
    assert "step 50: loss 2.250  bleu 12.500  (best so far)" in said
    assert "  source     [a]\n  hypothesis b\n  reference  c\n" in said  # brackets are text, not markup
    assert "dragoman: mind [this]" in said
    assert "\x1b" not in said


def test_a_slow_first_step_does_not_lengthen_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr("dragoman.progress.time.perf_counter", lambda: now[0])
    reporter = ConsoleReporter(stream)
    reporter.start_training(0, 1000)
    for step in range(1, 11):
        now[0] += 29 if step == 1 else 1  # compiled
        reporter.step_done(step, 1000, 2.5)
    reporter.logged({"step": 10, "loss": 2.0, "target_tokens_per_second": 70.0})
    assert stream.getvalue().splitlines()[-1].endswith(f"{clock(990)} left")


def test_seconds_as_a_clock_shows_them() -> None:
    assert [clock(s) for s in (0, 59.9, 61, 3600, 36_061)] == ["0:00", "0:59", "1:01", "1:00:00", "10:01:01"]


def test_slow_steps_are_seen_before_a_line_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr("dragoman.progress.time.perf_counter", lambda: now[0])
    reporter = ConsoleReporter(stream)
    reporter.start_training(2, 12)
    for step, seconds, lines in [(3, 20, 0), (4, 20, 1), (5, 29, 1), (6, 2, 2), (7, 31, 3)]:
        now[0] += seconds
        reporter.step_done(step, 1000, 2.5)
        assert len(stream.getvalue().splitlines()) == 1 + lines  # the first says from where it goes on
    assert stream.getvalue().splitlines()[1] == "step 4/12  loss 2.500  50 tokens/s  2:40 left"
    now[0] += 1
    reporter.logged({"step": 8, "loss": 2.0, "target_tokens_per_second": 70.0})
    assert stream.getvalue().splitlines()[-1].startswith("step 8/12  loss 2.000  70 tokens/s")
    now[0] += 31
    reporter.step_done(9, 1000, 2.5)
    reporter.logged({"step": 9, "loss": 2.0, "target_tokens_per_second": 70.0})
    assert [line.split()[1] for line in stream.getvalue().splitlines()[-2:]] == ["8/12", "9/12"]  # each step once


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_stages_are_lines_in_a_log_and_bars_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("dragoman.progress.time.perf_counter", lambda: now[0])
    for stream in (io.StringIO(), Terminal()):
        reporter = ConsoleReporter(stream)
        reporter.start_stage("clean", 4_000_000, "B")
        now[0] += 20
        reporter.advance(1_000_000)
        reporter.start_stage("encode", 500, "pairs")
        now[0] += 2
        reporter.advance(500)
        reporter.close()
        reporter.start_stage("encode", 500, "pairs")  # fails at once
        reporter.close()
        lines = stream.getvalue().splitlines()
        if isinstance(stream, Terminal):
            assert "clean" in stream.getvalue() and "500" not in lines[0] and "\x1b" in stream.getvalue()
            continue
        assert lines == [
            "clean: 25 %, 0.1 MB/s, 60 s left",
            "clean: done in 20.0 s, 0.1 MB/s",
            "encode: done in 2.0 s, 250 pairs/s",
        ]


def test_a_transient_reporter_leaves_nothing_in_a_log() -> None:
    stream = io.StringIO()
    reporter = ConsoleReporter(stream, transient=True)
    reporter.start_stage("slopes", 2, "passes")
    reporter.advance(2)
    reporter.note("nobody reads this")
    reporter.close()
    assert stream.getvalue() == ""


def test_figures_have_units_and_the_start_of_fine_tuning_has_a_name() -> None:
    stream = io.StringIO()
    ConsoleReporter(stream).evaluated(0, Figures({"loss": 2.25, "exact": 12.34}), improved=True)
    assert stream.getvalue() == "starting model: loss 2.250  exact match 12.3 %\n"


def test_a_stage_that_fails_is_not_done() -> None:
    for stream in (io.StringIO(), Terminal()):
        reporter = ConsoleReporter(stream)
        with suppress(ValueError):
            try:
                reporter.start_stage("clean", 500, "B")
                reporter.advance(500)  # all is read before what is wrong is found
                raise ValueError
            finally:
                reporter.close()
        assert "clean: done" not in stream.getvalue()
