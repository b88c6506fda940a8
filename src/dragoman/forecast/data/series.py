"""A series: columns of numbers at regular times. What is missing or irregular is reported with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DataError
from dragoman.forecast.data.table_file import Table, read_table
from dragoman.forecast.data.time_stamps import TimeStep, find_step, first_gap, parse_time
from dragoman.progress import Reporter, SilentReporter
from dragoman.values import plural, render_value, suggest

Missing = Literal["error", "interpolate"]
MISSING_WORDS: Final = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
TIME_NAMES: Final = {"date", "time", "datetime", "timestamp", "ds", "year", "month", "day"}
SHOWN_PLACES: Final = 3


@dataclass(frozen=True)
class Series:
    """`values [rows, columns]` and the time of each row; without time stamps, `times` is empty."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]
    times: tuple[datetime, ...]
    time_column: str
    step: TimeStep
    name: str
    sha256: str

    def __len__(self) -> int:
        return len(self.values)

    def times_after(self, steps: int) -> tuple[datetime, ...]:
        """The times of the rows that follow the last one."""
        return tuple(self.step.after(self.times[-1], n) for n in range(1, steps + 1)) if self.times else ()


def read_series(
    path: str | Path,
    targets: Sequence[str] = (),
    *,
    time: str | None = None,
    missing: Missing = "error",
    reporter: Reporter | None = None,
) -> Series:
    """Read columns of numbers from a CSV or Parquet file; by default all that begin with a number.

    `time` names the column of time stamps; by default it is found by its name. Missing values and missing rows are
    errors, unless `missing` is "interpolate": they are then filled linearly, and the reporter shows how many.
    """
    table, reporter = read_table(Path(path)), reporter or SilentReporter()
    stamps = time_column(table, time, targets)
    columns = target_columns(table, targets, stamps, reporter)
    values = np.stack([column_numbers(table, name) for name in columns], -1)
    if missing == "error":
        check_complete(table, columns, values)
    if stamps is None:
        times: tuple[datetime, ...] = ()
        step = TimeStep(1, "row")
    else:
        cells = table.columns[stamps]
        times = tuple(parse_time(cell, table.place(row)) for row, cell in enumerate(cells))
        step = find_step(times, [table.place(row) for row in range(len(table))])
        if (gap := first_gap(times, step)) is not None:
            if missing == "error" or step.between(times[gap - 1], times[gap]) is None:
                raise irregular(table, times, step, gap, missing)
            times, values, added = insert_rows(table, times, values, step)
            reporter.note(f"{table.name}: {plural(added, 'missing row')} inserted")
    if np.isnan(values).any():
        reporter.note(f"{table.name}: {plural(int(np.isnan(values).sum()), 'missing value')} interpolated")
        values = interpolate(table, columns, values)
    return Series(columns, values, times, stamps or "", step, Path(path).name, table.sha256)


def time_column(table: Table, given: str | None, targets: Sequence[str]) -> str | None:
    """The column of time stamps: the one that is given, or the first with a usual name; None without one."""
    if given is not None:
        if given not in table.columns:
            raise unknown_column(table, given)
        return given
    return next((name for name in table.columns if name.lower() in TIME_NAMES and name not in targets), None)


def unknown_column(table: Table, name: str) -> DataError:
    """The error for a column that the file does not have."""
    return DataError(f"{table.name} has no column {name!r}{suggest(name, table.columns)}", code="unknown_column")


