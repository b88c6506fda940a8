"""Time steps are found and continued as Python's own calendar does; features repeat with their period."""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta

import numpy as np
import pytest

from dragoman.forecast.data.time_stamps import TimeStep, calendar_features, find_step, first_gap, parse_time


def places(count: int) -> list[str]:
    return [f"line {n}" for n in range(count)]


@pytest.mark.parametrize(
    ("seconds", "name", "season"),
    [(1, "1 second", 60), (900, "15 minutes", 4), (3600, "1 hour", 24), (7200, "2 hours", 12), (86400, "1 day", 7),
     (604800, "1 week", 52)],
)  # fmt: skip
def test_steps_of_seconds(seconds: int, name: str, season: int) -> None:
    times = [datetime(2024, 2, 28, 23) + timedelta(seconds=seconds * n) for n in range(7)]
    step = find_step(times[:5], places(5))
    assert (str(step), step.season(), first_gap(times, step)) == (name, season, None)
    assert [step.after(times[4], n) for n in (1, 2)] == times[5:]


@pytest.mark.parametrize(("months", "name", "season"), [(1, "1 month", 12), (3, "3 months", 4), (12, "1 year", 1)])
@pytest.mark.parametrize("end", [False, True])
def test_steps_of_months(months: int, name: str, season: int, end: bool) -> None:
    times = []
    for n in range(9):
        year, month = 2023 + (4 + months * n) // 12, (4 + months * n) % 12 + 1
        times.append(datetime(year, month, monthrange(year, month)[1] if end else 15))
    step = find_step(times[:6], places(6))
    assert (str(step), step.season(), first_gap(times, step)) == (name, season, None)
    assert [step.after(times[5], n) for n in (1, 2, 3)] == times[6:]


def test_gaps_are_found_and_counted() -> None:
    times = [datetime(2024, 3, 31, hour) for hour in (0, 1, 3, 4)]
    step = find_step(times, places(4))
    assert (first_gap(times, step), step.between(times[1], times[2])) == (2, 2)
    assert TimeStep(3600, "second").between(times[0], times[0] + timedelta(minutes=90)) is None


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-12-31 23:00:00", datetime(2024, 12, 31, 23)),
        ("2024/12/31 23:00", datetime(2024, 12, 31, 23)),
        ("20241231", datetime(2024, 12, 31)),
        ("1700", datetime(1700, 1, 1)),
        ("2024-7", datetime(2024, 7, 1)),
        ("2024-12-31T23:00:00+02:00", datetime(2024, 12, 31, 21)),
    ],
)
def test_formats(text: str, time: datetime) -> None:
    assert parse_time(text, "line 1") == time


def test_features_have_their_period() -> None:
    times = [datetime(2024, 1, 1) + timedelta(hours=hour) for hour in range(24 * 15)]
    hour, week = (calendar_features(times, [name]) for name in ("hour", "weekday"))
    np.testing.assert_allclose(hour[24:48], hour[:24], atol=1e-6)
    np.testing.assert_allclose(week[168:336], week[:168], atol=1e-6)
    assert abs(week[24:48] - week[:24]).max() > 0.1
    np.testing.assert_allclose(hour[6], [1, 0], atol=1e-6)
    both = calendar_features(times, ["hour", "weekday"])
    np.testing.assert_array_equal(both, np.concatenate([hour, week], -1))
    assert calendar_features(times, ()).shape == (len(times), 0)
