"""The pattern that finds tags and text agrees with Expat, and plain runs with trees of all their elements."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.documents.formats.office.docx import RULES
from dragoman.documents.formats.office.part import read_part
from dragoman.documents.formats.office.xml import scanner
from dragoman.documents.formats.office.xml.events import MAX_DEPTH, NAMESPACES, is_well_formed, parse
from dragoman.documents.formats.office.xml.scanner import RunNames, scan
from dragoman.documents.formats.office.xml.tree import Element, PlainRuns, TreeReader
from dragoman.errors import DocumentError
from raising import raises

WORD = next(address for address, prefix in NAMESPACES.items() if prefix == "w")
RUN_NAMES = RunNames(RULES.paragraphs, RULES.runs, RULES.properties, RULES.texts)
TRICKY = [
    "<a b='>' c=\"/>\">x</a>",
    "<a b='\"/' />",
    "<a\n  b = 'x'\tc\r\n=\r\n\"y\"\n>t</a\n>",
    "<a b='&lt;&#x41;&#66;&quot;&#10;\t\r\n\r'>&amp;&apos;&gt;\r\n\r&#13;&#x1F600;</a>",
    "<a>x<![CDATA[<b>&amp;]]>]]<![CDATA[]]>y<![CDATA[\r\n]]></a>",
    "<a><![CDATA[]]><!-- <b> --><?pi <b> ?>x<!----></a>",
    "<?xml version='1.0'?>\n<!-- - --><a/>\n<?end?>",
    f"<k:a xmlns:k='{WORD}' k:b='1' b='2' xml:lang='en'><k:a xmlns:k='urn:x' k:b='3'/><k:a/></k:a>",
    f"<a xmlns='{WORD}' b='1'><a xmlns='' b='2'><a xmlns='urn:&amp;x'/></a><a/></a>",
    f"<w:a xmlns:w='{WORD}' xmlns:v='{WORD}'><v:a w:x='1' v:y='2'/></w:a>",
    "<é b='日本'>𝄞<日本/>></é>",
]
RUNS = [
    "<w:r><w:t>a</w:t></w:r>" * 3,
    "<w:r w:id='1'><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r><w:r w:id='2'><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r>",
    "<w:r><w:rPr><w:b><w:i/></w:b></w:rPr><w:t>a &amp; b</w:t></w:r><w:r><w:rPr/><w:t></w:t></w:r>",
    "<w:r><w:rPr/></w:r><w:t>a</w:t><w:r/><w:t>b</w:t><w:r><w:t/></w:r><w:r><w:t/>a</w:r>",
    "<w:r a='>'><w:t>a</w:t></w:r><w:r><w:t a='>'>a</w:t></w:r><w:r><w:t a='x>y'>a</w:t></w:r>",
    "<w:ins><w:r><w:t a='>'/></w:r></w:ins><w:r><w:t a='>' b='/'/></w:r><w:r><w:t>a > b</w:t></w:r>",
    "<w:r><w:t>a<!-- --></w:t></w:r><w:r><w:t><![CDATA[a]]></w:t></w:r><w:r>a<w:t>b</w:t></w:r>",
    "<w:r><w:t>a</w:t ></w:r><w:r><w:t>a</w:t></w:r >",
    "<w:r><w:t>a</w:t></w:r><w:r xmlns:w='urn:x'><w:t>a</w:t></w:r><w:r><w:t xmlns:w='urn:x'>a</w:t></w:r>",
    "<w:r><w:rPr><w:t></w:t></w:rPr><w:t>a</w:t></w:r><w:r><w:b/><w:t>a</w:t></w:r><w:r><w:b/></w:r>",
    "<w:b><w:r><w:t>a</w:t></w:r><w:r><w:t>b</w:t></w:r></w:b>",
]


def as_expat_has_it(text: str) -> list[tuple[Any, ...]]:
    events = [event for event in parse(text, "part") if event.kind != "other"]
    return [(event.kind, *event[1:3], event.name * (event.kind == "start"), *event[4:]) for event in events]


@pytest.mark.parametrize("text", TRICKY)
def test_pieces_are_those_of_expat(text: str) -> None:
    pieces = [(*piece[:4], piece[4](), piece[5]) for piece in scan(text, "part", RunNames())]
    around = [i for i, piece in enumerate(pieces) if piece[0] != "text"]
    assert pieces[around[0] : around[-1] + 1] == as_expat_has_it(text)  # without white space around the root


@pytest.mark.parametrize("runs", RUNS)
def test_plain_runs_have_the_elements_of_trees(runs: str) -> None:
    text = f"<w:p xmlns:w='{WORD}'>{runs}</w:p>"
    (plain,), (tree,) = (
        TreeReader(text, "part", False, RULES.paragraphs, frozenset(), frozenset(), names).read()
        for names in (RUN_NAMES, RunNames())
    )
    assert [dump(one) for child in plain.children for one in divided(child)] == [dump(one) for one in tree.children]
    assert words(plain) == words(tree)


def divided(element: Element) -> list[Element]:
    return [*element.divide()] if isinstance(element, PlainRuns) else [element]


def dump(element: Element) -> tuple[Any, ...]:
    place = element.start, element.end, element.content, element.closing
    return element.name, *place, dict(element.attributes), element.value, [dump(child) for child in element.children]


def words(element: Element) -> list[str]:
    return [one.value for one in element.walk() if not one.name]


def test_neighbors_that_look_the_same_are_one() -> None:
    text = f"<w:p xmlns:w='{WORD}'>{RUNS[0]}{RUNS[1]}{RUNS[0]}</w:p>"
    (plain,) = TreeReader(text, "part", False, RULES.paragraphs, frozenset(), frozenset(), RUN_NAMES).read()
    assert [one.texts() for one in plain.children if isinstance(one, PlainRuns)] == [[*"aaa"], [*"ab"], [*"aaa"]]


@pytest.mark.parametrize("blank", [" ", "", "&#32;"])
def test_runs_without_words_are_no_part_of_a_segment(blank: str) -> None:
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    runs = "".join(map(run.format, (blank, "one ", "two", blank)))
    text = f"<w:p xmlns:w='{WORD}'>{runs}</w:p>"
    slot = read_part(text.encode(), "part", "part", RULES).slots[0]
    assert slot.segment.text == "one two"
    assert text[slot.start : slot.end] == run.format("one ") + run.format("two")


def test_many_runs_are_one_segment() -> None:
    runs = "<w:r><w:t>a</w:t></w:r>" * 1000
    (slot,) = read_part(f"<w:p xmlns:w='{WORD}'>{runs}</w:p>".encode(), "part", "part", RULES).slots
    assert slot.segment.text == "a" * 1000 and slot.segment.spans == ()


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "MAX_TAGS", 2)
    monkeypatch.setattr(scanner, "MAX_SCOPES", 1)
    text = "".join(f"<a{i % 7} b='{i % 5}' xmlns='urn:{i % 3}'><c b='{i}'/></a{i % 7}>" for i in range(40))
    test_pieces_are_those_of_expat(f"<a>{text}</a>")


@pytest.mark.parametrize("inside", ["<w:r><w:t>a</w:t></w:r>", "<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>"])
def test_runs_are_not_nested_too_deep(inside: str) -> None:
    depth = MAX_DEPTH - (3 if "rPr" in inside else 2)
    for more in (0, 1):
        n = depth + more - 1
        text = f"<w:p xmlns:w='{WORD}'>{'<w:ins>' * n}{inside}{'</w:ins>' * n}</w:p>".encode()
        if more:
            with raises(DocumentError, "unsafe_document", "nested"):
                read_part(text, "part", "part", RULES)
        else:
            read_part(text, "part", "part", RULES)


def test_only_well_formed_parts_without_a_document_type_are_plain() -> None:
    assert is_well_formed("<a>𝄞</a>")
    assert not any(map(is_well_formed, ("<a>", "<!DOCTYPE a><a/>", "<a>&nbsp;</a>", "<b:a/>", "")))
