"""Read tables of numbers from CSV and Parquet files, with the place of every cell for messages."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.data.corpora.compression import read_blocks
from dragoman.errors import DataError, MissingExtraError
from dragoman.values import plural

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
DELIMITERS: Final = (",", ";", "\t")


@dataclass(frozen=True)
class Table:
    """The columns of a file as they were read; a cell is text, a number, a time, or None."""

    name: str
    columns: dict[str, list[Any]]
    lines: list[int]
    sha256: str
    row_word: str = "line"

    def place(self, row: int) -> str:
        """A row as messages name it, such as `data.csv, line 7`."""
        return f"{self.name}, {self.row_word} {self.lines[row]}"

    def __len__(self) -> int:
        return len(self.lines)


def read_table(path: Path) -> Table:
    """Read a CSV file, which may be compressed, or a Parquet file."""
    if path.is_dir():
        raise DataError(f"{path} is a directory; expected a table, such as data.csv", code="not_a_file")
    return read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else read_csv(path)


def read_csv(path: Path) -> Table:
    """Read a CSV file with a header line; fields are separated by commas, semicolons or tabs."""
    content = b"".join(read_blocks(path))
    if not content.strip():
        raise DataError(f"{path} is empty; expected a table with a header", code="file_empty")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line} is not UTF-8; convert the file", code="not_utf8") from None
    header = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        names = [name.strip() for name in next(reader, [])]
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise DataError(
                    f"{path}, line {reader.line_num} has {plural(len(row), 'field')}, but the header has "
                    f"{len(names)}; repair the line",
                    code="wrong_columns",
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; check its quotes", code="wrong_columns") from None
    check_names(path, names)
    if not rows:
        raise DataError(f"{path} has no rows below its header; give a table of numbers", code="no_data")
    columns: dict[str, list[Any]] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return Table(str(path), columns, lines, hashlib.sha256(content).hexdigest())


def read_parquet(path: Path) -> Table:
    """Read a Parquet file with pyarrow."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", f"reading {path}") from None
    try:
        content = path.read_bytes()
        table = parquet.read_table(io.BytesIO(content))
        columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in table.column_names}
    except FileNotFoundError:
        raise DataError(f"there is no file {path}", code="file_missing") from None
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}", code="wrong_file_format") from None
    check_names(path, list(columns))
    if not table.num_rows:
        raise DataError(f"{path} has no rows; give a table of numbers", code="no_data")
    return Table(str(path), columns, list(range(1, table.num_rows + 1)), hashlib.sha256(content).hexdigest(), "row")


def check_names(path: Path, names: list[str]) -> None:
    """Reject a header without names, or with one name twice."""
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if not names or not all(names) or twice:
        what = f"has two columns {twice[0]!r}" if twice else "has a column without a name"
        raise DataError(f"the header of {path} {what}; name every column once", code="wrong_columns")
