"""Large files are read and written in chunks: the same bytes as at once, with memory that does not grow."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.documents import chunks, files
from dragoman.documents.detect import detect_file, read_document
from dragoman.documents.formats.localization import xml_chunks
from dragoman.documents.reports import report as reports
from dragoman.documents.reports.report import Report, ReportBuilder
from dragoman.documents.segment import Document, ReadOptions
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from dragoman.progress import Reporter
from raising import raises
from small_model import model_at
from word_by_word import WordByWord, backward

FIXTURES = Path(__file__).parents[2] / "fixtures" / "localization"
OPTIONS = ReadOptions("en", "de")
TMX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!-- <tu></tu> --><tmx version="1.4"><header srclang="en"/>\n<body>\n'
    "{}</body>\n</tmx>\n<!-- the end -->\n"
)
UNITS = (
    '<tu tuid="a"><tuv xml:lang="en"><seg>One <bpt i="1">b</bpt>two<ept i="1">/b</ept>.</seg></tuv></tu>\n',
    "<!-- <tu> </tu> and </tu> -->\n",
    '<tu>\n <tuv xml:lang="EN-gb"><seg>Three &amp; <![CDATA[</tu> four]]> 你好 𝄞.</seg></tuv>\n</tu>',
    '<tu><tuv xml:lang="en"><seg>done</seg></tuv><tuv xml:lang="de-AT"><seg>fertig</seg></tuv></tu><tu/>\n',
    "<tu><tuv xml:lang='en'><seg/></tuv></tu><tu><tuv xml:lang='en'><seg>last one</seg></tuv></tu>",
)
LINES = '{"id": 1, "text": "One {name} two."}\n\n["three \\u00fc", {"@x": "no", "b": ["f o u r", "ü ö"]}]\r\n"five"\n'
TEXTS = {
    "units.tmx": TMX.format("".join(UNITS) * 3).encode(),
    "marked.tmx": b"\xef\xbb\xbf" + TMX.format("".join(UNITS)).encode(),
    "wide.tmx": b"\xff\xfe" + TMX.replace("UTF-8", "UTF-16").format("".join(UNITS)).encode("utf-16-le"),
    "empty.tmx": TMX.format("").encode(),
    "lines.jsonl": LINES.encode() * 4,
    "marked.ndjson": b"\xef\xbb\xbf" + LINES.encode() + b"[1, 2]",
    "text.txt": "One two.\n  three 你好 𝄞\r\n\n\nfour".encode(),
    **{path.name: path.read_bytes() for path in FIXTURES.glob("*.tmx")},
}


@pytest.fixture(params=[1, 61, 1000])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (chunks, xml_chunks):
        monkeypatch.setattr(module, "CHUNK_BYTES", request.param)
    return int(request.param)


def chunks_of(path: Path, options: ReadOptions = OPTIONS) -> Iterator[Document] | None:
    found = detect_file(path)
    assert found is not None
    return found.read_chunks(path, options)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("retranslate", [False, True])
def test_chunks_give_the_same_bytes_as_the_whole(
    name: str, retranslate: bool, chunk_bytes: int, tmp_path: Path
) -> None:
    path, options = tmp_path / name, ReadOptions("en", "de", retranslate)
    path.write_bytes(TEXTS[name])
    whole = read_document(TEXTS[name], str(path), options=options)
    expected = translate_segments(whole.segments, WordByWord(order=backward)).results
    found, built = chunks_of(path, options), ReportBuilder()
    assert found is not None
    written = files.translate_chunks(found, WordByWord(order=backward), built, Reporter(), name)
    assert b"".join(written) == whole.write([result.target for result in expected])
    assert built.build().counts == Report(expected).counts
    again = [segment for chunk in chunks_of(path, options) or () for segment in chunk.segments]
    assert again == list(whole.segments)


def test_other_encodings_are_read_at_once(tmp_path: Path) -> None:
    for name, data in {
        "latin.tmx": TMX.replace("UTF-8", "ISO-8859-1").format("<tu>ä</tu>").encode("latin-1"),
        "wide.txt": "one".encode("utf-16"),
        "wide.jsonl": '"one"'.encode("utf-16"),
    }.items():
        (tmp_path / name).write_bytes(data)
        assert chunks_of(tmp_path / name) is None
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHi\n")
    assert chunks_of(tmp_path / "a.srt") is None


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("a.tmx", TMX.format("<tu>").encode(), "damaged_document", ()),
        ("a.tmx", b"<tmx><body></body></tmx>", "damaged_document", ("header",)),
        ("a.tmx", b"<xmt><header/><body/></xmt>", "damaged_document", ("xmt",)),
        ("a.tmx", b'<!DOCTYPE tmx [<!ENTITY a "b">]>' + TMX[38:].format("").encode(), "unsafe_document", ()),
        ("a.tmx", b"<tmx>" * 300, "damaged_document", ("256",)),
        ("a.tmx", TMX.format("<tu>\xe4</tu>").encode("latin-1"), "damaged_document", ()),
        ("a.jsonl", b'{"a": "b c"}\n\n{"a": }\n', "invalid_json", ("line 3",)),
        ("a.txt", b"one two\nthree \xff\n", "unsupported_encoding", ("byte 14",)),
    ],
)
def test_damaged_files_are_rejected(
    name: str, data: bytes, code: str, words: tuple[str, ...], chunk_bytes: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with raises(DocumentError, code, name, *words):
        for _ in chunks_of(tmp_path / name) or ():
            pass


def test_a_large_file_is_translated_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_at(tmp_path / "model")
    source = tmp_path / "lines.jsonl"
    source.write_text("".join(f'{{"n": {n}, "text": "one two %s {n}"}}\n' for n in range(20)))
    whole = dragoman.translate_document(model, source, tmp_path / "whole.jsonl", beam=1)
    monkeypatch.setattr(files, "LARGE_BYTES", 1)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 100)
    monkeypatch.setattr(reports, "MAX_RESULTS", 3)
    found = dragoman.translate_document(model, source, tmp_path / "large.jsonl", beam=1)
    assert (tmp_path / "large.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert found.summary() == whole.summary()
    assert all(one.needs_review for one in found.results) and len(found.results) <= 3
    expected = whole.to_json()
    assert found.to_json() == expected | {"review": expected["review"][:3]}
    reviewed = dragoman.translate_document(model, source, tmp_path / "x.jsonl", review=tmp_path / "r.html", beam=1)
    assert len(reviewed.results) == 20  # a review page needs them all


def write_units(path: Path, n: int) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>some words of unit {}</seg></tuv></tu>\n'
    path.write_text(TMX.format("".join(unit.format(i) for i in range(n))))


def write_objects(path: Path, n: int) -> None:
    path.write_text("".join(json.dumps({"text": f"some words of line {i}"}) + "\n" for i in range(n)))


@pytest.mark.parametrize(("name", "write"), [("a.tmx", write_units), ("a.jsonl", write_objects)])
def test_memory_does_not_grow_with_the_file(
    name: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (chunks, xml_chunks):
        monkeypatch.setattr(module, "CHUNK_BYTES", 4096)

    def peak(n: int) -> int:
        write(tmp_path / name, n)
        translator = WordByWord()
        monkeypatch.setattr(translator, "calls", _Forgetful())
        tracemalloc.start()
        try:
            for _ in files.translate_chunks(
                chunks_of(tmp_path / name) or (), translator, ReportBuilder(), Reporter(), name
            ):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(200)  # caches and imports
    assert min(peak(2000), peak(2000)) < 2 * peak(400)  # other threads of the process are counted too


class _Forgetful(list[Any]):
    """Calls of a translator that nobody looks at."""

    def append(self, _: Any) -> None:
        pass
