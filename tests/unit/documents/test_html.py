from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from dragoman.documents.formats.html import html
from dragoman.documents.markup import TAG, TagFinder, scan
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from raising import raises
from word_by_word import WordByWord, backward

PAGE = """\ufeff<!DOCTYPE html>
<html lang=en><head><title>My page</title><meta name="description" content="All &amp; more">
<meta property="og:image:alt" content="A dog">
<style>p { color: red }</style><script>if (a < b) { alert("Hello") }</script></head>
<body class="x"><!-- a comment -->
<h1>Good <em>morning</em>, world!</h1>
<p>Read <a href="/a?b=1&amp;c=2" title='The "page"'>this page</a>&nbsp;now
   or <code>rm -rf</code> it.<br/>Second line <img src=a.png alt="A cat"> here
<p>Unclosed <b>bold
<ul><li>One<li>Two &lt; three</ul>
<pre>keep   this</pre><p translate="no">Not <b>this</b></p><div class="a notranslate">Nor this</div>
<p>Keep <span translate=no>Acme <b>Corp</b></span> as it is <svg><g><text>Hi</text></g></svg> ok.
<input type=submit value="Send it"><input value="user text"><textarea>Default text</textarea>
<table><tr><td>Cell one<td>12.5</table>
</body></html>
"""


def translate(page: str, translator: WordByWord) -> str:
    document = html.read(page.encode(), "page.html")
    report = translate_segments(document.segments, translator)
    assert not report.kept
    return document.write([result.target for result in report.results]).decode()


def tags(page: str) -> list[tuple[str, str]]:
    return [(token.kind, token.name) for token in scan(page, html.RAW, lower=True) if token.name]


def test_a_page_that_is_not_translated_is_the_same_bytes() -> None:
    document = html.read(PAGE.encode(), "page.html")
    assert document.write([None] * len(document.segments)) == PAGE.encode()
    assert translate(PAGE, WordByWord(word=str)) == PAGE


def test_tags_of_templates_stay() -> None:
    block = f"<% if a > b\n  {'count(a); ' * 200}%>"
    page = f"<p>one <%= name %> two</p>{block}<p>six <% 5</p>"
    assert translate(page, WordByWord()) == f"<p>ONE <%= name %> TWO</p>{block}<p>SIX &lt;% 5</p>"


def test_tags_of_templates_stay_in_order() -> None:
    page = (
        "<p>one <% if x %> two <% end %> six</p><p>four <?= $a ?><%= b %> five</p><p>a {% if y %} b {% endif %} c</p>"
    )
    document = html.read(page.encode(), "page.html")
    report = translate_segments(document.segments, WordByWord(order=backward))
    assert [result.problem for result in report.results] == ["placeholder_lost", None, "placeholder_lost"]
    written = document.write([result.target for result in report.results]).decode()
    assert written == page.replace("four <?= $a ?><%= b %> five", "FIVE <?= $a ?><%= b %> FOUR")


def test_tags_of_templates_at_the_ends_of_a_sentence() -> None:
    page = "<td><%= a %></td><p><% if x %> <b>one</b> two <% end %></p><p><%= a %> three</p>"
    expected = "<td><%= a %></td><p><% if x %> TWO <b>ONE</b> <% end %></p><p>THREE <%= a %></p>"
    assert translate(page, WordByWord(order=backward)) == expected
    assert len(html.read(page.encode(), "page.html").segments) == 2


def test_control_characters_are_not_written() -> None:
    page = '<p title="one">one &lt;</p>'
    assert translate(page, WordByWord(word=lambda word: f"a\0\x1f\ufffe{word}")) == '<p title="aone">aone a&lt;</p>'


