"""What is a sentence in HTML, and what in it is left as it is: elements, placeholders, other languages."""

from __future__ import annotations

import pytest

from dragoman.documents.formats import markdown
from dragoman.documents.formats.html import html
from dragoman.documents.languages import LanguageChange
from dragoman.documents.segment import ReadOptions
from dragoman.documents.spliced import UTF8, SplicedText
from dragoman.documents.translate import translate_segments
from word_by_word import WordByWord, backward

ENGLISH = ReadOptions("en", "de")


def translate(document: SplicedText) -> str:
    report = translate_segments(document.segments, WordByWord(order=backward))
    assert not report.kept
    return document.write([result.target for result in report.results]).decode()


def texts(page: str) -> list[str]:
    return [segment.text for segment in html.read(page.encode(), "page.html", ENGLISH).segments]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one {{ n > 1 ? n : \"a\" }} two</p>", "<p>TWO {{ n > 1 ? n : \"a\" }} ONE</p>"),
        ("<p>one {% if a < b and c %} two</p>", "<p>TWO {% if a < b and c %} ONE</p>"),
        ("<p>one ${a && b}{{ c }} two &amp; three</p>", "<p>THREE &amp; TWO ${a && b}{{ c }} ONE</p>"),
        ("<p>one {{ a &gt; &quot;b&quot; }} two</p>", "<p>TWO {{ a &gt; &quot;b&quot; }} ONE</p>"),
        ("<p>one {{ _('a  b')\n }} two</p>", "<p>TWO {{ _('a  b')\n }} ONE</p>"),
        ("<p>one &lt;%= x %&gt; two</p>", "<p>TWO &lt;%= x %&gt; ONE</p>"),
        ("<p>one &quot;http://x.org/a&quot; two</p>", "<p>TWO \"http://x.org/a\" ONE</p>"),
        ("<p>one http://x.org/?a=1&b=2 two</p>", "<p>TWO http://x.org/?a=1&b=2 ONE</p>"),
        ("<p title='one {{ a > \"b\" }} &gt; two'>3</p>", "<p title='TWO &gt; {{ a > \"b\" }} ONE'>3</p>"),
        ("<p><a title=\"one {{ a && 'b' }}\">two</a></p>", "<p><a title=\"{{ a && 'b' }} ONE\">TWO</a></p>"),
    ],
)  # fmt: skip
def test_placeholders_are_not_escaped(page: str, expected: str) -> None:
    assert translate(html.read(page.encode(), "page.html")) == expected
    assert translate(markdown.read(page.encode(), "page.md")) == expected