def target_columns(table: Table, targets: Sequence[str], stamps: str | None, reporter: Reporter) -> tuple[str, ...]:
    """The columns to forecast: those that are given, or all that begin with a number."""
    for name in targets:
        if name not in table.columns:
            raise unknown_column(table, name)
        if name == stamps or list(targets).count(name) > 1:
            what = "is the column of time stamps" if name == stamps else "is given twice"
            raise DataError(f"column {name!r} {what}; leave it out of the targets", code="conflicting_options")
    if targets:
        return tuple(targets)
    found: list[str] = []
    text: list[str] = []
    for name, cells in table.columns.items():
        first = next((cell for cell in cells if not is_missing(cell)), None)
        if name != stamps:
            (found if first is not None and as_number(first) is not None else text).append(name)
    if text:
        reporter.note(f"{table.name}: left out, because they hold no numbers: {', '.join(text)}")
    if not found:
        raise DataError(f"{table.name} has no column of numbers to forecast", code="no_data")
    return tuple(found)


def is_missing(cell: Any) -> bool:
    """Whether a cell holds no value."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS)


def as_number(cell: Any) -> float | None:
    """The finite number of a cell, or None."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def column_numbers(table: Table, name: str) -> NDArray[np.float64]:
    """The numbers of a column, NaN where a value is missing; text is an error with its line."""
    numbers = np.full(len(table), np.nan)
    for row, cell in enumerate(table.columns[name]):
        if is_missing(cell):
            continue
        number = as_number(cell)
        if number is None:
            comma = "; write decimals with a point" if isinstance(cell, str) and "," in cell else ""
            raise DataError(
                f"{table.place(row)}: {name} is {render_value(cell)}, not a number{comma or '; correct or remove it'}",
                code="not_a_number",
            )
        numbers[row] = number
    return numbers


def check_complete(table: Table, columns: Sequence[str], values: NDArray[np.float64]) -> None:
    """Reject missing values, with the first lines that lack one."""
    rows, which = np.nonzero(np.isnan(values))
    if not len(rows):
        return
    others = [str(table.lines[row]) for row in dict.fromkeys(rows[1:].tolist()) if row != rows[0]]
    more = f" ({plural(len(rows), 'value')} in all; also {table.row_word} {', '.join(others[:SHOWN_PLACES])}"
    more = f"{more}{' and more' if len(others) > SHOWN_PLACES else ''})" if others else ""
    raise DataError(
        f"{table.place(int(rows[0]))}: {columns[which[0]]} has no value{more}; fill it in, or interpolate with "
        "--missing interpolate",
        code="missing_value",
    )


def irregular(table: Table, times: Sequence[datetime], step: TimeStep, row: int, missing: Missing) -> DataError:
    """The error for the first row that does not follow by one step."""
    advice = "; insert the missing rows, or interpolate them with --missing interpolate"
    if step.between(times[row - 1], times[row]) is None:
        advice = "; resample the series to equal steps" if missing == "error" else "; this cannot be interpolated"
    return DataError(
        f"{table.place(row)}: {times[row]} does not follow {times[row - 1]} by {step}, as most rows do{advice}",
        code="irregular_times",
    )


def insert_rows(
    table: Table, times: Sequence[datetime], values: NDArray[np.float64], step: TimeStep
) -> tuple[tuple[datetime, ...], NDArray[np.float64], int]:
    """The series with a row of missing values for each time that is absent, and their number."""
    places = [0]
    for row in range(1, len(times)):
        steps = step.between(times[row - 1], times[row])
        if steps is None:
            raise irregular(table, times, step, row, "interpolate")
        places.append(places[-1] + steps)
    full = np.full((places[-1] + 1, values.shape[1]), np.nan)
    full[places] = values
    return tuple(step.after(times[0], n) for n in range(len(full))), full, len(full) - len(times)


def interpolate(table: Table, columns: Sequence[str], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill missing values linearly; a series that begins or ends with one is an error."""
    filled = values.copy()
    for number, name in enumerate(columns):
        known = np.flatnonzero(~np.isnan(values[:, number]))
        if not len(known) or known[0] != 0 or known[-1] != len(values) - 1:
            raise DataError(
                f"{table.name}: {name} begins or ends without a value, which cannot be interpolated; cut the file",
                code="missing_value",
            )
        filled[:, number] = np.interp(np.arange(len(values)), known, values[known, number])
    return filled
