"""Row formats: every row in and out, in blocks of any size, compressed or not."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from dragoman.cluster.rows import RowFormat, Values, row_format
from dragoman.errors import DataError
from raising import raises


def open_frames(data: bytes) -> Any:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)


COMPRESSIONS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "": (bytes, bytes),
    ".gz": (gzip.compress, gzip.decompress),
    ".xz": (lzma.compress, lzma.decompress),
    ".zst": (zstandard.compress, lambda data: open_frames(data).read()),
}
SHOUT = {"translation": str}


def through(form: RowFormat, data: bytes, size: int, columns: dict[str, Any] = SHOUT) -> bytes:
    """The output for a file: the texts of each row in capitals."""
    into, parts, first = io.BytesIO(), [], 0
    for block in form.blocks(io.BytesIO(data), size):
        assert block.rows <= size
        found: list[Values] = [dict.fromkeys(columns, " ".join(row).upper()) for row in form.texts(block, first)]
        assert len(found) == block.rows
        parts.append(form.part(block, found, columns))
        first += block.rows
    form.join(map(io.BytesIO, parts), into)
    return into.getvalue()


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_each_line_of_text_gives_a_line(suffix: str, size: int) -> None:
    text = "one\n\ntwo\u2028half\r\n  three\x0b\nfour\nfive"
    pack, unpack = COMPRESSIONS[suffix]
    found = unpack(through(row_format(f"a.txt{suffix}", ("text",)), pack(text.encode()), size))
    assert found.decode() == "ONE\n\nTWO\u2028HALF\n  THREE\x0b\nFOUR\nFIVE\n"


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_json_lines_keep_their_bytes_and_get_a_field(suffix: str) -> None:
    lines = ['{"text": "ä", "n": 1.50}', "", '{ "n" : 1e3 , "text":"b\\nc" } ', '{"text": "\\u00fc", "x": {"text": 1}}']
    pack, unpack = COMPRESSIONS[suffix]
    found = unpack(through(row_format(f"a.jsonl{suffix}", ("text",)), pack("\n".join(lines).encode()), 2)).decode()
    assert found.endswith("\n")
    for line, out in zip(lines, found.split("\n")[:-1], strict=True):
        if not line:
            assert out == ""
            continue
        assert out.startswith(line.rstrip()[:-1].rstrip())
        entry = json.loads(line)
        assert json.loads(out) == {**entry, "translation": entry["text"].upper()}


def test_an_object_without_other_fields_stays_valid() -> None:
    found = through(row_format("a.ndjson", ()), b"{}\n", 5)
    assert json.loads(found) == {"translation": ""}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"other": "x"}', "missing_key"),
        ('{"text": 3}', "wrong_type"),
        ("[1]", "wrong_type"),
        ('{"text": ', "invalid_json"),
        ('{"text": "x", "translation": "y"}', "duplicate_key"),
    ],
)
def test_json_lines_that_do_not_fit_are_named_by_their_number(line: str, code: str) -> None:
    good = '{"text": "x"}\n'
    with raises(DataError, code, "a.jsonl"):
        through(row_format("a.jsonl", ("text",)), f"{good * 4}{line}\n".encode(), 3)


def test_a_line_of_tsv_has_two_sides_or_chosen_columns() -> None:
    plain = through(row_format("a.tsv", ("source", "target")), b"a\tb\n\nc\td\n", 2)
    assert plain == b"A B\n \nC D\n"
    chosen = through(row_format("a.tsv.gz", ("3", "1")), gzip.compress(b"a\tb\tc\n"), 2)
    assert gzip.decompress(chosen) == b"C A\n"
    with raises(DataError, "wrong_columns", "line 3"):
        through(row_format("a.tsv", ("source", "target")), b"a\tb\nc\td\ne\n", 2)


def test_columns_of_text_are_like_those_of_translate() -> None:
    form = row_format("a.en", ("text",))
    (block,) = form.blocks(io.BytesIO(b"x\n"), 5)
    columns = {"translation": str, "score": float, "alignment": list}
    found = [{"translation": "a\tb\nc", "score": -0.25, "alignment": [[0, 0], [1, 2]]}]
    assert form.part(block, found, columns) == b"a b c\t-0.2500\t0-0 1-2\n"


def test_long_rows_make_small_blocks() -> None:
    lines = [b"x" * (1 << 20)] * 11
    blocks = [*row_format("a", ("text",)).blocks(io.BytesIO(b"\n".join(lines)), 100)]
    assert [block.rows for block in blocks] == [5, 5, 1]


def test_text_that_is_not_utf_8_is_an_error_after_the_blocks_before_it() -> None:
    blocks = row_format("a", ("text",)).blocks(io.BytesIO(b"one\ntwo\n\xff\n"), 2)
    assert next(blocks).payload == b"one\ntwo"
    with raises(DataError, "not_utf8", "line 3"):
        next(blocks)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_parquet_keeps_its_columns_and_gets_others(rows: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [None if i == 2 else f"text {i}" for i in range(rows)]
    table = pyarrow.table({"id": pyarrow.array(range(rows), "int16"), "text": pyarrow.array(texts, "string")})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    columns = {"translation": str, "alignment": list}
    form, into, parts = row_format("a.parquet", ("text",)), io.BytesIO(), []
    for block in form.blocks(io.BytesIO(sink.getvalue()), 3):
        found = [{"translation": text.upper(), "alignment": [[0, 1]]} for (text,) in form.texts(block, 0)]
        parts.append(form.part(block, found, columns))
    form.join(map(io.BytesIO, parts), into)
    result = parquet.read_table(io.BytesIO(into.getvalue()))
    assert result.select(["id", "text"]).equals(table)
    assert result.column("translation").to_pylist() == [(text or "").upper() for text in texts]
    assert result.column("alignment").to_pylist() == [[[0, 1]]] * rows
    with raises(DataError, "missing_key", "texts"):
        list(row_format("a.parquet", ("texts",)).blocks(io.BytesIO(sink.getvalue()), 3))
    with raises(DataError, "file_damaged", "a.parquet"):
        list(form.blocks(io.BytesIO(b"PAR1" + b"x" * 20), 3))
