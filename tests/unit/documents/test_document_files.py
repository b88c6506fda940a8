from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

import dragoman
from dragoman.documents import translate as translate_module
from dragoman.documents.detect import detect, detect_file, read_document
from dragoman.documents.folders import RECORD, find_documents, translate_documents
from dragoman.documents.formats.office.xml.events import CHUNK
from dragoman.documents.reports.report import Report
from dragoman.errors import DocumentError, DragomanError, OutputError
from dragoman.search.types import StopFlag
from dragoman.translation.translator import Translator
from raising import raises
from small_model import model_at

PAGE = "<h1>one <b>two</b> three</h1><p>four {five} six <i>seven</i>.</p>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_at(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.html", b"<p>Hi", "html"),
        ("a", b"\xef\xbb\xbf <!-- x --> <!DOCTYPE html>", "html"),
        ("a.dat", b"<?xml version='1.0'?><html xmlns='x'>", "html"),
        ("a.txt", b"<html>", "text"),
        ("a.en", b"Hello", None),
    ],
)
def test_formats_are_found_by_content_and_suffix(name: str, data: bytes, found: str | None) -> None:
    format_found = detect(data, name)
    assert (format_found and format_found.name) == found


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"%PDF-1.7", "pdftotext"),
        (OLE, "save"),
        (b"{\\rtf1", "save"),
        (b"\x89PNG\r\n\x1a\n\0", "neither a text nor a document"),
        (b"\xff\xd8\xff\xe0", "neither a text nor a document"),
    ],
)
def test_unsupported_documents_are_rejected_with_advice(data: bytes, advice: str) -> None:
    with raises(DocumentError, "unsupported_format", "a.txt", advice):
        detect(data, "a.txt")


def test_an_encrypted_office_document_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(OLE + bytes(20_000) + "EncryptedPackage".encode("utf-16-le"))
    with raises(DocumentError, "encrypted_document", "a.docx", "password"):
        detect_file(path)


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"])
def test_an_empty_office_document_is_said_to_be_empty(name: str) -> None:
    with raises(DocumentError, "file_empty", name):
        read_document(b"", name)


def test_translate_document(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE, "utf-8")
    report = dragoman.translate_document(model, page, tmp_path / "out.html", beam=1)
    written = (tmp_path / "out.html").read_text("utf-8")
    assert len(report.results) == 2
    assert written.count("{five}") == 1 and written.startswith("<h1>") and written.endswith("</p>")
    assert sorted(written.count(tag) for tag in ("<b>", "</b>", "<i>", "</i>")) == [1, 1, 1, 1]
    assert page.read_text("utf-8") == PAGE


@pytest.mark.parametrize("kind", ["without attention", "ensemble"])
def test_models_without_alignments_keep_markup(model: Path, tmp_path: Path, kind: str) -> None:
    if kind == "ensemble":
        translator = Translator.load(model, ensemble=[model_at(tmp_path / "other", seed=2)])
    else:
        changes = {"architecture": "recurrent", "attention": "none", "decoder_layers": 1}
        translator = Translator.load(model_at(tmp_path / "lstm", **changes))
    page = tmp_path / "page.html"
    page.write_text(PAGE, "utf-8")
    out = tmp_path / "out"
    ((_, report),) = translate_documents(translator, find_documents([page], out)[0], out, beam=1)
    assert isinstance(report, Report), report
    written = (out / "page.html").read_text("utf-8")
    assert sorted(written.count(tag) for tag in ("{five}", "<b>", "</b>", "<i>", "</i>")) == [1, 1, 1, 1, 1]


def test_the_source_is_never_written(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE, "utf-8")
    (tmp_path / "link.html").symlink_to(page)
    for output in (page, tmp_path / "link.html"):
        with raises(OutputError, "output_is_input"):
            dragoman.translate_document(model, page, output)
    with raises(DocumentError, "file_missing"):
        dragoman.translate_document(model, tmp_path / "no.html", tmp_path / "out.html")
    with raises(DocumentError, "unsupported_format", "text"):
        dragoman.translate_document(model, __file__, tmp_path / "out")
    assert page.read_text("utf-8") == PAGE


