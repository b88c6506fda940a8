from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree
from tests.raising import raises
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import detect, read_document
from dragoman.documents.formats.localization import xliff
from dragoman.documents.segment import ReadOptions, Target
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "localization"
FILES = sorted(path.name for path in [*FIXTURES.glob("*.xlf"), *FIXTURES.glob("*.xliff")])
ADDED = ("state", "subState", "state-qualifier", "target-language", "trgLang", "approved")


def translate(data: bytes, translator: WordByWord, options: ReadOptions | None = None) -> bytes:
    document = xliff.read(data, "x.xlf", options or ReadOptions())
    report = translate_segments(document.segments, translator)
    assert [one.problem for one in report.kept] == ["placeholder_lost"] * len(report.kept)
    return document.write([result.target for result in report.results])


def without_targets(data: bytes) -> list[tuple[object, ...]]:
    """What a parser sees, except targets and what translating adds to the attributes."""
    root = etree.fromstring(data)
    for target in root.xpath("//*[local-name()='target'][not(ancestor::*[local-name()='alt-trans'])]"):
        previous = target.getprevious()
        previous.tail = (previous.tail or "").rstrip() + (target.tail or "")
        target.getparent().remove(target)
    return [
        (one.tag, {name: value for name, value in one.attrib.items() if name not in ADDED}, (one.text or "").strip(),
         (one.tail or "").strip())
        for one in root.iter()
    ]  # fmt: skip


def target_of(data: bytes, unit: str) -> str:
    (found,) = etree.fromstring(data).xpath(f"//*[@id='{unit}']//*[local-name()='target']")
    return etree.tostring(found, encoding="unicode").split(">", 1)[1].rsplit("<", 1)[0].replace(
        ' xmlns="urn:oasis:names:tc:xliff:document:2.0"', "")  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_targets_is_the_same_bytes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    found = detect(data, "unknown")
    assert found is not None and found.name == "xliff"
    document = read_document(data, name, options=ReadOptions("en", ""))
    assert document.segments
    assert document.write([None] * len(document.segments)) == data


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_only_targets_change(name: str, order: str) -> None:
    data = (FIXTURES / name).read_bytes()
    written = translate(data, WordByWord(order=backward) if order == "backward" else WordByWord())
    assert without_targets(written) == without_targets(data)
    left = xliff.read(written, name, ReadOptions()).segments
    positional = order == "backward" and name == "xcode.xliff"  # %@ and %lld would change places
    assert [one.text for one in left] == (["%@ has %lld plants"] if positional else [])


def test_inline_elements_move_with_the_words() -> None:
    back = WordByWord(order=backward)
    data = (FIXTURES / "weblate.xlf").read_bytes()
    assert b'<g id="g2" ctype="italic">SECOND</g> EVERY</g> WATER<' in translate(data, back)
    assert '<pc id="1" dataRefStart="d1" dataRefEnd="d2">CLOSE</pc> PLEASE' in target_of(
        translate((FIXTURES / "xliff20.xlf").read_bytes(), back), "s1"
    )
    angular = translate((FIXTURES / "angular.xlf").read_bytes(), back).decode()
    assert (
        '<x id="START_BOLD_TEXT" ctype="x-b" equiv-text="&lt;b&gt;"/>GARDEN<x id="CLOSE_BOLD_TEXT" ctype="x-b" '
        'equiv-text="&lt;/b&gt;"/>! OUR TO WELCOME <x id="INTERPOLATION" equiv-text="{{ name }}"/>, HELLO</target>'
    ) in angular


def test_segments_of_a_unit_stay_segments() -> None:
    written = translate((FIXTURES / "okapi_segmented.xlf").read_bytes(), WordByWord()).decode()
    assert (
        '<target xml:lang="fr" state="needs-review-translation" state-qualifier="leveraged-mt">'
        '<mrk mid="0" mtype="seg">THE OLD GATE WAS GREEN.</mrk> <mrk mid="1" mtype="seg"><bpt id="1">&lt;run1&gt;</bpt>'
        'NOBODY<ept id="1">&lt;/run1&gt;</ept> REMEMBERED WHY<it id="2" pos="open">[2]</it>.</mrk></target>'
    ) in written
    assert '<bx id="1"/>KEEP <mrk mtype="protected">GARDEN_HOME</mrk> AS IT IS<ex id="1"/>.</target>' in written