def test_placeholders_in_xhtml_keep_their_entities() -> None:
    page = '<p title="one {{ a &gt; &quot;b&quot; }}">two {% if a &lt; b &amp;&amp; c %} three</p>'
    expected = '<p title="{{ a &gt; &quot;b&quot; }} ONE">THREE {% if a &lt; b &amp;&amp; c %} TWO</p>'
    assert translate(html.read_text(page, UTF8, LanguageChange("en", "de"), xml=True)) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one <button>two</button> three</p>", "<p>THREE <button>TWO</button> ONE</p>"),
        ("<p>one <nobr>two six</nobr> three</p>", "<p>THREE <nobr>SIX TWO</nobr> ONE</p>"),
        ("<p>one <x-link to='/'>two</x-link> six</p>", "<p>SIX <x-link to='/'>TWO</x-link> ONE</p>"),
        ("<p>one <my-icon name=a></my-icon> two</p>", "<p><my-icon name=a></my-icon> TWO ONE</p>"),
        ("<p>one <Icon /> two</p>", "<p><Icon /> TWO ONE</p>"),
        ("<p>one <select title='a b'><option>two six<option>3</select> four</p>",
         "<p><select title='B A'><option>SIX TWO<option>3</select> FOUR ONE</p>"),
        ("<p>one <picture><source src=a><img alt='a b'></picture> two</p>",
         "<p><picture><source src=a><img alt='B A'></picture> TWO ONE</p>"),
        ("<p>one <canvas>five six</canvas> two</p>", "<p><canvas>five six</canvas> TWO ONE</p>"),
        ("<p>one two <select><option>a b</select></p>", "<p>TWO ONE <select><option>B A</select></p>"),
        ("<p>one <select><option>two six</p><p>four five</p>", "<p>ONE <select><option>SIX TWO</p><p>FIVE FOUR</p>"),
        ("<b>a <select><option>two six</b> 3</select> b</b>", "<b><select><option>3 SIX</b> TWO</select> B A</b>"),
        ("<label>one two <textarea>three\nfour six</textarea></label>",
         "<label>TWO ONE <textarea>THREE\nSIX FOUR</textarea></label>"),
        ("<iframe title='a b'></iframe> one two <video>a b</video>",
         "<iframe title='B A'></iframe> TWO ONE <video>a b</video>"),
        ("<p>one <code>x </code> two</p>", "<p>TWO <code>x </code> ONE</p>"),
        ("<p><![if !vml]>one two<![endif]></p>", "<p><![if !vml]>TWO ONE<![endif]></p>"),  # comments of Word
    ],
)  # fmt: skip
def test_elements_inside_a_sentence(page: str, expected: str) -> None:
    assert translate(html.read(page.encode(), "page.html")) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<label>one two</label> <input> <label>three</label> <input>", ["one two", "three"]),
        ("<label>one two</label>: <input><label>three</label> <b>*</b> <input>", ["one two:", "three"]),
        ("<input type=checkbox> <label>one</label> <input type=checkbox> <label>two</label>", ["one", "two"]),
        ("<label><input> one</label>&nbsp;<label><input> two</label>", ["one", "two"]),
        ("<a>one two</a>\n<a>three</a>", ["one two", "three"]),
        ("<button>one</button><!-- --><button>two</button>", ["one", "two"]),
        ("<v-row><v-btn>one</v-btn> <v-btn>two</v-btn></v-row>", ["one", "two"]),
        ("<span><a>one</a></span> <span><a>two</a></span>", ["one", "two"]),
        ("<a>one</a> <svg><path/></svg> <a>two</a>", ["one", "two"]),
        ("<label>one</label> <input> <small>two <b>six</b></small>", ["one", "two six"]),
        ("<p><label>one</label>* <select></select><i>two</i> <label>six</label> <input/></p>", ["one*", "two", "six"]),
        ("<p>The <label>one</label> <input> <b>two</b></p>", ["The one two"]),
        ("<p><label>one</label> <b>two</b> <input></p>", ["one two"]),
        ("<p>The <a>one</a> <a>two</a></p>", ["The one two"]),
        ("<p><a>one</a> <a>two</a>.</p>", ["one two."]),
        ("<p><a>one</a> | <a>two</a></p>", ["one | two"]),
        ("<p><a>one</a> <i>two</i></p>", ["one two"]),
        ("<p><a>one</a> {{x}} <a>two</a></p>", ["one {{x}} two"]),
        ("<label>one <input> two</label>", ["one two"]),
        ("<label>one <a>two</a> <a>three</a></label>", ["one two three"]),
        ("<p><span class=notranslate><a>one</a> <a>two</a></span></p>", ["one two"]),
        ("<code><a>one</a> <a>two</a></code>", ["one two"]),
        ("<span lang=fr><a>un</a> <a>deux</a></span>", ["un deux"]),
        ("<a>one</a> <span translate=no><a>two</a> <a>three</a></span> <a>four</a>", ["one two three four"]),
        ("<a>one</a> <i class=notranslate></i> <a>two</a>", ["one", "two"]),
        ("<a>one</a> <a translate=no><b>two</b> <b>six</b></a> <a>three</a>", ["one", "two six", "three"]),
    ],
)
def test_labels_links_and_buttons_side_by_side(page: str, expected: list[str]) -> None:
    found = [text.replace("\u00a0", " ").strip() for text in texts(page)]
    assert [" ".join(text.split()) for text in found] == expected
    assert html.read(page.encode(), "page.html").write([None] * len(found)) == page.encode()


