"""Archives and XML parts that could do harm, are encrypted or damaged: a clear error, never a traceback."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from tests.raising import raises

from dragoman.documents.detect import read_document
from dragoman.documents.formats.office import archive as archives
from dragoman.documents.formats.office.xml.events import MAX_DEPTH, parse
from dragoman.documents.formats.office.xml.tree import TreeReader
from dragoman.documents.segment import Target
from dragoman.errors import DocumentError

FOLDER = Path(__file__).parents[2] / "fixtures" / "documents" / "office"
WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'


def with_parts(name: str, **changed: str | bytes) -> bytes:
    """A fixture with parts replaced or added; `__` stands for a slash, `_dot_` for a dot."""
    new = {key.replace("__", "/").replace("_dot_", "."): value for key, value in changed.items()}
    written = io.BytesIO()
    with zipfile.ZipFile(FOLDER / name) as old, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as out:
        for info in old.infolist():
            out.writestr(info, new.pop(info.filename, None) or old.read(info))
        for part, content in new.items():
            out.writestr(part, content)
    return written.getvalue()


def with_body(document: str) -> bytes:
    return with_parts("word-strict.docx", word__document_dot_xml=document)


BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    "document",
    [
        BOMB + WORD.format("<w:p><w:r><w:t>&b;</w:t></w:r></w:p>"),
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">' + WORD.format(""),
        '<!DOCTYPE x [<!ENTITY % d SYSTEM "http://example.org/x.dtd"> %d;]>' + WORD.format(""),
        WORD.format("<w:p>" * 300 + "</w:p>" * 300),
    ],
    ids=["entity bomb", "external document type", "external entity", "deep nesting"],
)
def test_hostile_xml_is_rejected(document: str) -> None:
    with raises(DocumentError, "unsafe_document", "word/document.xml"):
        read_document(with_body(document), "bad.docx")


@pytest.mark.parametrize("document", ["", "<w:document>", WORD.format("<w:p></w:r>"), WORD.format("&nbsp;"), "\0" * 50])
def test_malformed_xml_is_rejected(document: str) -> None:
    with raises(DocumentError, "damaged_document"):
        read_document(with_body(document or " "), "bad.docx")


def test_an_e_book_with_entities_is_rejected_but_one_with_a_document_type_is_read() -> None:
    chapter = "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>Hello&nbsp;there</p></body></html>"
    public = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
    document = read_document(
        with_parts("pandoc-guide-epub3.epub", EPUB__text__ch001_dot_xhtml=public + chapter), "a.epub"
    )
    assert "Hello\u00a0there" in [segment.text for segment in document.segments]
    with raises(DocumentError, "unsafe_document", "ch001.xhtml"):
        read_document(with_parts("pandoc-guide-epub3.epub", EPUB__text__ch001_dot_xhtml=BOMB + chapter), "a.epub")


def test_a_zip_bomb_is_rejected_without_being_unpacked() -> None:
    with raises(DocumentError, "unsafe_document", "bomb.xml"):
        read_document(with_parts("word-strict.docx", word__bomb_dot_xml=b"a" * (9 << 20)), "bomb.docx")


def test_a_zip_bomb_of_many_parts_is_rejected_without_being_unpacked() -> None:
    part = WORD.format("<w:p><w:r><w:t>A</w:t></w:r></w:p>" * 60_000)
    with zipfile.ZipFile(FOLDER / "word-strict.docx") as archive:
        types = archive.read("[Content_Types].xml").decode()
    header = '<Override PartName="/word/header{}.xml" ContentType="application/wordprocessingml.header+xml"/>'
    more = "".join(header.format(number) for number in range(5))
    parts = {f"word/header{number}.xml": part for number in range(5)}
    parts["[Content_Types].xml"] = types.replace("</Types>", f"{more}</Types>")
    with raises(DocumentError, "unsafe_document", "when it is unpacked"):
        read_document(with_parts("word-strict.docx", **parts), "bomb.docx")


def test_parts_that_are_not_read_do_not_count() -> None:
    pictures = {f"word/media/image{number}.bmp": bytes(7 << 20) for number in range(3)}
    data = with_parts("word-strict.docx", **pictures)
    document = read_document(data, "pictures.docx")
    written = document.write([Target(segment.text, segment.spans) for segment in document.segments])
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        assert archive.testzip() is None
        assert archive.read("word/media/image2.bmp") == bytes(7 << 20)


def test_no_more_is_unpacked_than_the_directory_says() -> None:
    data = bytearray(with_parts("word-strict.docx", word__document_dot_xml=bytes(50 << 20)))
    entry = data.rindex(b"word/document.xml") - 46
    data[entry + 24 : entry + 28] = struct.pack("<I", 1000)
    tracemalloc.start()
    try:
        with raises(DocumentError, "damaged_document", "word/document.xml"):
            read_document(bytes(data), "bomb.docx")
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_limits_on_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FOLDER / "inline.docx").read_bytes()
    for limit in ("MAX_PARTS", "MAX_TOTAL_BYTES", "MAX_PART_BYTES", "MAX_READ_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(archives, limit, 3)
            with raises(DocumentError, "unsafe_document", "the limit is 3"):
                read_document(data, "a.docx")


@pytest.mark.parametrize("part", ["../evil.xml", "/etc/passwd", "a/../../b", "C:evil", "a\\b"])
def test_names_that_lead_out_of_the_archive_are_rejected(part: str) -> None:
    with raises(DocumentError, "unsafe_document"):
        read_document(with_parts("word-strict.docx", **{part: b"x"}), "bad.docx")


def test_two_parts_of_the_same_name_are_rejected() -> None:
    data = with_parts("word-strict.docx", word__documenu_dot_xml=WORD.format(""))
    with raises(DocumentError, "unsafe_document", "two parts"):
        read_document(data.replace(b"word/documenu.xml", b"word/document.xml"), "bad.docx")


def test_overlapping_parts_are_rejected() -> None:
    data = bytearray(with_parts("word-strict.docx", word__other_dot_xml="<a/>"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        first = archive.getinfo("word/document.xml").header_offset
    entry = data.rindex(b"word/other.xml") - 46
    data[entry + 42 : entry + 46] = struct.pack("<I", first)
    with raises(DocumentError, "unsafe_document", "overlaps"):
        read_document(bytes(data), "bad.docx")


def test_encrypted_documents_are_recognized() -> None:
    data = bytearray((FOLDER / "inline.docx").read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 8] |= 1
    with raises(DocumentError, "encrypted_document"):
        read_document(bytes(data), "a.docx")
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry '
        'manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>'
    )
    with raises(DocumentError, "encrypted_document"):
        read_document(with_parts("inline.odt", **{"META-INF/manifest.xml": manifest}), "a.odt")
    manifest = '<!DOCTYPE manifest:manifest PUBLIC "" "Manifest.dtd"><manifest:manifest/>'  # of OpenOffice
    assert read_document(with_parts("inline.odt", **{"META-INF/manifest.xml": manifest}), "a.odt")
    rights = (
        '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:CipherData>'
        '<e:CipherReference URI="EPUB/{}"/></e:CipherData></e:EncryptedData></encryption>'
    )
    with raises(DocumentError, "encrypted_document"):
        read_document(
            with_parts("ebooklib.epub", **{"META-INF/encryption.xml": rights.format("text/a.xhtml")}), "a.epub"
        )
    assert read_document(with_parts("ebooklib.epub", **{"META-INF/encryption.xml": rights.format("a.otf")}), "a.epub")


def test_templates_of_styles_are_not_called_damaged() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text-template")
        archive.writestr("styles.xml", "<document-styles/>")
    with raises(DocumentError, "unsupported_format", "only styles"):
        read_document(file.getvalue(), "a.ott")


def test_what_is_not_an_office_document_is_said() -> None:
    with raises(DocumentError, "damaged_document", "main part"):
        read_document((FOLDER / "inline.docx").read_bytes(), "a.docx", "xlsx")
    with raises(DocumentError, "damaged_document", "zip"):
        read_document(b"plain words", "a.docx")
    binary = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
    with zipfile.ZipFile(FOLDER / "xlsxwriter.xlsx") as archive:
        types = archive.read("[Content_Types].xml").decode()
    main = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    with raises(DocumentError, "unsupported_format", ".xlsx"):
        read_document(with_parts("xlsxwriter.xlsx", **{"[Content_Types].xml": types.replace(main, binary)}), "a.xlsb")


@pytest.mark.parametrize("name", ["word-fields.docx", "excel-prefixed.xlsx", "ebooklib.epub", "changes.odt"])
def test_damaged_archives_are_read_or_rejected(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    generator = random.Random(name)
    rejected = 0
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 6)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        if generator.random() < 0.2:
            del damaged[generator.randrange(len(damaged)) :]
        try:
            document = read_document(bytes(damaged), name)
            assert document.write([None] * len(document.segments)) == damaged
        except DocumentError:
            rejected += 1
    assert rejected > 10


def test_events_cover_the_text_and_know_namespaces() -> None:
    uri = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = f'<?xml version="1.0"?>\n<k:p xmlns:k="{uri}" k:x="é">日本&amp;<![CDATA[<x>]]> <k:r/><!-- c --><o/></k:p>\n'
    events = list(parse(text, "part"))
    assert "".join(text[event.start : event.end] for event in events) == text
    assert [event.name for event in events if event.kind == "start"] == ["w:p", "w:r", "o"]
    assert next(event.value for event in events if event.kind == "text") == "日本&<x> "
    assert events[2].attributes == {"w:x": "é"}
    long = "é" * 70_000  # several chunks
    assert [event.value for event in parse(f"<a>{long}<b/></a>", "part") if event.kind == "text"] == [long]
    assert sum(event.kind == "start" for event in parse("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH, "part")) == MAX_DEPTH


@pytest.mark.parametrize("word", ["plain", "für 你好", "für 𝄞 你好"])  # characters of one, two and four bytes
def test_trees_have_the_places_of_their_elements(word: str) -> None:
    inside = f'<b n="{word}"/>x<!-- {word} -->{word}&amp;y<c><![CDATA[{word}]]></c>'
    text = f"<r>{word}<s><p>no</p></s><p>{inside}</p>{word}<a n='{word}'><p/></a></r>"
    first, alone, last = TreeReader(text, "part", False, frozenset("p"), frozenset("a"), frozenset("s")).read()
    assert text[first.start : first.end] == f"<p>{inside}</p>" and text[first.content : first.closing] == inside
    assert [(child.name, child.value, text[child.start : child.end]) for child in first.children] == [
        ("b", "", f'<b n="{word}"/>'),
        ("", "x", "x"),
        ("", f"{word}&y", f"{word}&amp;y"),
        ("c", "", f"<c><![CDATA[{word}]]></c>"),
    ]
    assert [child.value for child in first.children[3].children] == [word]
    assert (alone.name, dict(alone.attributes), text[alone.start :][:2]) == ("a", {"n": word}, "<a")
    assert text[last.start : last.end] == "<p/>"