def test_translations_are_kept_unless_asked() -> None:
    data = (FIXTURES / "weblate.xlf").read_bytes()
    written = translate(data, WordByWord()).decode()
    assert '<target state="final">Lilie je bílá.</target>' in written
    assert "THE ROSE IS RED.</target>" in written  # its state was needs-translation
    again = translate(data, WordByWord(), ReadOptions(retranslate=True)).decode()
    assert "THE LILY IS WHITE.</target>" in again and 'approved="yes"' not in again


def test_states_and_languages() -> None:
    first = (FIXTURES / "angular.xlf").read_bytes()
    assert b'original="ng2.template" target-language="de">' in translate(first, WordByWord(), ReadOptions("en", "de"))
    second = (FIXTURES / "xliff20.xlf").read_bytes()
    written = translate(second, WordByWord(), ReadOptions("en", "de"))
    assert etree.fromstring(written).get("trgLang") == "de"
    assert b'<segment id="s2" state="translated" subState="dragoman:leveraged-mt">' in written
    document = xliff.read(first, "x.xlf", ReadOptions())
    memory = document.write([Target("Hallo", document.segments[0].spans, approved=True), None])
    assert b'<target state="translated" state-qualifier="exact-match">' in memory
    with raises(DocumentError, "language_mismatch", "fr"):
        translate((FIXTURES / "okapi_segmented.xlf").read_bytes(), WordByWord(), ReadOptions("en", "de"))
    with raises(DocumentError, "language_mismatch", "en"):
        translate(first, WordByWord(), ReadOptions("de", "en"))


def test_pairs_are_the_translated_units() -> None:
    def pairs(data: bytes) -> list[tuple[str, str, bool]]:
        return list(xliff.read_pairs(data, "x", ReadOptions()))

    assert pairs((FIXTURES / "weblate.xlf").read_bytes()) == [("The lily is white.", "Lilie je bílá.", False)]
    assert pairs((FIXTURES / "xliff20.xlf").read_bytes()) == [("Finished.", "Fertig.", False)]
    written = translate((FIXTURES / "okapi_segmented.xlf").read_bytes(), WordByWord())
    assert pairs(written)[:2] == [
        ("The old gate was green.", "THE OLD GATE WAS GREEN.", True),
        ("Nobody remembered why.", "NOBODY REMEMBERED WHY.", True),
    ]
    lines = "<source>One.<x id='1' ctype='lb'/>two</source><target>Eins.<x id='1' ctype='lb'/> zwei</target>"
    assert pairs(UNIT.format(lines).encode()) == [("One. two", "Eins. zwei", False)]


def test_hostile_files() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><xliff version="1.2"><file>&b;</file></xliff>'
    with raises(DocumentError, "unsafe_document", "entities"):
        xliff.read(bomb, "x.xlf", ReadOptions())
    deep = b"<g>" * 200 + b"a" + b"</g>" * 200
    data = b'<xliff version="1.2"><file><body><trans-unit id="1"><source>%s</source></trans-unit></body></file></xliff>'
    document = xliff.read(data % deep, "x.xlf", ReadOptions())
    assert not document.segments[0].translate