def test_the_words_of_a_page_are_translated_and_nothing_else() -> None:
    written = translate(PAGE, WordByWord())
    for expected in (
        'alt" content="A DOG"',
        "<title>MY PAGE</title>", 'content="ALL &amp; MORE"', "<h1>GOOD <em>MORNING</em>, WORLD!</h1>",
        "<a href=\"/a?b=1&amp;c=2\" title='THE &quot;PAGE&quot;'>THIS PAGE</a>", "OR <code>rm -rf</code> IT.<br/>SEC",
        '<img src=a.png alt="A CAT"> HERE', "<li>ONE<li>TWO &lt; THREE</ul>", "<pre>keep   this</pre>",
        '<p translate="no">Not <b>this</b></p><div class="a notranslate">Nor this</div>',
        "KEEP <span translate=no>Acme <b>Corp</b></span> AS IT IS <svg><g><text>Hi</text></g></svg> OK.",
        '<input type=submit value="SEND IT"><input value="user text"><textarea>DEFAULT TEXT</textarea>',
        "<td>CELL ONE<td>12.5", 'if (a < b) { alert("Hello") }', "<!-- a comment -->", "UNCLOSED <b>BOLD\n<ul>",
    ):  # fmt: skip
        assert expected in written


def test_markup_moves_with_the_words() -> None:
    page = '<p>Read <a href="a"><b>this</b> page</a> now <img alt="A cat" src="c"> please</p>'
    expected = '<p><img alt="CAT A" src="c"> PLEASE NOW <a href="a">PAGE <b>THIS</b></a> READ</p>'
    assert translate(page, WordByWord(order=backward)) == expected


def test_marks_of_notes_are_not_words() -> None:
    first, second = '<a epub:type="noteref" href="#n">1</a>', '<sup><a href="#m">[2]</a></sup>'
    page = f"<p>It rained{first} all{second} day, 5 m<sup>2</sup></p>"
    (segment,) = html.read(page.encode(), "page.html").segments
    assert segment.text == "It rained all day, 5 m2"
    expected = f"<p>M<sup>2</sup> 5 DAY, ALL{second} RAINED{first} IT</p>"
    assert translate(page, WordByWord(order=backward)) == expected


def test_lxml_sees_the_same_elements_with_translated_text() -> None:
    before, after = (lxml_html.fromstring(text[1:]) for text in (PAGE, translate(PAGE, WordByWord())))
    assert [(e.tag, e.get("href"), e.get("class")) for e in before.iter()] == [
        (e.tag, e.get("href"), e.get("class")) for e in after.iter()
    ]
    words = re.findall(r"[a-zA-Z]+", before.xpath("string(//h1)") + before.xpath("string(//ul)"))
    assert [word.upper() for word in words] == re.findall(
        r"[a-zA-Z]+", after.xpath("string(//h1)") + after.xpath("string(//ul)")
    )


def test_an_encoding_without_the_character_gets_a_reference() -> None:
    page = '<meta charset="iso-8859-1"><p>Grüße'.encode("latin-1")
    document = html.read(page, "page.html")
    assert document.segments[0].text == "Grüße"
    (result,) = translate_segments(document.segments, WordByWord(word=lambda word: "Ω")).results
    assert document.write([result.target]) == b'<meta charset="iso-8859-1"><p>&#937;'
    with raises(DocumentError, "unsupported_encoding", "klingon"):
        html.read(b'<meta charset="klingon"><p>a', "page.html")
    with raises(DocumentError, "unsupported_encoding", "byte 3"):
        html.read(b"<p>\xff", "page.html")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_pages_are_read_and_written_as_they_are(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(60):
        page = list(PAGE)
        for _ in range(generator.randint(1, 12)):
            place = generator.randrange(1, len(page))
            page[place : place + generator.randint(0, 9)] = generator.choice(["<", ">", '"', "</b>", "<p", "&", "<!--"])
        text = "".join(page)
        assert translate(text, WordByWord(word=str)) == text
        written = translate(text, WordByWord())
        assert sorted(tags(text)) == sorted(tags(written))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<p><a href="x"><img src="i" alt="a b"></a> one two</p>', '<a href="x"><img src="i" alt="A B"></a> ONE TWO'),
        ('<p><a href="x"><i class="icon"></i> one two</a></p>', '<a href="x"><i class="icon"></i> ONE TWO</a>'),
        ('<p><a href="x">one two <i class="icon"></i></a></p>', '<a href="x">ONE TWO <i class="icon"></i></a></p>'),
        ('<p><img src="i" alt="a cat">&#10;one</p>', '<img src="i" alt="A CAT">\nONE'),
        ("<label>one <input type=text></label>", "<label>ONE <input type=text></label>"),
        ("<label>one\n<input type=text title='a b'></label>", "<label>ONE\n<input type=text title='A B'></label>"),
        ("<p><b>one </b><input type=text></p>", "<p><b>ONE</b> <input type=text></p>"),
        ("<p>&nbsp;&nbsp;one two</p>", "<p>&nbsp;&nbsp;ONE TWO</p>"),
        ("<textarea>one\ntwo</textarea>", "<textarea>ONE\nTWO</textarea>"),
        ("<img src=a alt=one>", '<img src=a alt="ONE">'),
    ],
)  # fmt: skip
def test_spaces_around_elements_without_words_stay(page: str, expected: str) -> None:
    assert expected in translate(page, WordByWord())


