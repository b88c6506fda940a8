from __future__ import annotations

import re

import pytest

from dragoman.documents.segment import MAX_DEPTH, SegmentBuilder, render


def test_rendering_gives_the_markup_back_in_its_order() -> None:
    builder = SegmentBuilder()
    for text, markup in (("a ", "<b>"), ("b", "<br>"), ("", "<i>")):
        builder.add_text(text)
        if markup == "<br>":
            builder.add_point(markup)
        else:
            builder.open_pair(markup, name=markup[1])
    builder.add_text("c")
    builder.close_pair("</i>", "i")
    builder.add_point("<img>")
    builder.close_pair("</b>", "b")
    builder.add_protected("<0>", "&lt;0&gt;")
    segment = builder.build()
    assert segment.text == "a bc<0>"
    assert render(segment, str.upper) == "A <b>B<br><i>C</i><img></b>&lt;0&gt;"


@pytest.mark.parametrize(("collapse", "markup"), [(False, "one.<br>two<br>"), (True, "one.<br><img>")])
def test_a_space_that_divides_words_at_a_line_break_is_not_written(collapse: bool, markup: str) -> None:
    builder = SegmentBuilder(collapse=collapse)
    for found in re.finditer(r"(<\w+>)|[^<]+", markup):
        if found[1]:
            builder.add_point(found[1], name=found[1].strip("<>"))
            builder.separate_words(found[1].strip("<>"), markup[found.end() : found.end() + 1])
        else:
            builder.add_text(found[0])
    segment = builder.build()
    assert segment.text == ("one." if collapse else "one. two") and render(segment) == markup


def test_crossing_and_unclosed_markup_becomes_points_and_keeps_its_order() -> None:
    builder = SegmentBuilder()
    builder.open_pair("<b>", name="b")
    builder.add_text("x")
    builder.open_pair("<i>", name="i")
    builder.add_text("y")
    builder.close_pair("</b>", "b")
    builder.add_text("z")
    builder.close_pair("</i>", "i")
    builder.open_pair("<u>", name="u")
    builder.add_text("!")
    segment = builder.build()
    assert [span.kind for span in segment.spans] == ["pair", "point", "point", "point"]
    assert render(segment) == "<b>x<i>y</b>z</i><u>!"


def test_deep_nesting_does_not_exhaust_the_stack() -> None:
    builder, depth = SegmentBuilder(), 40 * MAX_DEPTH
    for _ in range(depth):
        builder.open_pair("<b>", name="b")
    builder.add_text("x")
    for _ in range(depth):
        builder.close_pair("</b>", "b")
    assert render(builder.build()) == "<b>" * depth + "x" + "</b>" * depth


def test_collapsed_white_space_is_one_space() -> None:
    builder = SegmentBuilder(collapse=True)
    for text in ("  a \n", "\tb ", "c", "  "):
        builder.add_text(text)
    assert builder.build().text == "a b c "
