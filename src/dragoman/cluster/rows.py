"""Row formats: text, TSV, JSON lines and Parquet, read in blocks of rows and written in parts that can be joined.

A block travels as bytes. A part has one row for each row of its block; the parts of a file, joined, are its output.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

from dragoman.cluster.codecs import compress
from dragoman.data.corpora.compression import COMPRESSIONS, read_stream
from dragoman.data.corpora.corpus import Corpus, column_number
from dragoman.data.corpora.lines import split_lines
from dragoman.data.corpora.reader import parse_tsv_line
from dragoman.errors import DataError, MissingExtraError
from dragoman.files import parse_json
from dragoman.values import render_value

BLOCK_ROWS: Final = 4096
BLOCK_BYTES: Final = 1 << 22  # a block of long rows is cut earlier
LINE_ENDS: Final = {ord("\n"): " ", ord("\r"): " "}
JSON_SUFFIXES: Final = (".jsonl", ".ndjson")
Texts = list[tuple[str, ...]]  # the chosen fields of each row
Values = Mapping[str, Any]  # what a task found for a row, by name
Columns = Mapping[str, type]  # the names and types of these values: str, float, or list (of links between words)


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a file, as bytes, and the number of bytes of the file that have been read so far."""

    payload: bytes
    rows: int
    position: int


class RowFormat(Protocol):
    """How rows are read, and how results are written."""

    def blocks(self, raw: IO[bytes], size: int) -> Iterator[RowBlock]:
        """The rows of an open file in order, at most `size` in a block."""

    def texts(self, block: RowBlock, first: int) -> Texts:
        """The texts of each row; `first` is the number of its first row, for messages."""

    def part(self, block: RowBlock, found: Sequence[Values], columns: Columns) -> bytes:
        """The rows of the output."""

    def join(self, parts: Iterator[IO[bytes]], into: IO[bytes]) -> None:
        """Write the parts of a file one after the other."""


