"""Time stamps: parse them, find the regular step between rows, continue it, and turn it into calendar features."""

from __future__ import annotations

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dragoman.config.forecast import CalendarFeature
from dragoman.errors import DataError
from dragoman.values import plural, render_value

UNITS: Final = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
SEASONS: Final = {"second": 60, "minute": 60, "hour": 24, "day": 7, "week": 52, "month": 12, "year": 1, "row": 1}
"""Rows per season if the step is one unit: a day of hours, a week of days, a year of months."""


@dataclass(frozen=True)
class TimeStep:
    """The time between two rows: a number of seconds, of months, or one row where there are no time stamps."""

    count: int
    unit: str  # "second", "month" or "row"
    month_end: bool = False  # every row is the last day of its month

    def __str__(self) -> str:
        if self.unit == "month" and self.count % 12 == 0:
            return plural(self.count // 12, "year")
        if self.unit == "second":
            name, seconds = next((name, size) for name, size in UNITS.items() if self.count % size == 0)
            return plural(self.count // seconds, name)
        return plural(self.count, self.unit)

    def season(self) -> int:
        """Rows per season, for the seasonal-naive forecast: 24 of an hourly series."""
        count, _, unit = str(self).replace(",", "").partition(" ")
        return max(1, SEASONS[unit.removesuffix("s")] // int(count))

    def after(self, last: datetime, steps: int) -> datetime:
        """The time a number of steps after the last row."""
        if self.unit == "second":
            return last + timedelta(seconds=self.count * steps)
        years, month = divmod(last.month - 1 + self.count * steps, 12)
        days = monthrange(last.year + years, month + 1)[1]
        return last.replace(year=last.year + years, month=month + 1, day=days if self.month_end else last.day)

    def between(self, one: datetime, other: datetime) -> int | None:
        """The number of steps from one time to another; None if it is not a whole number."""
        if self.unit == "second":
            steps, rest = divmod(round((other - one).total_seconds()), self.count)
            return None if rest else steps
        steps, rest = divmod(months_between(one, other), self.count)
        return None if rest or self.after(one, steps) != other else steps


def months_between(one: datetime, other: datetime) -> int:
    """The number of months from one time to another, whatever their days."""
    return (other.year - one.year) * 12 + other.month - one.month


def parse_time(text: object, where: str) -> datetime:
    """A time stamp: ISO 8601, also with slashes, or a year or month; a time zone is converted to UTC."""
    if isinstance(text, datetime):
        found = text
    else:
        word = str(text).strip().replace("/", "-")
        if re.fullmatch(r"\d{4}(-\d{1,2})?", word):
            word = f"{word[:4]}-{int(word[5:] or 1):02d}-01"
        try:
            found = datetime.fromisoformat(word)
        except ValueError:
            raise DataError(
                f"{where}: {render_value(text)} is not a time stamp; write it as 2024-12-31 23:00:00, or choose the "
                "column of time stamps with --time",
                code="invalid_time",
            ) from None
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def find_step(times: Sequence[datetime], places: Sequence[str]) -> TimeStep:
    """The step between rows; reject time stamps that are repeated or out of order, by their place in the file."""
    for number in range(1, len(times)):
        if times[number] <= times[number - 1]:
            same = times[number] == times[number - 1]
            what = "repeats the time stamp of" if same else "is earlier than"
            raise DataError(
                f"{places[number]}: {times[number]} {what} the row before it; "
                + ("keep one row for each time" if same else "sort the file by time"),
                code="repeated_time" if same else "times_not_sorted",
            )
    if len(times) < 2:
        raise DataError(f"{places[0] if places else 'the file'}: one row is not a series", code="too_few_rows")
    months = Counter(months_between(*pair) for pair in pairwise(times))
    ends = all(time.day == monthrange(time.year, time.month)[1] for time in times)
    same_day = len({(0 if ends else time.day, time.hour, time.minute, time.second) for time in times}) == 1
    if same_day and min(months) > 0 and (ends or times[0].day <= 28):
        return TimeStep(months.most_common(1)[0][0], "month", ends)
    seconds = Counter(round((b - a).total_seconds()) for a, b in pairwise(times))
    return TimeStep(seconds.most_common(1)[0][0], "second")


def first_gap(times: Sequence[datetime], step: TimeStep) -> int | None:
    """The first row that does not follow the one before it by one step."""
    return next((n for n in range(1, len(times)) if step.between(times[n - 1], times[n]) != 1), None)


def calendar_features(times: Sequence[datetime], features: Sequence[CalendarFeature]) -> NDArray[np.float32]:
    """Sine and cosine of each part of the time stamps, `[rows, 2 * features]`: midnight is next to 23:59."""
    columns = []
    for feature in features:
        match feature:
            case "minute":
                phase = [(time.minute + time.second / 60) / 60 for time in times]
            case "hour":
                phase = [(time.hour + time.minute / 60) / 24 for time in times]
            case "weekday":
                phase = [(time.weekday() + time.hour / 24) / 7 for time in times]
            case "monthday":
                phase = [(time.day - 1) / 31 for time in times]
            case "yearday":
                phase = [(time.timetuple().tm_yday - 1) / 366 for time in times]
        angle = 2 * np.pi * np.array(phase)
        columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, -1).astype(np.float32) if columns else np.zeros((len(times), 0), np.float32)
