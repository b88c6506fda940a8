"""The languages that documents declare: those of the source become those of the translation."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.documents.detect import read_document
from dragoman.documents.languages import LanguageChange, attribute, set_attribute
from dragoman.documents.segment import ReadOptions, Target

OFFICE = Path(__file__).parents[2] / "fixtures" / "documents" / "office"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Override PartName="/word/document.xml"
 ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>
<Override PartName="/word/styles.xml"
 ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/>
<Override PartName="/docProps/core.xml"
 ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>"""


def translated(data: bytes, name: str, source: str = "en", target: str = "de", translate: bool = True) -> bytes:
    document = read_document(data, name, options=ReadOptions(source, target))
    targets = [Target(one.text.upper(), one.spans) if translate else None for one in document.segments]
    return document.write(targets)


def parts(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def word(body: str, styles: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
        archive.writestr("word/styles.xml", f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>')
        archive.writestr(
            "docProps/core.xml",
            '<c:p xmlns:c="x" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:language>en-GB</dc:language></c:p>',
        )
    return written.getvalue()


def run(language: str, text: str) -> str:
    return f'<w:r><w:rPr><w:lang w:val="{language}"/></w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


DOCUMENT = word(
    f"<w:p>{run('en-US', 'one two three ')}{run('fr-FR', 'deux')}{run('en-GB', ' four')}</w:p>",
    '<w:lang w:val="en-US" w:eastAsia="ja-JP" w:bidi="ar-SA"/>',
)


def test_word_runs_and_styles() -> None:
    found = parts(translated(DOCUMENT, "a.docx"))
    assert re.findall(r"<w:lang[^>]*>", found["word/document.xml"]) == [
        '<w:lang w:val="de-DE"/>',
        '<w:lang w:val="fr-FR"/>',
        '<w:lang w:val="de-DE"/>',
    ]
    assert '<w:lang w:val="de-DE" w:eastAsia="ja-JP" w:bidi="ar-SA"/>' in found["word/styles.xml"]
    assert "<dc:language>de</dc:language>" in found["docProps/core.xml"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("zh", '<w:lang w:val="en-US" w:eastAsia="zh-CN" w:bidi="ar-SA"/>'),
        ("ar", '<w:lang w:val="en-US" w:eastAsia="ja-JP" w:bidi="ar-SA"/>'),
        ("pt-BR", '<w:lang w:val="pt-BR" w:eastAsia="ja-JP" w:bidi="ar-SA"/>'),
    ],
)
def test_word_keeps_a_language_for_each_group_of_scripts(target: str, expected: str) -> None:
    assert expected in parts(translated(DOCUMENT, "a.docx", target=target))["word/styles.xml"]


@pytest.mark.parametrize(("source", "target"), [("fr", "de"), ("", "de"), ("en", ""), ("en", "en")])
def test_other_languages_stay(source: str, target: str) -> None:
    found, plain = parts(translated(DOCUMENT, "a.docx", source, target)), parts(DOCUMENT)
    assert found["word/styles.xml"] == plain["word/styles.xml"]
    assert found["docProps/core.xml"] == plain["docProps/core.xml"]


def test_nothing_changes_without_translations() -> None:
    assert translated(DOCUMENT, "a.docx", translate=False) == DOCUMENT
    page = b'<html lang="en"><p>one</p></html>'
    assert translated(page, "a.html", translate=False) == page


def test_html() -> None:
    page = (
        b'<html lang="en-US" xml:lang="en"><meta http-equiv="content-language" content="en">'
        b'<meta property="og:locale" content="en_US"><meta property="og:locale:alternate" content="en_GB">'
        b'<p lang=en>one <i lang="fr">deux</i> <b lang=en>three</b> <code lang="en">x y</code></p>'
        b'<div translate="no" lang="en">four</div><script>"<p lang=\'en\'>"</script></html>'
    )
    assert translated(page, "a.html").decode() == (
        '<html lang="de" xml:lang="de"><meta http-equiv="content-language" content="de">'
        '<meta property="og:locale" content="de_DE"><meta property="og:locale:alternate" content="en_GB">'
        '<p lang=de>ONE <i lang="fr">deux</i> <b lang=de>THREE</b> <code lang="en">x y</code></p>'
        '<div translate="no" lang="en">four</div><script>"<p lang=\'en\'>"</script></html>'
    )


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ('{"@@locale": "en", "a": "one"}', "de", '{"@@locale": "de", "a": "ONE"}'),
        ('{"@@locale" :"en_US", "a": "one"}', "pt-BR", '{"@@locale" :"pt_BR", "a": "ONE"}'),
        ('{"@@locale": "fr", "a": "one"}', "de", '{"@@locale": "fr", "a": "ONE"}'),
        ('{"locale": "en", "a": "one @@locale"}', "de", '{"locale": "EN", "a": "ONE @@LOCALE"}'),
        ('{"a": {"@@locale": "en"}, "b": "one"}', "de", '{"a": {"@@locale": "en"}, "b": "ONE"}'),
    ],
)
def test_string_files(text: str, target: str, expected: str) -> None:
    for name in ("app_en.arb", "en.json"):
        assert translated(text.encode(), name, target=target).decode() == expected
        assert translated(text.encode(), name, translate=False).decode() == text


