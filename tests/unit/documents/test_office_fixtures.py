"""Every office fixture: the same bytes without a translation, and the same elements around translated words."""

from __future__ import annotations

import io
import random
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from lxml import etree
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import read_document
from dragoman.documents.segment import Document, ReadOptions, Segment
from dragoman.documents.translate import translate_segments

FOLDER = Path(__file__).parents[2] / "fixtures" / "documents" / "office"
FIXTURES = sorted(
    path.name for path in FOLDER.iterdir() if path.suffix not in (".py", ".md", ".png") and path.is_file()
)
RUNS = {"r", "t", "span", "s", "rPh", "phoneticPr", "proofErr", "lastRenderedPageBreak", "noBreakHyphen", "softHyphen"}


def read(name: str) -> tuple[bytes, Document]:
    data = (FOLDER / name).read_bytes()
    return data, read_document(data, name)


def translate(document: Document, translator: WordByWord) -> bytes:
    report = translate_segments(document.segments, translator)
    assert not report.kept
    return document.write([result.target for result in report.results])


def parts(data: bytes) -> dict[str, bytes]:
    if not data.startswith(b"PK"):
        return {"flat.xml": data}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def parse(part: bytes) -> etree._Element:
    """The tree of a part, without what makes programs compute formulas again."""
    root = etree.fromstring(part, etree.XMLParser(resolve_entities=False))
    for found in root.xpath("//*[local-name()='calcPr'] | //*[@t='str']/*[local-name()='f']/../*[local-name()='v']"):
        found.getparent().remove(found)
    for cell in root.iter("{*}table-cell"):
        if any(etree.QName(name).localname == "formula" for name in cell.attrib):
            cell.attrib.pop("{urn:oasis:names:tc:opendocument:xmlns:office:1.0}string-value", None)
    return root


def letters(part: bytes) -> str:
    """The text of a part without white space, phonetic guides and case."""
    root = parse(part)
    for guide in [*root.iter("{*}rPh")]:
        guide.getparent().remove(guide)
    return "".join("".join(root.itertext()).split()).replace("\u2011", "").casefold()


def elements(part: bytes) -> Counter[str]:
    """The elements of a part that are not runs."""
    found: Counter[str] = Counter()
    for element in parse(part).iter(etree.Element):
        above = [etree.QName(one).localname for one in (element, *element.iterancestors())]
        if above[0] not in RUNS and "rPr" not in above and "rPh" not in above:
            found[
                f"{element.tag} {sorted(element.attrib.items()) if above[0] not in ('docPr', 'cNvPr', 'img') else ''}"
            ] += 1
    return found


def test_there_are_enough_fixtures_of_each_format() -> None:
    counts = Counter(Path(name).suffix for name in FIXTURES)
    assert len(FIXTURES) >= 40
    assert all(counts[suffix] >= 3 for suffix in (".docx", ".pptx", ".xlsx", ".odt", ".epub"))


@pytest.mark.parametrize("name", [name for name in FIXTURES if name.endswith((".docx", ".pptx"))])
def test_segments_are_found_while_a_document_is_read(name: str) -> None:
    found = list[Segment]()
    document = read_document((FOLDER / name).read_bytes(), name, options=ReadOptions(on_segment=found.append))
    assert sorted(map(id, found)) == sorted(map(id, document.segments))


@pytest.mark.parametrize("name", FIXTURES)
def test_an_identity_translation_is_the_same_bytes(name: str) -> None:
    data, document = read(name)
    assert document.segments
    assert document.write([None] * len(document.segments)) == data
    assert translate(document, WordByWord(word=str)) == data


@pytest.mark.parametrize("name", FIXTURES)
def test_translated_fixtures_have_the_same_elements_and_other_words(name: str) -> None:
    data, document = read(name)
    before, after = parts(data), parts(translate(document, WordByWord()))
    assert [*before] == [*after]
    changed = [part for part in before if before[part] != after[part]]
    assert changed
    for part in changed:
        assert letters(before[part]) == letters(after[part])
        assert elements(before[part]) == elements(after[part])