@pytest.mark.parametrize(
    "page",
    [
        '<p>5 <span class="notranslate"><a>one</a> <a>two</a></span></p>',
        "<p><span translate=no><button>one</button> <button>two</button></span></p>",
        "<p><code><a>one</a> <a>two</a></code></p>",
        "<p><span lang=fr><a>un</a> <a>deux</a></span></p>",
        "<p><a translate=no>one</a> <a translate=no>two</a></p>",
        "<p>5 <span translate=no><select title='one'><option label='two'>six</select></span></p>",
        "<p translate=no title='one two'>six</p><div class=notranslate><p title='one'></p></div>",
        "<p>5 <img translate=no alt='one two'></p>",
    ],
)
def test_what_is_not_translatable_stays(page: str) -> None:
    assert translate(html.read(page.encode(), "page.html", ENGLISH)) == page


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("one <svg><path> <p>two six</p><p>three</p><div>four</div>", ["one", "two six", "three", "four"]),
        ("<div>one <svg><path></div>two <math><mi>x</mi><h1>six</h1>", ["one", "two x", "six"]),
        ("<p>one <svg><g></svg> two <svg><title>six</title>", ["one two six"]),
        ("<p>one <svg><svg></svg><title>six</title></svg> two", ["one six two"]),
        ("<p>one <svg><path></g><span>two</span>", ["one two"]),
        ("<p>one <svg><foreignObject><p>six</p><div>five</div></foreignObject></svg> two</p>", ["one sixfive two"]),
        ("<p>one <math><mtext>a <b>x</b></mtext></math> two</p>", ["one a x two"]),
    ],
)
def test_a_drawing_ends_before_html(page: str, expected: list[str]) -> None:
    document = html.read(page.encode(), "page.html")
    assert [segment.text for segment in document.segments] == expected
    assert document.write([None] * len(expected)) == page.encode()


def test_a_drawing_in_xhtml_ends_at_its_end_tag() -> None:
    document = html.read_text("<p>one <svg><p>two</p></svg> six</p>", UTF8, LanguageChange("en", "de"), xml=True)
    assert [segment.text for segment in document.segments] == ["one two six"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<blockquote lang=de><p title='a b'>Zwei drei</p></blockquote><p>one two</p>", ["one two"]),
        ("<p>one <i lang=fr>deux trois</i> four</p>", ["one deux trois four"]),
        ("<p>one two <span lang=fr>deux<br>trois</span> four</p>", ["one two", "four"]),
        ("<ins lang=fr><p>deux</p><ins>trois</ins> quatre</ins> five", ["five"]),
        ("<ins lang=fr><select><option>deux</select><p>trois</p></ins> five", ["five"]),
        ("<ins lang=fr><p>deux</p><p lang=en>one</p></ins> five", ["one", "five"]),
        ("<my-card translate=no><p>Acme Corp</p></my-card> five", ["five"]),
        ("<div lang=fr>un <p lang=en-US>one two</p> deux</div>", ["one two"]),
        ("<div lang=fr>un <p lang=''>one two</p> deux</div>", ["one two"]),
        ("<ul><li lang=de>zwei drei<li>one two</ul>", ["one two"]),
        ("<html lang=de><body><p>one</p><p lang=de>two</p><p lang=fr>deux</p></body></html>", ["one", "two"]),
        ("<p lang=und>one</p><p lang=zxx>two</p><p lang=eng>three</p><p lang='{{ x }}'>six</p>",
         ["one", "two", "three", "six"]),
    ],
)  # fmt: skip
def test_text_in_another_language_is_left(page: str, expected: list[str]) -> None:
    assert texts(page) == expected
    document = html.read(page.encode(), "page.html", ENGLISH)
    for word in ("Zwei drei", "deux", "trois", "Acme Corp"):
        assert (word in page) == (word in translate(document))


def test_without_a_known_source_language_all_text_is_translated() -> None:
    document = html.read(b"<p lang=de>one</p><p lang=fr>two</p>", "page.html")
    assert [segment.text for segment in document.segments] == ["one", "two"]


@pytest.mark.parametrize(
    "unit",
    ["<select>", "<span lang=de>", "<span lang=de><p>", "<a>x</a> ", "<x-a>y", "<p translate=no><span>", "<object></p>",
     "<x-a>a</x-a><x-b>", "&amp;{{ a > b }} ", "<span translate=no><select>", "<%= x %> a ",
     "<code><a>x</a> ", "<svg><p>"],
)  # fmt: skip
def test_thousands_of_elements_take_linear_time(unit: str) -> None:
    page = ("one " + unit * 5_000).encode()
    document = html.read(page, "page.html", ENGLISH)
    assert document.write([None] * len(document.segments)) == page


def test_text_in_another_language_is_left_in_xhtml() -> None:
    page = (
        '<html xml:lang="en" lang="en"><p xml:lang="de">Zwei drei</p><p>one <i xml:lang="la">et al</i> two</p></html>'
    )
    document = html.read_text(page, UTF8, LanguageChange("en", "de"), xml=True)
    expected = page.replace('="en"', '="de"').replace("one <i", "TWO <i").replace("</i> two", "</i> ONE")
    assert translate(document) == expected