@pytest.mark.parametrize("path", [*OFFICE.rglob("*.odt"), *OFFICE.rglob("*.pptx"), *OFFICE.rglob("*.epub")])
def test_files_of_other_programs_declare_the_target(path: Path) -> None:
    before, after = parts(path.read_bytes()), parts(translated(path.read_bytes(), path.name))
    pattern = r'(?:fo:language=|<a:(?:rPr|defRPr)\s[^>]*lang=|<html[^>]* lang=)"(\w+)|<dc:language[^>]*>(\w+)'
    found = {name: [a or b for a, b in re.findall(pattern, text)] for name, text in after.items()}
    for name, text in before.items():
        declared = [a or b for a, b in re.findall(pattern, text)]
        assert len(declared) == len(found[name])
        assert {"de" if code == "en" else code for code in declared} >= {*found[name]} - {"en"}
        if name.endswith((".xml", ".xhtml", ".opf")) and text:
            ElementTree.fromstring(after[name])
    declared = [code for codes in found.values() for code in codes]
    if any(re.search(pattern.replace(r"(\w+", "(en"), text) for text in before.values()):
        assert "de" in declared


def test_the_package_of_an_e_book() -> None:
    """Descriptions are often HTML; the table of contents of EPUB 2 declares its language too."""
    before, written = parts((OFFICE / "ebooklib.epub").read_bytes()), io.BytesIO()
    title = "<dc:title>The little house</dc:title>"
    description = "<dc:description>&lt;p&gt;A {}&lt;/p&gt;</dc:description>"
    before["EPUB/content.opf"] = before["EPUB/content.opf"].replace(title, title + description.format("house"))
    before["EPUB/toc.ncx"] = before["EPUB/toc.ncx"].replace("<ncx ", '<ncx xml:lang="en" ')
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in before.items():
            archive.writestr(name, text)
    after = parts(translated(written.getvalue(), "a.epub"))
    assert description.format("HOUSE") in after["EPUB/content.opf"] and '<ncx xml:lang="de" ' in after["EPUB/toc.ncx"]


def test_attributes() -> None:
    assert set_attribute('<a b="1"/>', "c", "2") == '<a b="1" c="2"/>'
    assert set_attribute("<a b='1' c='x'>", "b", "2") == "<a b='2' c='x'>"
    assert attribute("<a xb='3' b='1'>", "b") == "1" and attribute("<a>", "b") is None
    assert LanguageChange("en", "sr-Latn").regional_tag == "sr-RS" and LanguageChange("en", "tlh").regional == (
        "tlh",
        "",
    )
