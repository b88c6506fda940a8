"""Documents through the API: files come back translated, with reports, within the limits of the server."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_translator import FakeTranslator, client_of, fake_model, fake_service
from starlette.testclient import TestClient

from dragoman.documents.detect import read_document
from dragoman.documents.files import translate_bytes
from dragoman.documents.segment import ReadOptions, Segment
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from dragoman.search.constraints.terms import Terms
from dragoman.serve.api.documents import progress_lines
from dragoman.serve.documents import (
    DocumentWork,
    cut_text,
    file_name,
    read_sent_document,
    source_vocabulary,
    translated_name,
)
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Service, with_terms
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator
from serving import WHOLE_LINES
from word_by_word import Aligned, WordByWord, backward

OFFICE = Path(__file__).parents[3] / "fixtures" / "documents" / "office"
PAGE = "<h1>one two</h1>\n<p>one <b>two</b> three</p>"
TAGS = "<b/>" * 250_001
BACKWARD = "<h1>TWO ONE</h1>\n<p>THREE <b>TWO</b> ONE</p>"


def aligned_service(translator: Aligned | None = None, **limits: Any) -> Service:
    model = ServedModel("en-de", translator or Aligned(), WHOLE_LINES, "a fake", ("en", "de"))
    return Service({"en-de": model}, Limits(**limits))


@pytest.fixture(scope="module")
def documents() -> Iterator[TestClient]:
    yield from client_of(aligned_service(max_characters=5_000))


def test_a_file_comes_back_as_a_file(documents: TestClient) -> None:
    answer = documents.post("/v1/documents", params={"name": "pagé.html"}, content=PAGE.encode())
    assert (answer.status_code, answer.text) == (200, BACKWARD)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''pag%C3%A9.de.html"
    assert json.loads(answer.headers["dragoman-report"]) == {"segments": 2, "translated": 2, "review": 0}


@pytest.mark.parametrize(
    ("params", "header"),
    [({"format": "markdown"}, ""), ({}, 'attachment; filename="a.md"'), ({}, "inline; filename*=UTF-8''%C3%A4.md")],
)
def test_the_format_is_given_or_follows_from_the_name(
    documents: TestClient, params: dict[str, str], header: str
) -> None:
    headers = {"Content-Disposition": header, "Content-Type": "application/json"}
    answer = documents.post("/v1/documents", params=params, content=b"# a *b*\n", headers=headers)
    assert answer.content == b"# *B* A\n"


def test_reports_as_json(documents: TestClient) -> None:
    answer = documents.post("/v1/documents?report=json&name=a.html", content=PAGE.encode()).json()
    assert b64decode(answer["document"]).decode() == BACKWARD
    assert (answer["name"], answer["model"]) == ("a.de.html", "en-de")
    assert answer["report"] == {"segments": 2, "translated": 2, "from_memory": 0, "review": []}
    assert "segments" not in answer
    answer = documents.post("/v1/documents?report=review&name=a.html", content=PAGE.encode()).json()
    first, _ = answer["segments"]
    assert (first["source"], first["target"], first["review"], first["notes"]) == ("one two", "TWO ONE", False, [])
    assert first["words"] == [[[0, 3], [4, 7]], [[0, 3], [4, 7]], [[0, 1], [1, 0]]]


def test_files_with_two_languages_know_the_target(documents: TestClient) -> None:
    catalog = b'msgid ""\nmsgstr ""\n\nmsgid "one two"\nmsgstr ""\n\nmsgid "three"\nmsgstr "drei"\n'
    answer = documents.post("/v1/documents?name=a.po", content=catalog)
    document = read_document(catalog, "a.po", None, ReadOptions("en", "de"))
    report = translate_segments(document.segments, WordByWord(order=backward))
    assert answer.content == document.write([result.target for result in report.results])
    assert 'msgstr "TWO ONE"' in answer.text and 'msgstr "drei"' in answer.text
    assert 'msgstr "THREE"' in documents.post("/v1/documents?name=a.po&retranslate=true", content=catalog).text


def test_progress_is_sent_in_lines() -> None:
    fake = FakeTranslator()
    fake.go.clear()
    for client in client_of(fake_service(translator=fake)):
        with client.stream("POST", "/v1/documents?progress=true&name=a.txt", content=b"a\nb\n") as answer:
            assert answer.headers["content-type"] == "application/x-ndjson"
            lines = answer.iter_lines()
            assert json.loads(next(lines)) == {"progress": {"sentences": 0, "total": 2}}
            fake.go.set()
            *_, last = map(json.loads, lines)
        assert b64decode(last["document"]) == b"A\nB\n"


def test_work_ends_when_the_lines_are_no_longer_read() -> None:
    async def leave() -> None:
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        work = DocumentWork.plan(fake_service(), [Segment("a")], BatchSettings(fake_model()))
        lines = progress_lines(work, reply)
        assert json.loads(await anext(lines)) == {"progress": {"sentences": 0, "total": 1}}
        await lines.aclose()  # type: ignore[attr-defined]
        assert reply.cancelled()
        assert work.service.metrics.value("dragoman_dropped_total", reason="gone") == 1

    asyncio.run(leave())


def test_an_error_while_translating_is_the_last_line() -> None:
    for client in client_of(fake_service()):
        answer = client.post("/v1/documents?progress=true&name=a.txt", content=b"crash")
        assert answer.status_code == 200
        assert json.loads(answer.text.splitlines()[-1])["error"]["code"] == "internal_error"
        assert "secret" not in answer.text


def test_lost_placeholders_are_tried_again_with_required_words() -> None:
    translator = Aligned(lost=["X1", "4831"])
    for client in client_of(aligned_service(translator)):
        answer = client.post("/v1/documents?report=json&name=a.txt", content=b"one {x}\n").json()
        assert b64decode(answer["document"]) == b"{x} ONE\n"
        assert [bool(call.get("terms")) for call in translator.calls] == [False, False, True]


def test_a_segment_that_needs_a_look_is_reported() -> None:
    class Silent(Aligned):
        def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
            return (Translation("", source_tokens=("▁a",)) for _ in texts)

    for client in client_of(aligned_service(Silent())):
        answer = client.post("/v1/documents?report=json&name=a.txt", content=b"one\n").json()
        assert b64decode(answer["document"]) == b"one\n"
        (segment,) = answer["report"]["review"]
        assert (segment["key"], segment["problem"], segment["target"]) == ("line 1", "empty", None)


def test_a_model_without_attention_does_not_align() -> None:
    translator = Aligned()
    model = ServedModel("m", translator, WHOLE_LINES, "a fake", has_attention=False)
    for client in client_of(Service({"m": model}, Limits())):
        answer = client.post("/v1/documents?report=review&name=a.html", content=b"<p>a <b>b</b></p>")
        assert answer.status_code == 200
        assert not any(call["alignment"] for call in translator.calls)


@pytest.mark.parametrize("name", ["page.html", "inline.docx", "strings.json"])
def test_a_real_model_translates_as_the_command_does(real: TestClient, directory: Path, name: str) -> None:
    data = {
        "page.html": "<p>☐ the <b>old</b> box, {name} ☃ ♪</p>".encode(),
        "strings.json": b'{"a": "the old box", "b": "seven %d boxes"}',
        "inline.docx": (OFFICE / "inline.docx").read_bytes(),
    }[name]
    answer = real.post("/v1/documents", params={"name": name}, content=data)
    assert answer.status_code == 200, answer.text
    translator = Translator.load(directory, device="cpu", threads=1)
    _, report = translate_bytes(translator, data, name, beam=4)
    document = read_document(data, name, options=ReadOptions("en", "de"))  # the server's model has a name that says so
    assert answer.content == document.write([one.target for one in report.results])
    assert json.loads(answer.headers["dragoman-report"])["translated"] == report.translated
    assert name != "page.html" or all(answer.content.count(one.encode()) == 1 for one in "☐☃♪")


def test_what_the_model_cannot_read_is_kept_unless_it_is_a_term(directory: Path) -> None:
    segmenter = Translator.load(directory, device="cpu", threads=1).segmenter
    settings = BatchSettings(ServedModel("m", Aligned(), segmenter))
    assert source_vocabulary(settings).unknown("the ☐ ☃ ♪") == {"☐", "☃", "♪"}
    assert source_vocabulary(with_terms(settings, {"☃": "Schnee"})).unknown("the ☐ ☃ ♪") == {"☐", "♪"}
    served = BatchSettings(ServedModel("m", Aligned(), segmenter, terms=Terms({"♪": "Lied", "☃☃": "Schnee"})))
    # a term that is not in the text changes nothing
    assert source_vocabulary(served).unknown("the ☐ ☃ ♪") == {"☐", "☃"}


def bomb(content: bytes, part: str = "word/document.xml") -> bytes:
    """A small archive that is large when it is unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>", zipfile.ZIP_STORED)
        archive.writestr(part, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("params", "content", "status", "code"),
    [
        ({"name": "a.pdf"}, b"%PDF-1.7", 422, "unsupported_format"),
        ({"name": "a.bin"}, b"\0\1", 422, "unsupported_format"),
        ({"format": "htm"}, b"a", 422, "unsupported_format"),
        ({"name": "a.json"}, b"{", 422, "invalid_json"),
        ({"name": "a.docx"}, b"PK\x03\x04", 422, "damaged_document"),
        ({"name": "a.txt"}, b"\xff", 422, "unsupported_encoding"),
        ({"name": "a.txt", "nmae": "b"}, b"a", 422, "unknown_field"),
        ({"name": "a.txt", "beam": "0"}, b"a", 422, "out_of_range"),
        ({"name": "a.txt", "beam": "17"}, b"a", 422, "over_limit"),
        ({"name": "a.txt", "report": "xml"}, b"a", 422, "wrong_type"),
        ({"name": "a.txt", "model": "x"}, b"a", 404, "model_not_found"),
        ({"name": "a.txt", "to": "x"}, b"a", 422, "unknown_language"),
        ({"name": "a.txt"}, b"a" * 5_001, 413, "too_large"),
        ({"name": "a.txt"}, b"a" * 200_000, 413, "too_large"),
        ({"name": "a.docx"}, bomb(bytes(2_000_000)), 413, "too_large"),
    ],
)
def test_errors(documents: TestClient, params: dict[str, str], content: bytes, status: int, code: str) -> None:
    for more in ({}, {"progress": "true"}):
        answer = documents.post("/v1/documents", params=params | more, content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


@pytest.mark.parametrize(("name", "unit"), [("a.html", b"<b>a</b>"), ("a.txt", b"a\n"), ("a.json", b'"",')])
def test_documents_that_take_long_to_read_are_rejected(name: str, unit: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        read_sent_document(unit * 100_001, name, None, ReadOptions(), Limits())
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("word/document.xml", TAGS.encode()),
        ("word/document.dat", b" text " + TAGS.encode()),
        ("word/document", TAGS.encode("utf-16")),
    ],
    ids=["xml", "another name", "utf-16"],
)
def test_archives_with_too_many_tags_are_rejected_whatever_their_parts_are_called(part: str, content: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        read_sent_document(bomb(content, part), "a.docx", None, ReadOptions(), Limits())
    assert caught.value.code == "too_large"


def test_tags_are_counted_after_a_damaged_part() -> None:
    data = bomb(TAGS.encode()).replace(b"<Types/>", b"<Tipes/>")  # which no longer has its checksum
    with pytest.raises(RequestError) as caught:
        read_sent_document(data, "a.docx", None, ReadOptions(), Limits())
    assert caught.value.code == "too_large"


def test_bytes_of_pictures_are_not_tags() -> None:
    picture = b"\x89PNG" + b"<" * 250_001
    with pytest.raises(DocumentError, match="main part"):
        read_sent_document(bomb(picture, "word/picture.png"), "a.docx", None, ReadOptions(), Limits())


def test_costs_are_estimated_before_anything_is_translated() -> None:
    translator = Aligned()
    for client in client_of(aligned_service(translator, max_work=100)):
        answer = client.post("/v1/documents?name=a.html", content=f"<p>{'many <b>words</b> ' * 20}</p>".encode())
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "over_budget")
    assert not translator.calls