@pytest.mark.parametrize("name", ["okapi_segmented.xlf", "xliff20.xlf", "angular.xlf"])
def test_damaged_files_give_an_error_or_a_well_formed_document(name: str) -> None:
    generator = random.Random(7)
    whole = (FIXTURES / name).read_text(encoding="utf-8")
    marks = [
        "<x/>",
        "</g>",
        "<g>",
        "&amp;",
        "<bx id='1'/>",
        "<ex id='1'/>",
        "<mrk>a</mrk>",
        "",
        "<source>",
        "<ph/>",
        "é",
    ]
    for _ in range(60):
        text = whole
        for _ in range(generator.randint(1, 5)):
            place = generator.randrange(60, len(text))
            place = text.find(">", place) + 1 if generator.random() < 0.5 else place
            text = text[:place] + generator.choice(marks) + text[place + generator.randint(0, 3) :]
        try:
            document = xliff.read(text.encode(), name, ReadOptions())
        except DocumentError as error:
            assert error.code == "damaged_document"
            continue
        assert document.write([None] * len(document.segments)) == text.encode()
        report = translate_segments(document.segments, WordByWord(order=backward))
        etree.fromstring(document.write([result.target for result in report.results]))


def test_icu_branches_are_translated() -> None:
    source = (
        'Tom &amp; {count, plural, =0 {no file} one {<x id="INTERPOLATION"/> new &lt;b&gt;file} other {many files}}'
    )
    unit = f'<trans-unit id="a"><source>{source}</source></trans-unit>'
    data = f'<xliff version="1.2"><file source-language="en"><body>{unit}</body></file></xliff>'.encode()
    assert target_of(translate(data, WordByWord()), "a") == (
        'TOM &amp; {count, plural, =0 {NO FILE} one {<x id="INTERPOLATION"/> NEW &lt;b&gt;FILE} other {MANY FILES}}'
    )
    assert translate(data, WordByWord(lost=frozenset(["4831"]), can_require=False)).count(b"<target") == 1


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ("&lt;b&gt;one&lt;/b&gt; file", "FILE &lt;b&gt;ONE&lt;/b&gt;"),
        ("&lt;a href=&quot;#x&quot;&gt;# file&lt;/a&gt; now", 'NOW &lt;a href="#x"&gt;FILE #&lt;/a&gt;'),
        ("<![CDATA[one <b>file</b> & {m, select, a {<i>two</i>} other {x}}]]>",
         "{m, select, a {&lt;i&gt;TWO&lt;/i&gt;} other {X}} &amp; &lt;b&gt;FILE&lt;/b&gt; ONE"),
        ('one <ph id="1">{0}</ph> <g id="2">file</g>', '<g id="2">FILE</g> <ph id="1">{0}</ph> ONE'),
        ('one <bpt id="1">&lt;b{</bpt>two<ept id="1">}</ept>', '<bpt id="1">&lt;b{</bpt>TWO<ept id="1">}</ept> ONE'),
        ("it&#39;s &amp;nbsp; <!-- { -->ok", "<!-- { -->OK &amp;nbsp; IT'S"),
    ],
)  # fmt: skip
def test_markup_in_icu_branches_is_kept(branch: str, expected: str) -> None:
    data = UNIT.format(f"<source>Tom {{n, plural, one {{{branch}}} other {{files}}}}</source>").encode()
    written = target_of(translate(data, WordByWord(order=backward)), "u")
    assert written == f"{{n, plural, one {{{expected}}} other {{FILES}}}} TOM"


