"""What office formats translate and what they leave, part by part."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from lxml import etree
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import read_document
from dragoman.documents.formats.office import odf, sheets, xlsx
from dragoman.documents.formats.office.archive import open_archive
from dragoman.documents.formats.office.docx import MAIN, with_languages
from dragoman.documents.formats.office.docx import RULES as WORD
from dragoman.documents.formats.office.drawing import DRAWING
from dragoman.documents.formats.office.formula_texts import FormulaTexts
from dragoman.documents.formats.office.odf import RULES as ODF
from dragoman.documents.formats.office.package import ArchiveDocument
from dragoman.documents.formats.office.part import read_part
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xlsx import STRINGS
from dragoman.documents.formats.office.xml.events import NAMESPACES
from dragoman.documents.segment import ReadOptions, Segment, Target
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from raising import raises

FOLDER = Path(__file__).parents[2] / "fixtures" / "documents" / "office"
NAMESPACES_BY_PREFIX = {prefix: uri for uri, prefix in reversed(NAMESPACES.items()) if prefix != "xml"}
DECLARATIONS = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES_BY_PREFIX.items())

TAB = "<w:r><w:tab/></w:r>"
SUPERSCRIPT, SUBSCRIPT = (f'<w:vertAlign w:val="{kind}script"/>' for kind in ("super", "sub"))


def translate(content: str, rules: Rules, translator: WordByWord) -> str:
    """The content of a part after translating it."""
    start = f"<x {DECLARATIONS}>"
    part = read_part(f"{start}{content}</x>".encode(), "part.xml", "part", rules)
    report = translate_segments(part.segments, translator)
    assert not report.kept
    return part.write([result.target for result in report.results]).decode()[len(start) : -len("</x>")]


def run(text: str, properties: str = "") -> str:
    look = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(code: str, *result: str) -> str:
    marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    return f"{marks[0]}<w:r><w:instrText>{code}</w:instrText></w:r>{marks[1]}{''.join(result)}{marks[2]}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (run("one ") + run("two", "<w:lang/>") + run(" three"), run("THREE TWO ONE")),
        (run("one ") + "<w:proofErr/>" + run("two ") + run("six", "<w:b/>"), run("SIX", "<w:b/>") + run(" TWO ONE")),
        (run("one two") + "<w:r><w:footnoteReference/></w:r>" + run(" six"),
         run("SIX TWO") + "<w:r><w:footnoteReference/></w:r>" + run(" ONE")),
        (run("one two") + run("1", SUPERSCRIPT) + run(" six"), run("SIX TWO") + run("1", SUPERSCRIPT) + run(" ONE")),
        (run("one Acme") + run("®", SUPERSCRIPT) + run(" six"), run("SIX ACME") + run("®", SUPERSCRIPT) + run(" ONE")),
        (run("the 1") + run("st", SUPERSCRIPT) + run(" six"), run("SIX 1ST THE")),
        (run("one CO") + run("2", SUBSCRIPT) + run(" six"), run("SIX CO") + run("2", SUBSCRIPT) + run(" ONE")),
        (run("one ") + "<w:r><w:sym/></w:r>" + run(" two six"), run("SIX TWO ") + "<w:r><w:sym/></w:r>" + run(" ONE")),
        ("<w:r><w:t>one</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>six</w:t></w:r>",
         f"{run('ONE')}<w:r><w:br/></w:r>{run('TWO')}<w:r><w:tab/></w:r>{run('SIX')}"),
        (run("see ") + field("PAGEREF a", run("5")) + run(" now"),
         run("NOW ") + field("PAGEREF a", run("5")) + run(" SEE")),
        (field("PAGEREF a", run("1"), TAB, run("see it"), TAB, run("5")),
         field("PAGEREF a", run("1"), TAB, run("IT SEE"), TAB, run("5"))),
        (run("see ") + field("PAGEREF a", run("iv")) + run(" now"),
         run("NOW ") + field("PAGEREF a", run("iv")) + run(" SEE")),
        (run("see ") + field("HYPERLINK a", run("it all")) + run(" now"),
         run("NOW ") + field("HYPERLINK a", run("ALL IT")) + run(" SEE")),
        (run("the ") + "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>" + run("end"),
         "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>" + run("END THE")),
        ("<w:r><w:noBreakHyphen/></w:r>" + run("one two"), run("TWO \u2011ONE")),
        ('<w:r><w:t xml:space="default">one</w:t></w:r>' + run(" two ", "<w:b/>") + run("six"),
         run("SIX ") + run("TWO", "<w:b/>") + run(" ONE")),
        (run("so ") + "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>" + run(" is"),
         run("IS ") + "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>" + run(" SO")),
        (run("run ") + run("rm -r", '<w:rStyle w:val="HTMLCode"/>') + run(" now"),
         run("NOW ") + run("rm -r", '<w:rStyle w:val="HTMLCode"/>') + run(" RUN")),
        ('<w:bookmarkStart w:id="1"/>' + run("one two") + '<w:bookmarkEnd w:id="1"/>',
         '<w:bookmarkStart w:id="1"/>' + run("TWO ONE") + '<w:bookmarkEnd w:id="1"/>'),
        (run("one ") + '<w:bookmarkStart w:id="1"/>' + run("two") + '<w:bookmarkEnd w:id="1"/>' + run(" six"),
         run("SIX ") + '<w:bookmarkStart w:id="1"/>' + run("TWO") + '<w:bookmarkEnd w:id="1"/>' + run(" ONE")),
        (run("a &amp; b &lt; c"), run("C &lt; B &amp; A")),
        (run("open {x} now"), run("NOW {x} OPEN")),
    ],
)  # fmt: skip
def test_runs_of_word(before: str, after: str) -> None:
    assert translate(f"<w:p><w:pPr/>{before}</w:p>", WORD, WordByWord(order=backward)) == f"<w:p><w:pPr/>{after}</w:p>"


LIST = '<w:sdtPr><w:dropDownList><w:listItem w:displayText="{}" w:value="a"/></w:dropDownList></w:sdtPr>'
SHAPE = '<w:r><w:pict><v:shape alt="{}"><v:textpath string="{}"/></v:shape></w:pict></w:r>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (run("see ") + f'<w:hyperlink w:tooltip="open me">{run("it all")}</w:hyperlink>' + run(" now"),
         run("NOW ") + f'<w:hyperlink w:tooltip="ME OPEN">{run("ALL IT")}</w:hyperlink>' + run(" SEE")),
        (run("take ") + f"<w:sdt>{LIST.format('a b')}<w:sdtContent>{run('a b')}</w:sdtContent></w:sdt>" + run(" now"),
         run("NOW ") + f"<w:sdt>{LIST.format('B A')}<w:sdtContent>{run('B A')}</w:sdtContent></w:sdt>" + run(" TAKE")),
        (run("one ") + SHAPE.format("a car", "top secret") + run("two"),
         SHAPE.format("CAR A", "SECRET TOP") + run("TWO ONE")),
        (SHAPE.format("a.png", "5"), SHAPE.format("a.png", "5")),
    ],
)  # fmt: skip
def test_attributes_that_people_read_in_word(before: str, after: str) -> None:
    assert translate(f"<w:p>{before}</w:p>", WORD, WordByWord(order=backward)) == f"<w:p>{after}</w:p>"


@pytest.mark.parametrize("space", ["", " "])
def test_tooltips_of_links_in_slides(space: str) -> None:
    link = '<a:r>{}<a:rPr lang="en-US"><a:hlinkClick tooltip="{}"/></a:rPr><a:t>{}</a:t></a:r>'
    plain = "<a:r><a:t>{}</a:t></a:r>"
    before = plain.format("see ") + link.format(space, "open &amp; me", "it all") + plain.format(" now")
    after = plain.format("NOW ") + link.format(space, "ME &amp; OPEN", "ALL IT") + plain.format(" SEE")
    assert translate(f"<a:p>{before}</a:p>", DRAWING, WordByWord(order=backward)) == f"<a:p>{after}</a:p>"


def test_a_field_that_ends_in_another_paragraph_is_not_taken_apart() -> None:
    begin = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
    paragraph = f"<w:p>{run('one ')}{begin}{run('two')}</w:p>"
    assert translate(paragraph, WORD, WordByWord()) == paragraph
    assert translate(f"<w:p>{begin}{run('two')}</w:p>", WORD, WordByWord()) == f"<w:p>{begin}{run('TWO')}</w:p>"


def test_bookmarks_that_cross_stay_well_formed() -> None:
    starts, ends = ([f'<w:bookmark{kind} w:id="{i}"/>' for i in "12"] for kind in ("Start", "End"))
    marks = [*starts, *ends]
    content = "".join(run(word + " ") + mark for word, mark in zip(("one", "two", "three", "four"), marks, strict=True))
    link = f"<w:hyperlink>{run('a ')}{starts[0]}{run('b')}</w:hyperlink>{ends[0]}"
    written = translate(f"<w:p>{content}{link}{run(' c')}</w:p>", WORD, WordByWord(order=backward))
    assert [written.count(mark) for mark in marks] == [2, 1, 2, 1]
    etree.fromstring(f"<x {DECLARATIONS}>{written}</x>")


def test_many_nested_ranges_and_fields_are_read() -> None:
    starts, ends = (
        "".join(f'<w:bookmark{kind} w:id="{i}"/>' for i in ids)
        for kind, ids in (("Start", range(2000)), ("End", reversed(range(2000))))
    )
    before, after = field("HYPERLINK a", "|").split("|")
    for opening, closing in ((starts, ends), (before * 2000, after * 2000)):
        content, result = (f"<w:p>{opening}{run(text)}{closing}</w:p>" for text in ("one two", "TWO ONE"))
        assert translate(content, WORD, WordByWord(order=backward)) == result


def test_white_space_of_a_text_without_preserve_does_not_count() -> None:
    content = "<w:p><w:r><w:t> one </w:t></w:r><w:r><w:t>two\n</w:t></w:r>{}</w:p>"
    assert translate(content.format(""), WORD, WordByWord()) == f"<w:p>{run('ONETWO')}</w:p>"
    for no_break in ("<w:r><w:t>\u00a0six</w:t></w:r>", "<w:r><w:t>\u00a0<!-- -->six</w:t></w:r>"):
        assert translate(content.format(no_break), WORD, WordByWord()) == f"<w:p>{run('ONETWO SIX')}</w:p>"


def test_opendocument_spaces_and_styles() -> None:
    before = '<text:p>one  \n two<text:s text:c="2"/>three <text:span text:style-name="B">big</text:span> x</text:p>'
    after = '<text:p>ONE TWO THREE <text:span text:style-name="B">BIG</text:span> X</text:p>'
    assert translate(before, ODF, WordByWord()) == after
    assert (
        translate("<text:p><text:s/>one<text:tab/>two</text:p>", ODF, WordByWord())
        == "<text:p><text:s/>ONE<text:tab/>TWO</text:p>"
    )
    cell = '<table:table-cell office:value-type="{}"><text:p>1 May</text:p></table:table-cell>'
    date, string = (cell.format(kind) for kind in ("date", "string"))
    assert translate(date + string, ODF, WordByWord()) == date + string.replace("May", "MAY")


def test_cells_with_line_breaks_and_phonetic_guides() -> None:
    before = "<x:si><x:t>one\n two</x:t><x:rPh><x:t>abc</x:t></x:rPh></x:si>"
    assert translate(before, STRINGS, WordByWord()) == '<x:si><x:t xml:space="preserve">ONE\n TWO</x:t></x:si>'


def test_characters_that_xml_lacks_are_not_written() -> None:
    written = translate(f"<w:p>{run('one')}</w:p>", WORD, WordByWord(word=lambda word: "a\x00\x1f\ufffeb"))
    assert written == f"<w:p>{run('ab')}</w:p>"


def texts(name: str) -> dict[str, bool]:
    document = read_document((FOLDER / name).read_bytes(), name)
    return {segment.text: segment.translate for segment in document.segments}


def test_texts_that_formulas_refer_to_are_kept() -> None:
    found = texts("openpyxl.xlsx")
    assert [text for text, translated in found.items() if not translated] == ["Article", "State", "open", "closed"]
    assert found["Winter coat"]
    assert texts("sheet.ods")["Yes"] is False
    assert "available" not in texts("sheet.xlsx")  # computed


@pytest.mark.parametrize(
    ("literal", "text", "kept"),
    [
        ("open", "OPEN", True),
        ("<>in work", "in work", True),
        (">=done", "done", True),
        ("op*", "Open now", True),
        ("?pen", "open", True),
        ("~*pen", "open", False),
        ("a_x000a_b", "a\nb", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*a*a*a", "a" * 30_000 + "b", False),  # in linear time
        ("open", "opened", False),
        ("*" * 9 + "a", "a", False),  # too many
    ],
)
def test_formulas_compare_without_case_and_with_wildcards(literal: str, text: str, kept: bool) -> None:
    assert (text in FormulaTexts([literal])) is kept


def test_the_value_of_a_cell_does_not_hide_its_translation() -> None:
    cell = '<table:table-cell office:value-type="string"{}><text:p>one two</text:p></table:table-cell>'
    value = ' office:string-value="one two"'
    for before, after in ((value, ""), ("", ""), (' office:string-value="other"',) * 2):
        urn = "urn:oasis:names:tc:opendocument:xmlns"
        spaces = " ".join(f'xmlns:{name}="{urn}:{name}:1.0"' for name in ("office", "table", "text"))
        data = f"<office:document {spaces}>{cell.format(before)}</office:document>"
        document = read_document(data.encode(), "a.fods", "odf")
        report = translate_segments(document.segments, WordByWord())
        written = document.write([result.target for result in report.results]).decode()
        assert cell.format(after).replace("one two</", "ONE TWO</") in written


def test_escaped_characters_are_kept() -> None:
    written = translate("<x:si><x:t>one_x000D_ two</x:t></x:si>", STRINGS, WordByWord())
    assert "ONE_x000D_ TWO</x:t>" in written


def test_notes_charts_and_alternative_texts_are_found() -> None:
    assert {"Thank the team.", "Boxes by month", "Sold boxes", "Green tea"} <= texts("python-pptx.pptx").keys()
    assert {"Text of the box here.", "A box & its text", "Inner cell", "Text in a control."} <= texts(
        "word-boxes.docx"
    ).keys()
    assert {"At sea level only.", "Please check this word."} <= texts("notes.odt").keys()
    assert not any("Click to" in text for text in texts("python-pptx.pptx"))


def test_macros_and_other_parts_are_copied() -> None:
    data = (FOLDER / "word-macros.docm").read_bytes()
    document = read_document(data, "a.docm")
    report = translate_segments(document.segments, WordByWord())
    written = document.write([result.target for result in report.results])
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
        assert changed == ["word/document.xml"]
        assert re.search(rb"A DOCUMENT WITH MACROS\.", new.read("word/document.xml"))


def test_a_translation_that_is_not_well_formed_is_not_written() -> None:
    word = NAMESPACES_BY_PREFIX["w"]
    link = '<w:hyperlink xmlns:q="{}"><q:r><q:t>{}</q:t></q:r></w:hyperlink>'
    content = f"<w:p>{link.format(word, 'one')}{run(' ')}{link.format(word, 'two')}</w:p>"
    part = f'<w:document xmlns:w="{word}"><w:body>{content}</w:body></w:document>'
    archive = open_archive((FOLDER / "word-macros.docm").read_bytes(), "a.docm")
    document = read_document(archive.replace({"word/document.xml": part.encode()}), "a.docm")
    report = translate_segments(document.segments, WordByWord())
    with raises(DocumentError, "damaged_translation", "nothing was written"):
        document.write([result.target for result in report.results])


@pytest.mark.parametrize("start", ["", "<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.1//EN' 'xhtml11.dtd'>"])
def test_a_chapter_of_a_book_is_checked_too(start: str) -> None:
    archive = open_archive((FOLDER / "word-macros.docm").read_bytes(), "a.docm")
    text = f"{start}<p>one&nbsp;two</p>" if start else "<p>one two</p>"
    place = text.index("one"), text.index("</p>")
    document = ArchiveDocument(archive, {"word/document.xml": SplicedText(text, [Slot(*place, Segment("one"))])})
    assert document.write([Target("two &lt;")])
    with raises(DocumentError, "damaged_translation", "nothing was written"):
        document.write([Target("two <")])


CELL_TAG = "<table:table-cell table:formula= "


def test_many_tags_without_an_end_take_no_longer_than_others() -> None:
    english = with_languages(ReadOptions("en", "de"))[MAIN]
    patterns = (xlsx.FORMULA, "<f "), (xlsx.COLUMN, "<tableColumn "), (odf.CELL, "<table:table-cell ")
    cells = (sheets.TEXT_RESULT, '<c t="str" '), (sheets.TEXT_RESULT, '<c t="str"><f '), (odf.FORMULA_CELL, CELL_TAG)
    tags = (sheets.MESSAGE_TAGS, "<hyperlink "), (sheets.COPY_TAGS, "<filter "), (sheets.HEADER, "<oddHeader ")
    for pattern, tag in (
        *patterns,
        *cells,
        *tags,
        (WORD.insignificant, "<w:lang "),
        (english.insignificant, "<w:lang "),
    ):
        assert pattern.search(tag * 300_000) is None


def test_content_controls_of_libreoffice_are_part_of_the_sentence() -> None:
    item = '<loext:list-item loext:display-text="{}" loext:value="old"/>'
    text = "<text:p>one <loext:content-control>{}{}</loext:content-control> two</text:p>"
    written = translate(text.format(item.format("old"), "six old"), ODF, WordByWord())
    assert written == text.replace("one", "ONE").replace("two", "TWO").format(item.format("OLD"), "SIX OLD")