@pytest.mark.parametrize("params", [{}, {"progress": "true"}])
def test_the_deadline(params: dict[str, str]) -> None:
    fake = FakeTranslator()
    fake.go.clear()
    for client in client_of(fake_service(translator=fake, timeout=0.2)):
        answer = client.post("/v1/documents", params={"name": "a.txt"} | params, content=b"a")
        found = json.loads(answer.text.splitlines()[-1])
        assert found["error"]["code"] == "deadline_exceeded"
        assert answer.status_code == (200 if params else 504)
        fake.go.set()


@pytest.mark.parametrize("field", ["file", "document"])
def test_a_form_with_a_file(documents: TestClient, field: str) -> None:
    file = {field: ("ä.html", PAGE.encode())}
    answer = documents.post("/v1/documents", files=file)
    plain = documents.post("/v1/documents", params={"name": "ä.html"}, content=PAGE.encode())
    assert answer.status_code == 200
    assert (answer.content, answer.headers["content-disposition"]) == (
        plain.content,
        plain.headers["content-disposition"],
    )
    named = documents.post("/v1/documents?report=json&name=b.txt", files=file).json()
    assert named["name"].startswith("b.")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"files": [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]}, "invalid_form"),
        ({"files": {"file": ("a.txt", b"a")}, "data": {"to": "de"}}, "invalid_form"),
        ({"files": {"name": (None, "a")}}, "invalid_form"),
        ({"content": b"a", "headers": {"Content-Type": "multipart/form-data"}}, "invalid_form"),
        ({"content": b"a", "headers": {"Content-Type": "Multipart/Form-Data; boundary=x"}}, "invalid_form"),
    ],
    ids=["two files", "another field", "no file", "no boundary", "not a form"],
)
def test_other_forms_are_rejected(documents: TestClient, sent: dict[str, Any], code: str) -> None:
    answer = documents.post("/v1/documents?name=a.txt", **sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_the_description_is_true(documents: TestClient) -> None:
    operation = documents.get("/openapi.json").json()["paths"]["/v1/documents"]["post"]
    assert {one["name"] for one in operation["parameters"]} == {
        *("name", "format", "model", "to", "detect", "beam", "terms", "retranslate", "report", "progress")
    }
    assert set(operation["requestBody"]["content"]) == {"application/octet-stream", "multipart/form-data"}
    reply = operation["responses"]["200"]
    assert set(reply["content"]) == {"application/octet-stream", "application/json", "application/x-ndjson"}
    assert reply["content"]["application/json"]["schema"]["$ref"].endswith("/DocumentResponse")


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("a.html", "a.html"),
        ("../../etc/passwd", "passwd"),
        ("C:\\files\\ü.docx", "ü.docx"),
        ("a\r\nb\x00.txt", "ab.txt"),
        ("..", "document"),
        ("", "document"),
        ("\ud800.txt", "txt"),
    ],
)
def test_names_of_files(sent: str, name: str) -> None:
    assert file_name(sent) == name


def test_names_of_translated_files() -> None:
    model = ServedModel("m", Aligned(), WHOLE_LINES, languages=("en", "de"))
    several = ServedModel("m", Aligned(), WHOLE_LINES, targets=("fr", "de"))
    assert translated_name("a.b.html", BatchSettings(model)) == "a.b.de.html"
    assert translated_name("a", BatchSettings(several, to="fr")) == "a.fr"
    assert len(file_name("x" * 500 + ".html")) == 150


@pytest.mark.parametrize("text", ["ab cd " * 20, "字" * 9 + "X1" + "字" * 30, "字" * 8 + "X1" + "字" * 30, "x" * 35])
def test_long_text_is_cut_between_words_and_never_in_a_mask(text: str) -> None:
    parts = list(cut_text(text, 10))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part) <= 10 for part in parts)
    assert " ".join(parts).count("X1") == text.count("X1")