@dataclass(frozen=True)
class Lines:
    """Text: a row is a line. Subclasses say what is in a line."""

    name: str  # of the file, for messages and for its compression
    fields: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The name as a path."""
        return Path(self.name)

    def blocks(self, raw: IO[bytes], size: int) -> Iterator[RowBlock]:
        """Lines in blocks."""
        held: list[str] = []
        n_bytes = 0
        lines = chain.from_iterable(split_lines(self.path, read_stream(self.path, raw)))
        for line in lines:
            held.append(line)
            n_bytes += len(line)
            if len(held) == size or n_bytes > BLOCK_BYTES:
                yield RowBlock("\n".join(held).encode(), len(held), raw.tell())
                held, n_bytes = [], 0
        if held:
            yield RowBlock("\n".join(held).encode(), len(held), raw.tell())

    def lines(self, block: RowBlock) -> list[str]:
        """The lines of a block."""
        return block.payload.decode().split("\n")

    def join(self, parts: Iterator[IO[bytes]], into: IO[bytes]) -> None:
        """Append the parts; compressed ones are frames that may follow each other."""
        for part in parts:
            shutil.copyfileobj(part, into, 1 << 20)

    def packed(self, lines: Sequence[str]) -> bytes:
        """Lines as the bytes of a part, compressed like the input."""
        return compress("".join(f"{line}\n" for line in lines).encode(), self.path.suffix)


class TextLines(Lines):
    """A line is a text; the output has the values of a row, separated by tabs."""

    def texts(self, block: RowBlock, first: int) -> Texts:
        """Each line."""
        return [(line,) for line in self.lines(block)]

    def part(self, block: RowBlock, found: Sequence[Values], columns: Columns) -> bytes:
        """A line for each line."""
        return self.packed([format_columns(values) for values in found])


class TsvLines(TextLines):
    """A line is a pair: source, tab, target."""

    def texts(self, block: RowBlock, first: int) -> Texts:
        """The two sides of each line; empty for an empty line. Fields may be numbers of columns."""
        source, target = self.fields if all(map(column_number, self.fields)) else ("", "")
        corpus = Corpus(self.path, None, "tsv", source, target)
        lines = enumerate(self.lines(block), first + 1)
        return [tuple(parse_tsv_line(corpus, line, number)) for number, line in lines]


class JsonLines(Lines):
    """A line is a JSON object; values are added to it, and the rest of the line stays as it is."""

    def texts(self, block: RowBlock, first: int) -> Texts:
        """The fields of each line; empty for an empty line."""
        return [self._texts(line, number) for number, line in enumerate(self.lines(block), first + 1)]

    def _texts(self, line: str, number: int) -> tuple[str, ...]:
        if not line.strip():
            return ("",) * len(self.fields)
        where = f"{self.name}, line {number}"
        try:
            entry = parse_json(line, finite=False)
        except ValueError as error:
            raise DataError(f"{where}: not valid JSON ({error})", code="invalid_json") from None
        if not isinstance(entry, dict):
            raise DataError(f"{where}: {type(entry).__name__} instead of an object", code="wrong_type")
        for field in self.fields:
            if field not in entry:
                keys = ", ".join(map(repr, list(entry)[:8])) or "none"
                raise DataError(
                    f"{where}: no field {field!r}; the fields are {keys}; choose one with --field", code="missing_key"
                )
            if not isinstance(entry[field], str):
                raise DataError(
                    f"{where}: {field!r} is {render_value(entry[field], 40)}, not a text", code="wrong_type"
                )
        return tuple(entry[field] for field in self.fields)

    def part(self, block: RowBlock, found: Sequence[Values], columns: Columns) -> bytes:
        """Each line with its values added at the end."""
        return self.packed([self._with_values(*each) for each in zip(self.lines(block), found, strict=True)])

    def _with_values(self, line: str, values: Values) -> str:
        if not line.strip():
            return line
        entry = json.loads(line)
        for name in values:
            check_new_field(self.name, name, entry)
        added = json.dumps(dict(values), ensure_ascii=False)[1:]
        return f"{line.rstrip()[:-1].rstrip()}{', ' if entry else ''}{added}"


@dataclass(frozen=True)
class ParquetRows:
    """Rows of a Parquet file; values are added as columns."""

    name: str
    fields: tuple[str, ...]

    def blocks(self, raw: IO[bytes], size: int) -> Iterator[RowBlock]:
        """Record batches, as Arrow streams."""
        pyarrow, parquet = import_parquet()
        end, done = raw.seek(0, 2), 0
        try:
            file = parquet.ParquetFile(raw)
            self._check(file.schema_arrow)
            rows = file.metadata.num_rows
            for batch in file.iter_batches(size):
                done += batch.num_rows
                table = pyarrow.Table.from_batches([batch])
                yield RowBlock(table_bytes(pyarrow, table), batch.num_rows, end * done // rows)
            if not rows:  # one part all the same, which has the columns
                yield RowBlock(table_bytes(pyarrow, file.schema_arrow.empty_table()), 0, end)
        except pyarrow.ArrowException as error:
            raise DataError(f"{self.name} cannot be read as Parquet: {error}", code="file_damaged") from None

    def _check(self, schema: Any) -> None:
        for field in self.fields:
            if field not in schema.names:
                raise DataError(
                    f"{self.name}: no column {field!r}; the columns are {', '.join(schema.names[:8])}; choose one with "
                    "--field",
                    code="missing_key",
                )

    def _table(self, block: RowBlock) -> Any:
        return import_parquet()[0].ipc.open_stream(block.payload).read_all()

    def texts(self, block: RowBlock, first: int) -> Texts:
        """The columns of each row; a missing value is an empty text."""
        table = self._table(block)
        columns = [table.column(field).to_pylist() for field in self.fields]
        for column in columns:
            wrong = next((value for value in column if not isinstance(value, str | None)), None)
            if wrong is not None:
                raise DataError(f"{self.name}: {render_value(wrong, 40)} is not a text", code="wrong_type")
        return [tuple(text or "" for text in row) for row in zip(*columns, strict=True)]

    def part(self, block: RowBlock, found: Sequence[Values], columns: Columns) -> bytes:
        """The rows with the values as columns, as an Arrow stream."""
        pyarrow, _ = import_parquet()
        table = self._table(block)
        links = pyarrow.list_(pyarrow.list_(pyarrow.int32()))
        types = {str: pyarrow.string(), float: pyarrow.float64(), list: links}
        for name, kind in columns.items():
            check_new_field(self.name, name, table.column_names)
            table = table.append_column(name, pyarrow.array([values[name] for values in found], types[kind]))
        return table_bytes(pyarrow, table)

    def join(self, parts: Iterator[IO[bytes]], into: IO[bytes]) -> None:
        """One Parquet file, with a row group for each part."""
        pyarrow, parquet = import_parquet()
        writer = None
        for part in parts:
            table = pyarrow.ipc.open_stream(part).read_all()
            if writer is None:
                writer = parquet.ParquetWriter(into, table.schema, compression="zstd")
            writer.write_table(table.cast(writer.schema))
        if writer is not None:
            writer.close()


def row_format(name: str, fields: tuple[str, ...]) -> RowFormat:
    """The format of a file, by its suffix; without one that is known, it is text, or TSV for two fields."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS.values():
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".parquet":
        return ParquetRows(name, fields)
    if suffix in JSON_SUFFIXES:
        return JsonLines(name, fields)
    return TsvLines(name, fields) if len(fields) > 1 else TextLines(name, fields)


def check_new_field(file: str, name: str, names: Any) -> None:
    """Raise if a row has a field already that would be added."""
    if name in names:
        raise DataError(
            f"{file} has a field {name!r} already; choose another name with --output-field", code="duplicate_key"
        )


def format_columns(values: Values) -> str:
    """The values of a row as columns, like those of `dragoman translate`."""
    if len(values) == 1:
        return format_value(*values.values())
    return "\t".join(format_value(value).replace("\t", " ") for value in values.values())


def format_value(value: Any) -> str:
    """A text on one line, a score, or an alignment such as 0-0 1-2."""
    if isinstance(value, str):
        return value.translate(LINE_ENDS) if "\n" in value or "\r" in value else value
    return f"{value:.4f}" if isinstance(value, float) else " ".join(f"{s}-{t}" for s, t in value or ())


def table_bytes(pyarrow: Any, table: Any) -> bytes:
    """A table as an Arrow stream."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def import_parquet() -> tuple[Any, Any]:
    """pyarrow and its Parquet module."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "reading Parquet files") from None
    return pyarrow, pyarrow.parquet
