"""Spans on the words of a translation whose alignment is known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.formats.html import html
from dragoman.documents.segment import Segment, SegmentBuilder, Span, render
from dragoman.documents.transfer import words
from dragoman.documents.transfer.aligned_text import AlignedUnit
from dragoman.documents.transfer.assembly import Job, Unit, align_units
from dragoman.documents.transfer.masks import MaskedText
from dragoman.documents.transfer.projection import project
from dragoman.documents.transfer.ranges import Places, Range, RangeSet, best_range
from dragoman.documents.transfer.words import WordParts, locate_tokens, space_ranges
from dragoman.documents.translate import translate_segments
from dragoman.text import word_groups
from dragoman.translation.result import Translation
from word_by_word import WordByWord, backward


def parse(markup: str) -> Segment:
    builder = SegmentBuilder()
    for token in re.findall(r"</?\w+/?>|[^<]+", markup):
        name = token.strip("</>")
        if not token.startswith("<"):
            builder.add_text(token)
        elif token.endswith("/>"):
            builder.add_point(token, name=name)
        elif token.startswith("</"):
            builder.close_pair(token, name)
        else:
            builder.open_pair(token, name=name)
    return builder.build()


def translate(markup: str, translator: WordByWord) -> str:
    (result,) = translate_segments([parse(markup)], translator).results
    assert result.target is not None
    return render(result.target)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("one <b>two</b> three", "THREE <b>TWO</b> ONE"),
        ("one <b>two three</b> four", "FOUR <b>THREE TWO</b> ONE"),
        ("<b>one <i>two</i></b> three", "THREE <b><i>TWO</i> ONE</b>"),
        ("<b>one</b> <i>two</i>", "<i>TWO</i> <b>ONE</b>"),
        ("<b>one two</b>", "<b>TWO ONE</b>"),
        ("one <b>two</b>, three", "THREE <b>TWO</b>, ONE"),
        ("one two<f/> three", "THREE TWO<f/> ONE"),
        ("one <f/>two three", "THREE <f/>TWO ONE"),
        ("<f/>one two<g/>", "<f/>TWO ONE<g/>"),
        ("<b>one<f/> two</b> three", "THREE <b>TWO ONE<f/></b>"),
        ("one <b>two <i>three", "<b>THREE <i>TWO ONE"),  # their ends are elsewhere, so their order matters
        ("one</i> two</b> three", "THREE TWO</i> ONE</b>"),
    ],
)
def test_markup_follows_its_words(markup: str, expected: str) -> None:
    assert translate(markup, WordByWord(order=backward)) == expected


def test_a_span_over_sentences_encloses_both() -> None:
    markup = "<b>One two. Three</b> four. Five"
    assert translate(markup, WordByWord()) == "<b>ONE TWO. THREE</b> FOUR. FIVE"


def test_a_stray_word_does_not_stretch_a_span() -> None:
    def order(words: list[str]) -> list[int]:
        return [0, 1, 3, 4, 5, 6, 2]  # "c" goes to the end

    translator = WordByWord(order=order)  # type: ignore[arg-type]
    assert translate("<b>a b c</b> d e f g", translator) == "<b>A B</b> D E F G C"


def test_a_placeholder_stays_inside_its_tag() -> None:
    translator = WordByWord(order=backward)
    assert translate("open <a>the {name} file</a> now", translator) == "NOW <a>FILE {name} THE</a> OPEN"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_markup_comes_back_complete_and_nested(data: st.DataObject) -> None:
    names = st.sampled_from(["b", "i", "u"])
    pieces, stack = list[str](), list[str]()
    for number in range(data.draw(st.integers(1, 12))):
        match data.draw(st.integers(0, 5)):
            case 0:
                stack.append(data.draw(names))
                pieces.append(f"<{stack[-1]}>")
            case 1 if stack:
                pieces.append(f"</{stack.pop()}>")
            case 2:
                pieces.append("<p/>")
            case _:
                pieces.append(f"w{number}{data.draw(st.sampled_from([' ', ' ', ', ', '. ']))}")
    markup = "".join([*pieces, *(f"</{name}>" for name in reversed(stack)), "end"])
    words = len(parse(markup).text.split())
    order = data.draw(st.permutations(range(words)))
    translator = WordByWord(order=lambda words: [i for i in order if i < len(words)])
    written = translate(markup, translator)
    tags = re.findall("<.*?>", written)
    assert sorted(tags) == sorted(re.findall("<.*?>", markup))
    open_tags: list[str] = []
    for tag in tags:
        if tag.startswith("</"):
            assert open_tags.pop() == tag[2:-1]
        elif not tag.endswith("/>"):
            open_tags.append(tag[1:-1])
    assert (
        re.sub("<.*?>", "", written).split() == re.sub("<.*?>", "", translate(parse(markup).text, translator)).split()
    )


def test_best_range_is_that_of_an_exhaustive_search() -> None:
    values = [-1, 2, -0.25, 1, -3, 2.5, -0.25, -1, 1]
    ranges = [(sum(values[a:b]), a, b) for a in range(len(values)) for b in range(a + 1, len(values) + 1)]
    listed = [(i, value) for i, value in enumerate(values) if value not in (-0.25, -3)]
    for some in (list(enumerate(values)), listed):
        score, low, high = best_range(some, lambda low, high: sum(values[low:high]))
        assert (score, low, high) == max(ranges)
        assert score == sum(values[low:high])
    assert best_range([(0, -1.0), (1, -2.0)], lambda low, high: 0.0) == (0.0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=8))
def test_a_set_of_ranges_is_a_set_of_places(given_ranges: list[tuple[int, int]]) -> None:
    ranges, places = RangeSet(), set[int]()
    for low, size in given_ranges:
        new = set(range(low, low + size))
        assert ranges.overlaps(low, low + size) == bool(places & new)
        if not places & new:
            ranges.add(low, low + size)
            places |= new
    assert [ranges.next_free(i) for i in range(26)] == [min(set(range(i, 60)) - places) for i in range(26)]


@pytest.mark.parametrize("alignment", [True, False])
def test_thousands_of_pairs_in_a_sentence_follow_their_words(alignment: bool) -> None:
    """In seconds: the time must not grow with the square of their number."""

    class Aligned(WordByWord):
        def translation(self, text: str, lost: frozenset[str], _: bool) -> Translation:
            return super().translation(text, lost, alignment)

    n = 4_000
    markup = " ".join(f"<b>one {{a{i}}}</b> two<p/> <i>three" for i in range(n))
    written = translate(markup, Aligned(order=backward))
    assert sorted(re.findall("<.*?>", written)) == sorted(re.findall("<.*?>", markup))
    if alignment:
        last = " ".join(f"<i>THREE TWO<p/> <b>{{a{i}}} ONE</b>" for i in (1, 0))
        assert written.endswith(last)


def test_attention_is_pooled_from_tokens_to_parts() -> None:
    text, tokens = "ab cd, e", ["▁a", "b", "▁cd,", "▁", "e"]
    places = locate_tokens(text, tokens).tokens
    assert places == ([0, 1, 3, 6, 7], [1, 2, 6, 6, 8])
    words = WordParts(text)
    words.add_words(space_ranges(text))
    assert words.parts == [(0, 2), (3, 5), (5, 6), (7, 8)]
    weights = np.array([[0.1, 0.2, 0.3, 0.3, 0.1], [0.0, 0.0, 0.0, 1.0, 0.0]])
    unit = AlignedUnit((0, 4), (0, 2), weights, places)
    roots = [
        0.1**0.5,
        0.2**0.5,
        0.3**0.5,
        0,
        0.1**0.5,
    ]  # the first row has all of each visible column
    shares = [root / sum(roots) for root in roots]
    expected = [[shares[0] + shares[1], shares[2] * 2 / 3, shares[2] / 3, shares[4]], [0, 0, 0, 0]]
    np.testing.assert_allclose(np.transpose([unit.share(*part) for part in words.parts]), expected)
    np.testing.assert_allclose(unit.share(1, 5), [shares[1] + shares[2] * 2 / 3, 0])


def test_a_source_token_is_shared_among_the_tokens_that_attend_to_it() -> None:
    weights = np.array([[0.64, 0.36], [0.04, 0.25]])
    unit = AlignedUnit((0, 2), (0, 2), weights, Places([0, 2], [1, 3]))
    raw = [[0.8 * (0.8 / 1.0) ** 2, 0.6 * (0.6 / 1.1) ** 2], [0.2 * (0.2 / 1.0) ** 2, 0.5 * (0.5 / 1.1) ** 2]]
    np.testing.assert_allclose(unit.shares, [[a / (a + b), b / (a + b)] for a, b in raw])
    np.testing.assert_allclose(unit.eos_shares, [0, 0.71**0.5], atol=1e-7)  # the rest is on the EOS token
    places = locate_tokens("für x", ["▁f", "<0xC3>", "<0xBC>", "r", "▁", "▁x"]).tokens
    assert places == ([0, 0, 0, 0, 3, 4], [3, 3, 3, 3, 3, 5])


def test_attention_decides_where_links_are_missing() -> None:
    """The links say nothing of B and C, but a good share of their attention is on the words of the pair."""
    links = ((0, 0), (3, 3))
    weights = np.array([[0.9, 0.1, 0, 0], [0.1, 0.3, 0.3, 0.3], [0.2, 0.2, 0.4, 0.2], [0, 0, 0.1, 0.9]])

    class Attentive(WordByWord):
        def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
            return replace(super().translation(text, lost, alignment), alignment=links, alignment_weights=weights)

    assert translate("a <b>b c</b> d", Attentive()) == "A <b>B C</b> D"
    assert translate("<b>a</b> b c <i>d</i>", Attentive()) == "<b>A</b> B C <i>D</i>"


@pytest.mark.parametrize(("pair", "expected", "linked"), [((2, 3), (2, 3), False), ((2, 4), (2, 4), True)])
def test_links_are_found_only_where_attention_says_nothing(pair: Range, expected: Range, linked: bool) -> None:
    """Punctuation has none."""
    texts = "a b, c", "A B, C"
    tokens = [tuple("▁" + word for word in text.split()) for text in texts]
    links = ((0, 0), (1, 1), (2, 2))
    made = Translation(
        texts[1], tokens=tokens[1], source_tokens=tokens[0], alignment=links, alignment_weights=np.eye(3)
    )
    unit = Unit(MaskedText(texts[0]), "", translation=made)
    aligned = align_units(Job(Segment(texts[0]), [unit], ""), *texts)
    found = project(Segment(texts[0], (Span(*pair, name="b"),)), aligned, {})
    assert found is not None and (found[0].spans[0].start, found[0].spans[0].end) == expected
    assert ("links" in vars(aligned.units[0])) == linked


def test_words_that_attend_to_eos_stay_outside_of_pairs() -> None:
    """The second word attends to the EOS token, and a little to the word of the pair and to no other."""
    for eos, expected in ((0.0, "<b>A B</b> C"), (0.94, "<b>A</b> B C")):
        weights = np.array([[1.0, 0, 0], [1 - eos, 0, 0], [0, 0, 1.0]])

        class Attentive(WordByWord):
            def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
                plain = super().translation(text, lost, alignment)
                return replace(plain, alignment=((0, 0), (2, 2)), alignment_weights=weights)  # noqa: B023

        assert translate("<b>a</b> b c", Attentive()) == expected


@pytest.mark.parametrize(
    ("markup", "expected", "unaligned"),
    [
        ("a <b>b</b> c", "A B <b>C</b>", ()),
        ("a b c <b>d</b>", "A <b>B</b> C", ("b",)),  # a guess
        ("a <b>b</b> <b>c</b>", "A B <b></b><b>C</b>", ("b",)),  # not on B, which attends to b a little
    ],
)
def test_pairs_without_words_that_clearly_attend_to_them_are_to_be_reviewed(
    markup: str, expected: str, unaligned: tuple[str, ...]
) -> None:
    weights = np.array([[1.0, 0, 0, 0], [0.0, 0.1, 0, 0.05], [0, 0.6, 0.4, 0]])

    class Attentive(WordByWord):
        def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
            plain = super().translation(text, lost, alignment)
            links = ((0, 0), (0, 1), (1, 2), (2, 2))
            words = text.upper().split()[:3]
            n = len(text.split())
            return replace(
                plain, text=" ".join(words), tokens=plain.tokens[:3], alignment=links, alignment_weights=weights[:, :n]
            )

    (result,) = translate_segments([parse(markup)], Attentive()).results
    assert result.target is not None and (render(result.target), result.unaligned) == (expected, unaligned)


def test_words_of_tokens_are_found_in_the_text() -> None:
    assert locate_tokens("a  bcd 你好", ["▁a", "▁b", "cd", "▁", "你", "好"]).words == [(0, 1), (3, 6), (7, 8), (8, 9)]
    assert locate_tokens("Ab cd", ["▁ab", "▁c", "@@d"]).words == space_ranges("Ab cd")  # changed by its tokenizer
    assert locate_tokens("a b c", ["▁x", "▁yz1"]).words is None


TOKENS = st.lists(st.sampled_from(["▁", "▁a", "▁bc", "d", "ef▁g", "。", "▁你", "好", "<0x20>", "</s>", "<", "", "ü,"]))


@given(TOKENS)
def test_plain_sentences_have_the_places_of_all_others(tokens: list[str]) -> None:
    text = "".join(tokens).replace("▁", " ").strip()
    found, ids = locate_tokens(text, tokens), word_groups.visible_word_ids(tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "plain_places", lambda text, tokens: None)
        patch.setattr(word_groups, "word_step", lambda token: 2)
        assert locate_tokens(text, tokens) == found
        assert word_groups.visible_word_ids(tokens) == ids


@pytest.mark.parametrize("alignment", [True, False])
@pytest.mark.parametrize(
    "markup",
    [
        "one two\n<f/> three four",
        "one two\n\n <f/>\tthree\n <g/> \n four five",
        "one <b> \n </b> two",
        "<b>one\n <f/> \ntwo</b>\n <g/>\n three",
        " <f/> one two\n <g/> ",
        "- <f/> one\n * two",
    ],
)
def test_markup_between_sentences_stays_there(markup: str, alignment: bool) -> None:
    class Aligned(WordByWord):
        def translation(self, text: str, lost: frozenset[str], _: bool) -> Translation:
            return super().translation(text, lost, alignment)

    upper = re.sub(r"\w+(?![^<]*>)", lambda word: word[0].upper(), markup)
    assert translate(markup, Aligned()) == upper


def test_without_an_alignment_a_point_stays_in_its_sentence() -> None:
    class Unaligned(WordByWord):
        def translation(self, text: str, lost: frozenset[str], _: bool) -> Translation:
            return super().translation(text, lost, False)

    assert translate("One two. Three<f/> four five. Six seven.", Unaligned()) == (
        "ONE TWO.<f/> THREE FOUR FIVE. SIX SEVEN."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One <b>two</b> six. Three four<sup>1</sup>", "SIX. <b>TWO</b> ONE FOUR THREE<sup>1</sup>"),
        ("One <b>two</b> six. Three %s four<i></i>", "SIX. <b>TWO</b> ONE FOUR %s THREE<i></i>"),
    ],
)
def test_markup_stays_in_a_sentence_without_an_alignment(text: str, expected: str) -> None:
    """One with nothing between its words is not aligned."""
    document = html.read(f"<p>{text}</p>".encode(), "a.html")
    (result,) = translate_segments(document.segments, WordByWord(order=backward)).results
    assert document.write([result.target]).decode() == f"<p>{expected}</p>"


class Compounds(WordByWord):
    """Joins "central bank" to one word, which both words are aligned with, and adds a full stop without a link."""

    def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
        words = text.split()
        own = [0] * len(words)
        for i, word in enumerate(words[1:], 1):
            own[i] = own[i - 1] + (word != "bank")
        written = [*text.upper().replace("CENTRAL BANK", "CENTRALBANK").removesuffix(".").split(), "."]
        return Translation(
            " ".join(written),
            tokens=tuple("▁" + word for word in written),
            source_tokens=tuple("▁" + word for word in words),
            alignment=tuple((i, t) for i, t in enumerate(own)),
        )


@pytest.mark.parametrize(
    ("markup", "expected", "unaligned"),
    [
        ("the <b>central</b> <i>bank</i> said", "THE <b><i>CENTRALBANK</i></b> SAID .", ()),
        ("the <b>central</b> <b>bank</b> said", "THE <b></b><b>CENTRALBANK</b> SAID .", ("b",)),
    ],
)
def test_a_compound_has_the_markup_of_all_its_words(markup: str, expected: str, unaligned: tuple[str, ...]) -> None:
    (result,) = translate_segments([parse(markup)], Compounds()).results
    assert result.target is not None
    assert (render(result.target), result.unaligned) == (expected, unaligned)
    assert result.needs_review is bool(unaligned)