UNIT = '<xliff version="1.2"><file source-language="en"><body><trans-unit id="u">{}</trans-unit></body></file></xliff>'
UNIT_2 = '<xliff version="2.0" srcLang="en"><file id="f"{}><unit id="u"><segment>{}</segment></unit></file></xliff>'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("one &lt;b&gt;two&lt;/b&gt; three", "THREE &lt;b&gt;TWO&lt;/b&gt; ONE"),
        ("<![CDATA[one <a href='x'>two</a>]]>", "&lt;a href='x'&gt;TWO&lt;/a&gt; ONE"),
        ("one a&amp;nbsp;b", "A&amp;nbsp;B ONE"),
        ("one two&lt;br&gt;three", "TWO ONE&lt;br&gt;THREE"),
        ('<g id="1">one</g> two.<x id="2" ctype="lb"/>three', 'TWO. <g id="1">ONE</g><x id="2" ctype="lb"/>THREE'),
        ('one two<x id="1" ctype="lb"/>three four', 'TWO ONE<x id="1" ctype="lb"/>FOUR THREE'),
        (
            'one <ph id="1">&lt;br/&gt;</ph> <g id="2">two three</g>',
            'ONE <ph id="1">&lt;br/&gt;</ph> <g id="2">THREE TWO</g>',
        ),
        ('one<ph id="1">&lt;br/&gt;</ph> two three', 'ONE<ph id="1">&lt;br/&gt;</ph> THREE TWO'),
        ('one two<ph id="1">&lt;br/&gt;</ph>', 'TWO ONE<ph id="1">&lt;br/&gt;</ph>'),
        ('<g id="1">a &lt;/g&gt; b</g> c', 'C <g id="1">B A&lt;/g&gt;</g>'),
        ('&lt;b&gt;one <x id="1"/> two&lt;/b&gt; c', 'C &lt;b&gt;TWO <x id="1"/> ONE&lt;/b&gt;'),
    ],
)
def test_escaped_tags_are_markup(source: str, expected: str) -> None:
    written = translate(UNIT.format(f"<source>{source}</source>").encode(), WordByWord(order=backward))
    assert target_of(written, "u") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            'one <x id="1"/> two <g id="2">by <x id="3"/> six</g>',
            '<g id="2">SIX <x id="3"/> BY</g> TWO <x id="1"/> ONE',
        ),
        ('one two <x id="1"/>, six', 'SIX <x id="1"/>, TWO ONE'),
        ('One two. <x id="1"/> Six.', 'TWO. ONE <x id="1"/> SIX.'),
    ],
)
def test_variables_between_words_keep_their_spaces(source: str, expected: str) -> None:
    written = translate(UNIT.format(f"<source>{source}</source>").encode(), WordByWord(order=backward))
    assert target_of(written, "u") == expected


def test_filled_segments_of_a_unit_stay_and_empty_ones_are_filled() -> None:
    marks = '<mrk mid="0" mtype="seg">{}</mrk> <mrk mid="1" mtype="seg">{}</mrk>'
    unit = f"<source>one. two.</source><seg-source>{marks.format('one.', 'two.')}</seg-source>"
    data = UNIT.format(f"{unit}<target>{marks.format('eins.', '')}</target>").encode()
    assert target_of(translate(data, WordByWord()), "u") == marks.format("eins.", "TWO.")
    again = translate(data, WordByWord(), ReadOptions(retranslate=True))
    assert target_of(again, "u") == marks.format("ONE.", "TWO.")
    assert list(xliff.read_pairs(data, "x.xlf", ReadOptions())) == [("one.", "eins.", False)]


def test_what_is_not_to_be_translated_in_version_2_stays() -> None:
    data = UNIT_2.format(' translate="no"', "<source>one two</source>").encode()
    assert translate(data, WordByWord()) == data
    kept = '<sm id="1" translate="no"/>two three<em startRef="1"/>'
    written = translate(UNIT_2.format("", f"<source>one {kept} four</source>").encode(), WordByWord(order=backward))
    assert target_of(written, "u") == f"FOUR {kept} ONE"


@pytest.mark.parametrize(
    "unit",
    [
        '<source>one</source><target><mrk mtype="seg" mid="0">eins</mrk></target>',
        '<source>one</source><seg-source><mrk mtype="seg" mid="1">one</mrk></seg-source>'
        '<target><mrk mtype="seg" mid="0">eins</mrk><mrk mtype="seg" mid="1"></mrk></target>',
    ],
)
def test_translations_in_other_segments_than_those_of_the_source_stay(unit: str) -> None:
    data = UNIT.format(unit).encode()
    assert translate(data, WordByWord()) == data


def test_a_closing_code_that_is_not_to_be_translated_is_no_error() -> None:
    source = '<sc id="1"/>one<ec startRef="1" translate="no"/>'
    written = translate(UNIT_2.format("", f"<source>{source}</source>").encode(), WordByWord())
    assert target_of(written, "u") == source.replace("one", "ONE")