def test_a_document_that_is_damaged_at_its_end_leaves_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate_module, "BLOCK_CHARACTERS", 1)
    paragraphs = "<w:p><w:r><w:t>one two</w:t></w:r></w:p>" * (3 * CHUNK // 40)
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        override = f'<Override PartName="/word/document.xml" ContentType="{kind}"/>'
        types = f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{override}</Types>'
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{namespace}"><w:body>{paragraphs}</w:p>')
    stop = StopFlag()  # of several documents
    with raises(DocumentError, "damaged_document", "word/document.xml"):
        dragoman.translate_document(model, tmp_path / "a.docx", tmp_path / "b.docx", beam=1, stop=stop)
    assert not stop.is_set() and not (tmp_path / "b.docx").exists()


def translate_all(model: Path, sources: list[Path], output: Path, **options: Any) -> dict[str, str]:
    documents, _ = find_documents(sources, output)
    results = translate_documents(Translator.load(model), documents, output, beam=1, **options)
    return {
        document.name: "before" if result is None else "error" if isinstance(result, DragomanError) else "done"
        for document, result in results
    }


def test_a_folder_is_resumed(model: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "site", tmp_path / "site" / "out"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("a.html", "sub/b.html", ".hidden/c.html"):
        (folder / name).write_text(PAGE, "utf-8")
    (folder / "d.txt").write_text("one two\n", "utf-8")
    (folder / "e.bin").write_bytes(bytes(99))
    (folder / "f.html").write_bytes(b"<p>\xff")
    done = {"a.html": "done", "d.txt": "done", "f.html": "error", "sub/b.html": "done"}
    assert translate_all(model, [folder], out) == done
    before = {name: "before" if state == "done" else state for name, state in done.items()}
    assert translate_all(model, [folder], out) == before
    (folder / "a.html").write_text(PAGE + "<p>eight", "utf-8")  # changed
    (out / "d.txt").write_text("edited", "utf-8")
    assert translate_all(model, [folder], out) == before | {"a.html": "done"}
    assert translate_all(model, [folder], out, terms={"one": "eins"}) == done | {"d.txt": "error"}  # other settings
    assert (out / "d.txt").read_text("utf-8") == "edited"
    (out / "d.txt").unlink()
    assert translate_all(model, [folder], out, terms={"one": "eins"})["d.txt"] == "done"
    (out / RECORD).write_text('{"format": 1, "documents": {"a.html": 3}}', "utf-8")  # damaged
    assert translate_all(model, [folder], out) == done
    assert set(json.loads((out / RECORD).read_bytes())["documents"]) == {"a.html", "d.txt", "sub/b.html"}


def test_a_document_that_cannot_be_read_is_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "data"):
        (tmp_path / name).write_text("one")

    def fails(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fails)
    documents, skipped = find_documents([tmp_path], tmp_path / "out")
    assert ([one.name for one in documents], skipped) == (["a.md"], [tmp_path / "data"])


def test_two_documents_never_have_the_same_output(model: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.html").write_text(PAGE, "utf-8")
    documents, _ = find_documents([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert [document.name for document in documents] == ["a/page.html", "b/page.html"]
    with raises(DocumentError, "duplicate_file", "page.html"):
        find_documents([tmp_path / "a" / "page.html", tmp_path / "b" / "page.html"], tmp_path / "out")
    with raises(OutputError, "output_is_input"):
        find_documents([tmp_path / "a" / "page.html"], tmp_path / "a")


def test_documents_need_no_torch(model: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # importing it fails
        "from dragoman import translate_document\n"
        "report = translate_document(sys.argv[1], 'page.html', 'out.html')\n"
        "print(len(report.results), [name for name in sys.modules if name.partition('.')[0] in ('lxml', 'torch')])\n"
    )
    done = run([sys.executable, "-c", code, model], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2", "['torch']"], done.stderr
    assert (tmp_path / "out.html").read_text("utf-8").count("{five}") == 1


@pytest.mark.parametrize("other", ["memory.tsv", "here/../page.html", "link.html", "hard.html", "page.html"])
def test_nothing_that_is_read_is_overwritten(model: Path, tmp_path: Path, other: str) -> None:
    page, memory = tmp_path / "page.html", tmp_path / "memory.tsv"
    page.write_text(PAGE, "utf-8")
    memory.write_text("one\teins\n", "utf-8")
    (tmp_path / "here").mkdir()
    (tmp_path / "link.html").symlink_to(page)
    (tmp_path / "hard.html").hardlink_to(page)
    translator = Translator.load(model)
    for output, review in ((tmp_path / other, None), (tmp_path / "out.html", tmp_path / other)):
        with raises(OutputError, "output_is_input", other):
            dragoman.translate_document(translator, page, output, review=review, memory=[memory])
    with raises(OutputError, "output_is_input"):
        dragoman.translate_document(
            translator, page, tmp_path / "out.html", review=tmp_path / "here" / ".." / "out.html"
        )
    assert (page.read_text("utf-8"), memory.read_text("utf-8")) == (PAGE, "one\teins\n")