@pytest.mark.parametrize("padding", ["&#847;&zwnj;&nbsp;" * 9, " &#x34F; &#x200c; \u034f\u200c\u00a0\u00ad", "&nbsp;"])
def test_invisible_padding_stays_outside(padding: str) -> None:
    page = f"<div>{padding}one <b>two</b>{padding}</div>"
    assert translate(page, WordByWord(order=backward)) == f"<div>{padding}<b>TWO</b> ONE{padding}</div>"


def test_front_matter_is_that_of_markdown() -> None:
    page = "---\nlayout: post\ntitle: {}\n---\n<p>{}</p>\n--- {}"
    assert translate(page.format("one two", "six", "ten"), WordByWord()) == page.format("ONE TWO", "SIX", "TEN")


def test_an_encoding_without_ascii_is_rejected() -> None:
    page = "<p>one two</p>".encode("cp037")
    with raises(DocumentError, "unsupported_encoding", "cp037"):
        html.read(b"<meta charset=cp037>" + page, "page.html")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<p>one <a href="x"><img alt="a b"></a></p>', '<p>ONE <a href="x"><img alt="A B"></a></p>'),
        ('<p>one&nbsp;<img alt="a b"></p>', '<p>ONE\u00a0<img alt="A B"></p>'),
        ("<p>one <b><i><input></i></b></p>", "<p>ONE <b><i><input></i></b></p>"),
    ],
)
def test_the_last_space_stays_before_markup(page: str, expected: str) -> None:
    assert translate(page, WordByWord()) == expected


def test_a_paragraph_with_thousands_of_elements_is_translated() -> None:
    """In seconds: the time must not grow with the square of their number."""
    n = 2_000
    page = "<p>" + 'one <img alt="two"> <code>x</code> <b>three <i>four</b> <kbd>' * n
    written = translate(page, WordByWord())
    assert written == "<p>" + 'ONE <img alt="TWO"> <code>x</code> <b>THREE <i>FOUR</b> <kbd>' * n


@pytest.mark.parametrize(
    "unit", ["<", "<a", "<a ", "<a '\"", '<a b="', "<!a", "<!a[", "<!a[]", "<!--", "<?", "<%", "</", "&"]
)
def test_markup_without_an_end_is_text_or_left(unit: str) -> None:
    """In seconds: the time must not grow with the square of the number of tags, or faster."""
    page = f"one {unit * 20_000}"
    assert "".join(page[token.start : token.end] for token in scan(page)) == page
    assert translate(page, WordByWord()).startswith("ONE ")


@given(st.lists(st.sampled_from(["<a ", "<b>", ' "', " '", " x", ">", "</i "]), max_size=12).map("".join))
def test_tags_are_found_as_if_each_was_tried(page: str) -> None:
    finder = TagFinder(page)
    for place in (found.start() for found in re.finditer("<", page)):
        assert (finder.match(place, len(page)) is None) == (TAG.match(page, place) is None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("see page&nbsp;12 now", "SEE PAGE\u00a012 NOW"),
        ("a page&nbsp;<b>12</b> now", "A PAGE\u00a0<b>12</b> NOW"),
        ("in 5&nbsp;km or 1.5&#x202f;m", "IN 5\u00a0KM OR 1,5\u202fM"),
        ("5 of 5&nbsp;km", "5 OF 5 KM"),  # which 5 is not known
        ("two&nbsp;words", "TWO WORDS"),
    ],
)
def test_no_break_spaces_stay_next_to_numbers(content: str, expected: str) -> None:
    translator = WordByWord(word=lambda word: word.upper().replace("1.5", "1,5"))
    assert translate(f"<p>{content}</p>", translator) == f"<p>{expected}</p>"
