from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.segment import Segment, Span
from dragoman.documents.transfer.masks import mask_text, remask
from dragoman.documents.transfer.placeholders import PLACEHOLDER, find_placeholders, may_have_placeholders
from dragoman.documents.transfer.protected import protect_placeholders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello {name}, {0} of {1:.2f} and {}", ["{name}", "{0}", "{1:.2f}", "{}"]),
        ("%s has %d files (%1$s, %(count)d, %05.2f, %@)", ["%s", "%d", "%1$s", "%(count)d", "%05.2f", "%@"]),
        ("{{ user.name }} and ${total} and %{n} and #{x}", ["{{ user.name }}", "${total}", "%{n}", "#{x}"]),
        (
            "{% if n > 1 %}many{%- else -%}one{% endif %} {# that is all #} {% {x}",
            ["{% if n > 1 %}", "{%- else -%}", "{% endif %}", "{# that is all #}", "{x}"],
        ),
        ("Hello <%= user.name %>, <% 5% of %> <%", ["<%= user.name %>", "<% 5% of %>"]),
        ("Hello <?= $name ?>, <% if a > b %>", ["<?= $name ?>", "<% if a > b %>"]),
        (
            ":wave: @alice and @bob-b, see @c/d :+1: :x: (10:30:15, a:b:c, 5 @ home, @@x)",
            [":wave:", "@alice", "@bob-b", "@c", ":+1:", ":x:"],
        ),
        ("<0>Click</0> here<1/>", ["<0>", "</0>", "<1/>"]),
        ("Write to a.b@c-d.org, see https://x.org/a?b=c.", ["a.b@c-d.org", "https://x.org/a?b=c"]),
        ("See www.example.com/path).", ["www.example.com/path"]),
        ("{n, number} on {d, date, short}", ["{n, number}", "{d, date, short}"]),
        ("%s个文件, %1$s个, %name%个, 0x%08lx, 9%%%5.1f", ["%s", "%1$s", "%name%", "%08lx", "9%%", "%5.1f"]),
        ("50% discount, 100%sure, 5 % of it, 20%-off", []),
        ("a {not a placeholder} and { 1 }", []),
    ],
)
def test_placeholders_are_found(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in find_placeholders(text)] == expected


@given(st.from_regex(PLACEHOLDER))
def test_the_quick_look_misses_no_placeholder(text: str) -> None:
    assert may_have_placeholders(text)


def test_a_colon_alone_is_not_looked_at_further() -> None:
    assert not may_have_placeholders("Mr President: no, thank you; nothing more (3:15).")


def test_placeholders_are_inside_the_pair_that_encloses_them() -> None:
    text = "See {a} and {b}, not {c}"
    code = Span(21, 24, "protected", "<code>{c}</code>")
    segment = protect_placeholders(Segment(text, (Span(0, 16, name="b"), Span(12, 15, name="i"), code)))
    found = [(text[span.start : span.end], span.parent) for span in segment.spans[3:]]
    assert found == [("{a}", 0), ("{b}", 1)]


def test_masks_do_not_occur_in_the_text_and_differ() -> None:
    text = "x1 {a} X1002 {b} {c}"
    spans = [
        (i, Span(text.index(one), text.index(one) + 3, "protected")) for i, one in enumerate(("{a}", "{b}", "{c}"))
    ]
    masked = mask_text(text, spans)
    words = [mask.word for mask in masked.masks]
    assert len(set(words)) == 3 and not any(word.casefold() in text.casefold() for word in words)
    assert masked.text == "x1 {} X1002 {} {}".format(*words)
    again = remask(masked)
    assert {mask.word for mask in again.masks}.isdisjoint(words)
    assert again.text == "x1 {} X1002 {} {}".format(*(mask.word for mask in again.masks))


@pytest.mark.parametrize(
    ("translation", "found"),
    [
        ("Hallo X1, du hast X2.", [6, 18]),
        ("X2 (X1)", [4, 0]),
        ("我们X1和X2。", [2, 5]),
        ("Hallo X1, du hast X1 und X2", None),  # twice
        ("Hallo X1", None),  # lost
        ("Hallo X1en und X2", None),  # part of a word
        ("Hallo X1-Tage und X2", [6, 18]),  # a compound
        ("Hallo X1-2 und X2", None),
        ("Hallo X1 und X21", None),
    ],
)
def test_a_translation_must_have_every_mask_once(translation: str, found: list[int] | None) -> None:
    text = "Hello {a}, you have {b}."
    masked = mask_text(text, [(0, Span(6, 9, "protected")), (1, Span(20, 23, "protected"))])
    assert masked.text == "Hello X1, you have X2."
    assert masked.locate(translation) == found


def test_a_placeholder_that_is_part_of_a_word_may_stay_part_of_one() -> None:
    masked = mask_text("a {n}-day trip", [(0, Span(2, 5, "protected", name="{n}"))])
    (mask,) = masked.masks
    assert mask.word.isdecimal()  # it stands for a number
    assert masked.locate(f"eine {mask.word}-Tage-Reise") == [5]


@pytest.mark.parametrize(
    ("name", "numeric"),
    [("%d", True), ("%1$5.2f", True), ("%(n)lu", True), ("{count}", True), ("%s", False), ("%s.pdf", False)],
)
def test_numbers_are_masked_by_numbers(name: str, numeric: bool) -> None:
    (mask,) = mask_text(f"a {name} b", [(0, Span(2, 2 + len(name), "protected", name=name))]).masks
    assert mask.word.isdecimal() is numeric


def test_markup_ends_a_placeholder() -> None:
    text = "%sfiles %name%s www.x.org/ab {cd}"
    edges = [2, 14, text.index("b "), text.index("d}")]
    segment = protect_placeholders(Segment(text, tuple(Span(edge, edge, "point") for edge in edges)))
    found = [text[span.start : span.end] for span in segment.spans if span.kind == "protected"]
    assert found == ["%s", "%name%", "www.x.org/a"]


def test_a_number_with_markup_inside_is_not_protected_as_the_base_of_an_exponent() -> None:
    text = "the value 10 of 12"
    segment = Segment(text, (Span(11, 12, name="b"), Span(12, 12, "point", name="sup"), Span(18, 18, "point")))
    found = protect_placeholders(segment, others=[(10, 12), (16, 18)]).spans[3:]
    assert [text[span.start : span.end] for span in found] == ["12"]
