"""Sheets: filters, results of formulas, headers and footers, messages and tooltips."""

from __future__ import annotations

import io
import zipfile

import pytest
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import read_document
from dragoman.documents.translate import translate_segments

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KINDS = {"workbook": "sheet.main", "sheet": "worksheet", "table": "table", "strings": "sharedStrings"}
SHARED = f'<sst xmlns="{MAIN}"><si><t>red wine</t></si><si><t>old</t></si></sst>'


def workbook(sheet: str, book: str = "<sheets/>", table: str = "") -> bytes:
    """A workbook with the cells "red wine" and "old", and this content of its parts."""
    types = "".join(
        f'<Override PartName="/xl/{name}.xml" ContentType="application/spreadsheetml.{kind}+xml"/>'
        for name, kind in KINDS.items()
    )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        namespace = "http://schemas.openxmlformats.org/package/2006/content-types"
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{namespace}">{types}</Types>')
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{MAIN}">{book}</workbook>')
        archive.writestr("xl/sheet.xml", f'<worksheet xmlns="{MAIN}">{sheet}</worksheet>')
        archive.writestr("xl/table.xml", f'<table xmlns="{MAIN}">{table}</table>')
        archive.writestr("xl/strings.xml", SHARED)
    return written.getvalue()


def translate(data: bytes, translator: WordByWord | None = None) -> dict[str, str]:
    """The content of each part after a translation."""
    document = read_document(data, "a.xlsx")
    assert document.write([None] * len(document.segments)) == data
    report = translate_segments(document.segments, translator or WordByWord())
    with zipfile.ZipFile(io.BytesIO(document.write([result.target for result in report.results]))) as archive:
        parts = {name.removesuffix(".xml"): archive.read(name).decode() for name in archive.namelist()}
    return {name.rpartition("/")[2]: text[text.find(">") + 1 : text.rfind("<")] for name, text in parts.items()}


def test_filters_and_labels_have_the_translations_of_cells() -> None:
    filters = '<autoFilter><filterColumn><filters><filter val="{}"/><filter val="{}"/><filter val="5"/></filters>'
    end = "</filterColumn></autoFilter>"
    label = '<tableColumns><tableColumn name="one" totalsRowLabel="{}"/></tableColumns>'
    data = workbook(
        f"<sheetData/>{filters.format('red wine', 'in no cell')}{end}",
        table=filters.format("old", "red wine") + end + label.format("old"),
    )
    parts = translate(data)
    assert parts["sheet"] == f"<sheetData/>{filters.format('RED WINE', 'in no cell')}{end}"
    assert parts["table"] == filters.format("OLD", "RED WINE") + end + label.format("OLD")


def test_cells_that_a_filter_compares_a_part_of_are_kept() -> None:
    filters = '<autoFilter><customFilters><customFilter operator="equal" val="*wine"/></customFilters></autoFilter>'
    parts = translate(workbook(f"<sheetData/>{filters}"))
    assert "<t>red wine</t>" in parts["strings"] and ">OLD</t>" in parts["strings"]


