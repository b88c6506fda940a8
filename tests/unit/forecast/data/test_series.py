"""Tables of numbers are read as they are; what is wrong is reported with its line."""

from __future__ import annotations

import lzma
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import DataError, MissingExtraError
from dragoman.forecast.data.series import read_series
from dragoman.progress import SilentReporter
from raising import raises
from small_series import write_series


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def written(folder: Path, *lines: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_all_columns_of_numbers_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffdate,a,kind,b", "2024-01-30,1,x,-2.5", "2024-01-31,2e1,y,0", "2024-02-01,3,,7")
    notes = Notes()
    series = read_series(path, reporter=notes)
    assert (series.columns, series.time_column, str(series.step)) == (("a", "b"), "date", "1 day")
    assert series.values.tolist() == [[1, -2.5], [20, 0], [3, 7]]
    assert series.times_after(2) == (datetime(2024, 2, 2), datetime(2024, 2, 3))
    assert len(notes.notes) == 1
    assert "kind" in notes.notes[0]


def test_compressed_files_and_other_separators(tmp_path: Path) -> None:
    path = tmp_path / "data.csv.xz"
    path.write_bytes(lzma.compress(b"t;when\n1.5;2024-01-01\n2.5;2024-01-08\n"))
    series = read_series(path, time="when")
    assert (series.columns, str(series.step), series.values[:, 0].tolist()) == (("t",), "1 week", [1.5, 2.5])


def test_a_table_without_time_stamps_is_a_series_of_rows(tmp_path: Path) -> None:
    series = read_series(written(tmp_path, "x", "1", "2", "3"))
    assert (series.times, str(series.step), series.times_after(3)) == ((), "1 row", ())


@pytest.mark.parametrize(
    ("lines", "code", "where"),
    [
        (["2024-01-01,1", "2024-01-02,", "2024-01-03,3"], "missing_value", "line 3"),
        (["2024-01-01,1", "2024-01-02,nan", "2024-01-03,3"], "missing_value", "line 3"),
        (["2024-01-01,1", "2024-01-02,two", "2024-01-03,3"], "not_a_number", "line 3"),
        (["2024-01-01,1", "2024-01-02,inf", "2024-01-03,3"], "not_a_number", "line 3"),
        (["2024-01-01,1", "2024-01-02,2", "2024-01-02,3"], "repeated_time", "line 4"),
        (["2024-01-01,1", "2024-01-03,2", "2024-01-02,3"], "times_not_sorted", "line 4"),
        (["2024-01-01,1", "2024-01-02,2", "2024-01-03,3", "2024-01-05,3"], "irregular_times", "line 5"),
        (["2024-01-01,1", "yesterday,2", "2024-01-03,3"], "invalid_time", "line 3"),
        (["2024-01-01,1", "2024-01-02,2,3"], "wrong_columns", "line 3"),
        (["2024-01-01,1"], "too_few_rows", "line 2"),
        ([], "no_data", "data.csv"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(tmp_path: Path, lines: list[str], code: str, where: str) -> None:
    with raises(DataError, code, where):
        read_series(written(tmp_path, "date,a", *lines))


def test_an_empty_file_and_a_directory_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("\n")
    with raises(DataError, "file_empty", "empty.csv"):
        read_series(tmp_path / "empty.csv")
    with raises(DataError, "not_a_file", "expected a table"):
        read_series(tmp_path)


def test_every_missing_value_is_counted(tmp_path: Path) -> None:
    rows = [f"2024-01-{day:02d},{'' if day in (3, 5, 6, 9, 11) else day}" for day in range(1, 13)]
    with raises(DataError, "missing_value", "line 4", "5 values", "6, 7, 10"):
        read_series(written(tmp_path, "date,a", *rows))


def test_missing_values_and_rows_are_interpolated_only_on_request(tmp_path: Path) -> None:
    rows = ["2024-01-01,1", "2024-01-02,", "2024-01-03,5", "2024-01-04,6", "2024-01-07,0", "2024-01-08,1"]
    notes = Notes()
    series = read_series(written(tmp_path, "date,a", *rows), missing="interpolate", reporter=notes)
    assert series.values[:, 0].tolist() == [1, 3, 5, 6, 4, 2, 0, 1]
    assert series.times[5] == datetime(2024, 1, 6)
    assert len(notes.notes) == 2
    with raises(DataError, "irregular_times", "line 4"):
        read_series(
            written(tmp_path, "date,a", "2024-01-01,1", "2024-01-02,2", "2024-01-03 06:00,3", "2024-01-04 06:00,4"),
            missing="interpolate",
        )
    with raises(DataError, "missing_value", "a"):
        read_series(written(tmp_path, "date,a", "2024-01-01,", "2024-01-02,2"), missing="interpolate")


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "date,load", "2024-01-01,1", "2024-01-02,2")
    with raises(DataError, "unknown_column", "'load'"):
        read_series(path, ["laod"])
    with raises(DataError, "unknown_column", "'dates'"):
        read_series(path, time="dates")
    with raises(DataError, "conflicting_options", "load"):
        read_series(path, ["load", "load"])
    with raises(DataError, "conflicting_options", "date"):
        read_series(path, ["date"], time="date")
    with raises(DataError, "wrong_columns", "'a'"):
        read_series(written(tmp_path, "a,a", "1,2"))
    with raises(DataError, "no_data"):
        read_series(written(tmp_path, "date,name", "2024-01-01,x", "2024-01-02,y"))


def test_a_file_that_is_not_utf8_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"date,a\n2024-01-01,\xff\n")
    with raises(DataError, "not_utf8", "line 2"):
        read_series(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with raises(MissingExtraError, "missing_extra", "dragoman[parquet]"):
        read_series(tmp_path / "data.parquet")


def test_parquet_equals_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    path = write_series(tmp_path / "data.csv", rows=9)
    parquet.write_table(csv.read_csv(path), tmp_path / "data.parquet")
    ours, theirs = read_series(path), read_series(tmp_path / "data.parquet")
    assert (ours.columns, ours.times, ours.step) == (theirs.columns, theirs.times, theirs.step)
    np.testing.assert_array_equal(ours.values, theirs.values)