@pytest.mark.parametrize("name", FIXTURES)
def test_words_in_any_order_give_well_formed_parts_with_the_same_elements(name: str) -> None:
    generator = random.Random(name)

    def shuffled(words: Sequence[str]) -> Sequence[int]:
        return generator.sample(range(len(words)), len(words))

    data, document = read(name)
    before = parts(data)
    for _ in range(3):
        after = parts(translate(document, WordByWord(order=shuffled)))
        for part in before:
            if before[part] != after[part]:
                assert Counter(letters(before[part])) == Counter(letters(after[part]))
                assert elements(before[part]) == elements(after[part])


def test_entries_keep_their_order_times_and_compression() -> None:
    for name in ("word-split-runs.docx", "pandoc-guide-epub3.epub", "inline.odt"):
        data, document = read(name)
        entries = []
        for archive in (data, translate(document, WordByWord())):
            with zipfile.ZipFile(io.BytesIO(archive)) as opened:
                entries.append([(info.filename, info.date_time, info.compress_type) for info in opened.infolist()])
        assert entries[0] == entries[1]
        assert len({kind for _, _, kind in entries[0]}) == 2


def marked(name: str, expression: str, part: str) -> list[str]:
    """What an XPath finds in a part after translating backward."""
    _, document = read(name)
    root = parse(parts(translate(document, WordByWord(order=backward)))[part])
    spaces = {"w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main"}
    spaces["a"] = "http://schemas.openxmlformats.org/drawingml/2006/main"
    spaces["x"] = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    spaces["t"] = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    spaces["h"] = "http://www.w3.org/1999/xhtml"
    return ["".join(element.itertext()) for element in root.xpath(expression, namespaces=spaces)]


@pytest.mark.parametrize(
    ("name", "part", "expression", "expected"),
    [
        ("word-split-runs.docx", "word/document.xml", "//w:r[w:rPr/w:b and not(w:rPr/w:rtl)]", ["BIG VERY"]),
        ("word-split-runs.docx", "word/document.xml", "//w:r[w:rPr/w:i]", ["BARKS"]),
        ("word-fields.docx", "word/document.xml", "//w:r[w:rPr/w:u]", ["PAGE OUR"]),
        ("word-strict.docx", "word/document.xml", "//*[local-name()='b']/../..", ["STRICT"]),
        ("word-utf16.docx", "word/document.xml", "//w:r[w:rPr/w:b]", ["LETTERS"]),
        ("inline.docx", "word/document.xml", "//w:hyperlink", ["PAGE WHOLE THE"]),
        ("notes.docx", "word/footnotes.xml", "//w:r[w:rPr/w:b]", ["LEVEL SEA"]),
        ("python-pptx.pptx", "ppt/slides/slide1.xml", "//a:r[a:rPr/@b='1']", ["TWICE"]),
        ("slides.pptx", "ppt/slides/slide1.xml", "//a:r[a:rPr/a:hlinkClick]", ["PLAN OUR"]),
        ("sheet.xlsx", "xl/sharedStrings.xml", "//x:r[x:rPr/x:b[@val='true']]", ["COFFEE"]),
        ("openpyxl.xlsx", "xl/worksheets/sheet1.xml", "//x:r[x:rPr/x:b]", ["BOLD"]),
        ("inline.fodt", "flat.xml", "//t:p[1]/t:span | //t:span/t:span", ["LAZY", "RED", "ITALIC AND"]),
        ("inline.odt", "content.xml", "//t:a", ["PAGE WHOLE THE"]),
        ("ebooklib.epub", "EPUB/text/chapter 1.xhtml", "//h:b | //h:i", ["GREEN", "SMALL"]),
    ],
)  # fmt: skip
def test_formatting_moves_with_the_words(name: str, part: str, expression: str, expected: list[str]) -> None:
    assert marked(name, expression, part) == expected