FORMULA = '<sheetData><c r="A1" t="{}"><f>B1</f>{}</c>{}</sheetData>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("str", "<v>red wine</v>", ""), ("str", "", "")),
        (("n", "<v>12</v>", ""), ("n", "<v>12</v>", "")),
        (("n", "", '<c t="str"><v>x</v></c>'), ("n", "", '<c t="str"><v>x</v></c>')),
        (("n", "", '<c t="str"><f t="shared"/><v>x</v></c>'), ("n", "", '<c t="str"><f t="shared"/></c>')),
    ],
)
def test_texts_of_formulas_are_removed(before: tuple[str, str, str], after: tuple[str, str, str]) -> None:
    parts = translate(workbook(FORMULA.format(*before)))
    assert parts["sheet"] == FORMULA.format(*after)
    assert parts["workbook"] == '<sheets/><calcPr fullCalcOnLoad="1"/>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<sheets/><calcPr calcId="1"/>', '<sheets/><calcPr calcId="1" fullCalcOnLoad="1"/>'),
        ('<sheets/><calcPr fullCalcOnLoad="0"/>', '<sheets/><calcPr fullCalcOnLoad="1"/>'),
        (
            "<sheets></sheets><definedNames></definedNames><oleSize/>",
            '<sheets></sheets><definedNames></definedNames><calcPr fullCalcOnLoad="1"/><oleSize/>',
        ),
        ("<x:sheets></x:sheets>", '<x:sheets></x:sheets><x:calcPr fullCalcOnLoad="1"/>'),
    ],
)
def test_workbooks_with_formulas_are_computed_again(before: str, after: str) -> None:
    space = f'<fileVersion xmlns:x="{MAIN}"/>' if "x:" in before else ""
    if space:
        before, after = (f'<x:a xmlns:x="{MAIN}">{book}</x:a>' for book in (before, after))
    assert translate(workbook(FORMULA.format("n", "", ""), before))["workbook"] == after
    assert translate(workbook("<sheetData/>", before))["workbook"] == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("&amp;Lall sales&amp;Cpage &amp;P&amp;R&amp;D", "&amp;LSALES ALL&amp;C&amp;P PAGE&amp;R&amp;D"),
        ("page &amp;P of &amp;N", "&amp;N OF &amp;P PAGE"),
        ('&amp;C&amp;"Arial,Bold"&amp;12all sales&amp;B', '&amp;C&amp;"Arial,Bold"&amp;12SALES ALL&amp;B'),
        ("&amp;C&amp;&quot;Arial&quot;&amp;KFF00AAtwo one", "&amp;C&amp;&quot;Arial&quot;&amp;KFF00AAONE TWO"),
        ("&amp;14two 1", "&amp;14 1 TWO"),
        ("A &amp;&amp; b", "B &amp;&amp; A"),
        ("&amp;P / &amp;N", "&amp;P / &amp;N"),
    ],
)  # fmt: skip
def test_headers_and_footers(before: str, after: str) -> None:
    sheet = "<sheetData/><headerFooter><oddHeader>{0}</oddHeader><firstFooter>{0}</firstFooter></headerFooter>"
    parts = translate(workbook(sheet.format(before)), WordByWord(order=backward))
    assert parts["sheet"] == sheet.format(after)


def test_messages_and_tooltips() -> None:
    sheet = (
        '<sheetData/><dataValidation promptTitle="{}" prompt="{}" errorTitle="{}" error="{}"><formula1>1</formula1>'
        '</dataValidation><hyperlink ref="A1" tooltip="{}" location="x!A1"/>'
    )
    before = ("title", "two_x000a_lines", "5", "no &amp; no", "go there")
    parts = translate(workbook(sheet.format(*before)))
    assert parts["sheet"] == sheet.format("TITLE", "TWO_x000a_LINES", "5", "NO &amp; NO", "GO THERE")


def test_texts_that_would_be_too_long_for_excel_stay() -> None:
    sheet = '<sheetData/><dataValidation promptTitle="{}" prompt="{}"/><headerFooter><oddHeader>{}</oddHeader>'
    sheet += "</headerFooter>"
    before = ("a title of some words", "a message", "word " * 50)
    parts = translate(workbook(sheet.format(*before)), WordByWord(word=lambda word: word.upper() * 2))
    assert parts["sheet"] == sheet.format(before[0], "AA MESSAGEMESSAGE", before[2])


def test_filters_formulas_and_messages_of_opendocument() -> None:
    urn = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(f'xmlns:{name}="{urn}:{name}:1.0"' for name in ("office", "table", "text"))
    content = (
        '<table:help-message table:title="{}"><text:p>{}</text:p></table:help-message>'
        '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
        '<table:table-cell table:formula="of:=[.A1]" office:value-type="string"{}><text:p>old</text:p>'
        "</table:table-cell>"
        '<table:filter-condition table:operator="=" table:value="{}"/><table:filter-set-item table:value="new"/>'
    )
    data = f"<office:document {spaces}>{{}}</office:document>"
    before = content.format("title", "message", "old", ' office:string-value="old"', "old")
    document = read_document(data.format(before).encode(), "a.fods", "odf")
    report = translate_segments(document.segments, WordByWord())
    written = document.write([result.target for result in report.results]).decode()
    assert written == data.format(content.format("TITLE", "MESSAGE", "OLD", "", "OLD"))
