from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from dragoman.documents.formats import markdown
from dragoman.documents.segment import Target
from dragoman.documents.translate import translate_segments
from word_by_word import WordByWord, backward

ROOT = Path(__file__).parents[3]
PAGE = """\
---
title: A page, at last
date: 2024-01-01
description: "All about it"
---
# Title *here* #

Wrapped *emphasis and
more* text with `code
span`, a [link](http://x.org/a_(b) "Title"), a [reference][ref], a [shortcut] and
<https://auto.link>. Escaped \\*stars\\* &amp; {name_of_it}.\x20\x20
After a hard break[^1].

> A quote
> goes **on
> here**

- [ ] A task
- 1\\. Not a list
  * nested ![An image](pic.png) here

| Head | Other \\| head |
|------|:------|
| cell one | `a \\| b` two |

Heading
-------

```python
print("not this")
```

    nor this

<div class="x"><p>Some <b>HTML</b> text</p></div>

::: note
Inside a note
:::

[^1]: The footnote text.
[^2]: Another
      one.

    Its second paragraph:

    - and a list
[ref]: http://ref.org "Not translated"
[shortcut]: http://short.org
"""


def translate(text: str, translator: WordByWord) -> str:
    document = markdown.read(text.encode(), "page.md")
    report = translate_segments(document.segments, translator)
    assert not report.kept and all(segment.translate for segment in document.segments)
    return document.write([result.target for result in report.results]).decode()


def test_an_untranslated_page_is_the_same_bytes() -> None:
    for text in (PAGE, PAGE.replace("\n", "\r\n"), "\ufeff" + PAGE, "", "\n\n", "---\nNot a: [front matter\n---\n"):
        document = markdown.read(text.encode(), "page.md")
        assert document.write([None] * len(document.segments)) == text.encode()
        assert translate(text, WordByWord(word=str)) == text


def test_a_page_is_translated() -> None:
    written = translate(PAGE, WordByWord())
    for expected in (
        "title: A PAGE, AT LAST\ndate: 2024-01-01\ndescription: \"ALL ABOUT IT\"\n---\n# TITLE *HERE* #\n",
        "WRAPPED *EMPHASIS AND MORE* TEXT WITH `code\nspan`, A [LINK](http://x.org/a_(b) \"TITLE\"), A [REF",
        "A [SHORTCUT][shortcut] AND <https://auto.link>. ESCAPED \\*STARS\\* & {name_of_it}.  \nAFTER A HARD BREAK[^1]",
        "> A QUOTE GOES **ON HERE**\n", "- [ ] A TASK\n- 1\\. NOT A LIST\n  * NESTED ![AN IMAGE](pic.png) HERE\n",
        "| HEAD | OTHER \\| HEAD |\n|------|:------|\n| CELL ONE | `a \\| b` TWO |", "HEADING\n-------",
        'print("not this")', "    nor this", '<div class="x"><p>SOME <b>HTML</b> TEXT</p></div>',
        "::: note\nINSIDE A NOTE\n:::", "[^1]: THE FOOTNOTE TEXT.\n[^2]: ANOTHER ONE.\n",
        "\n\n    ITS SECOND PARAGRAPH:\n\n    - AND A LIST\n[ref]: http://ref.org \"Not",
    ):  # fmt: skip
        assert expected in written


def test_markup_moves_with_the_words() -> None:
    text = "See the **bold *word*** and [a link](u) now"
    assert translate(text, WordByWord(order=backward)) == "NOW [LINK A](u) AND ***WORD* BOLD** THE SEE"


@pytest.mark.parametrize(
    "word",
    ["# x", "- x", "+ x", "1. x", "*x*", "_x_", "x_y", "[x](y)", "<b>", "`x`", "> x", "a\\b", "~~x~~", "&lt;",
     "![x](y)", "---", "===", "| x", "```", "https://x.org/a_b*c", "2) x", "__init__",
     "__x", "x___", "a__b_c__", "_x_y_"],
)  # fmt: skip
def test_any_translation_is_text(word: str) -> None:
    for text, block in (("one", "p"), ("# one", "h1"), ("- one", "li"), ("| one |\n|---|\n", "th")):
        written = translate(text, WordByWord(word=lambda _: word))
        shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(written)
        found = re.search(rf"<{block}>(.*?)</{block}>", shown, re.DOTALL)
        assert found and not re.search(r"<\w+", found[1]), (written, shown)
        plain = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()
        assert plain == word


def shape(text: str) -> list[object]:
    """The elements of a page as markdown-it sees them, without their words."""
    found: list[object] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        if token.type == "inline":
            kinds = [(child.type, child.attrGet("href")) for child in token.children or ()]
            found.append(sorted(repr(kind) for kind in kinds if kind[0] not in ("text", "softbreak")))
        else:
            found.append((token.type, token.content if token.type in ("fence", "code_block") else ""))
    return found


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/howto/translating.md", "docs/howto/serving.md"])
def test_our_own_pages_keep_their_structure(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for translator in (WordByWord(), WordByWord(order=backward)):
        written = translate(text, translator)
        assert written != text and shape(written) == shape(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('+++\ntitle = "one two"\n+++\none two\n', '+++\ntitle = "one two"\n+++\nTWO ONE\n'),
        ("# one two {#name}\n", "# TWO ONE {#name}\n"),
        ("one two\n{: .class}\n", "TWO ONE\n{: .class}\n"),
        ("one <code>two</code> three\n", "THREE <code>two</code> ONE\n"),
        ("one <KBD>Ctrl</KBD> three\n", "THREE <KBD>Ctrl</KBD> ONE\n"),
        ("one $x^2$ two, $5 and $6\n", "$6 AND $5 TWO, $x^2$ ONE\n"),
        ("one $\\pi r_{1} * r_{2} * \\{a\\}$ two\n", "TWO $\\pi r_{1} * r_{2} * \\{a\\}$ ONE\n"),
        ("> one $$\\frac a\n> b$$ two\n", "> TWO $$\\frac a\n> b$$ ONE\n"),
        ("one *two*\n\n$$\na < b\n$$\n", "*TWO* ONE\n\n$$\na < b\n$$\n"),
        ("> <div>\n> one\n> two\n> </div>\n", "> <div>\n> TWO ONE\n> </div>\n"),
        ('- <p title="a b">one</p>\n', '- <p title="B A">ONE</p>\n'),
        ("one [![a b](b.svg)](http://ci)\n", "ONE [![B A](b.svg)](http://ci)\n"),
        ("one two.<br><sup>1</sup> three four<sup>2</sup>\n", "TWO. ONE<br>FOUR<sup>2</sup> THREE <sup>1</sup>\n"),
        ("one two<br>three\n", "TWO ONE<br>THREE\n"),
        ("*one two\\\nthree four*\n", "*TWO ONE\\\nFOUR THREE*\n"),
        ("**one *two*  \nthree *four***\n", "***TWO* ONE  \n*FOUR* THREE**\n"),
        ("one $A two `$(pwd)` three\n", "THREE `$(pwd)` TWO $A ONE\n"),
        ("[^1]: one two\n# three\nfour five\n\nsix\n", "[^1]: TWO ONE\n# THREE\nFIVE FOUR\n\nSIX\n"),
        ("[^1]: one two\nthree\n\nfour\n", "[^1]: THREE TWO ONE\n\nFOUR\n"),
        ("[^1]:\none two\n", "[^1]:\nTWO ONE\n"),
        ("- [^a]: one\n- two three\n", "- [^a]: ONE\n- THREE TWO\n"),
        ("[^1]: one\n\n    ```\n    a b\n\n    c d\n    ```\n\ntwo three\n",
         "[^1]: ONE\n\n    ```\n    a b\n\n    c d\n    ```\n\nTHREE TWO\n"),
        ("# one *[^1]* two\n", "# *[^1]* TWO ONE\n"),
        ("İa <code>x</code> two\n", "TWO <code>x</code> İA\n"),
        ("c# one\n======\n", "ONE C#\n======\n"),
        ("one {{ a*b }} *two* {{ c*d }}\n", "{{ c*d }} *TWO* {{ a*b }} ONE\n"),
        ("one {{ \"\\*\" }}{% if a &gt; b %} two\n", "TWO {{ \"\\*\" }}{% if a &gt; b %} ONE\n"),
        ("![one {{ a }}](b.png)\n", "![{{ a }} ONE](b.png)\n"),
        ("six [one two]({% link guide.md %}#a) five\n", "FIVE [TWO ONE]({% link guide.md %}#a) SIX\n"),
        ("![one two]({{ site.img }}/dog.png)\n", "![TWO ONE]({{ site.img }}/dog.png)\n"),
        ("one [two *six*]({{ a }}/b \"c d\")\n", "[*SIX* TWO]({{ a }}/b \"D C\") ONE\n"),
        ("one [two](a 'three \\'four\\' \"five\"') [six](b (c d) )\n",
         "[SIX](b (D C) ) [TWO](a '\"FIVE\" \\'FOUR\\' THREE') ONE\n"),
        ("> ![one two](a.png \"three &amp;amp;\n> four\") six\n", "> ![TWO ONE](a.png \"FOUR \\&AMP; THREE\") SIX\n"),
        ("| [one](a \"two \\| three\") |\n|---|\n", "| [ONE](a \"THREE \\| TWO\") |\n|---|\n"),
        ("one <img src=\"a\" alt=\"two three\"> <a title='four five' href=x>six</a>\n",
         "<img src=\"a\" alt=\"THREE TWO\"> <a title='FIVE FOUR' href=x>SIX</a> ONE\n"),
        ("one [two {{ b }}]({{< ref \"a.md\" >}}) `{{ c }}`\n",
         "`{{ c }}` [{{ b }} TWO]({{< ref \"a.md\" >}}) ONE\n"),
        ("[a b]: {{ site.url }}/x\n\none [a b] two\n", "[a b]: {{ site.url }}/x\n\nTWO [B A][a b] ONE\n"),
        ("> # one {% if b %} \ue000 two\n", "> # TWO \ue000 {% if b %} ONE\n"),
        ("<div title=\"{{ a }}\">one {{ b }} two</div>\n", "<div title=\"{{ a }}\">TWO {{ b }} ONE</div>\n"),
        ("one two\n:   three\n    four\n", "TWO ONE\n:   FOUR THREE\n"),
        ("one\ntwo *six*\n: three\n:\tfour five\n", "ONE\n*SIX* TWO\n: THREE\n:\tFIVE FOUR\n"),
        ("one [two *six*]{.a} five\n", "FIVE [*SIX* TWO]{.a} ONE\n"),
        ("one [two six](u){a=b} five `x`{.y} *four*{.z}\n", "*FOUR*{.z} `x`{.y} FIVE [SIX TWO](u){a=b} ONE\n"),
        ("six [one [two]{.a} three](u)\n", "[THREE [TWO]{.a} ONE](u) SIX\n"),
        ("> one [two\n> six]{.c}\n", "> [SIX TWO]{.c} ONE\n"),
        ("[a b]{.c} one\n\n[a b]: x\n", "ONE [B A][a b]{.c}\n\n[a b]: x\n"),
        ("# one [two six]{.a}\n", "# [SIX TWO]{.a} ONE\n"),
        ("one X\n\n*[X]: two three\n*[Y Z]:  four five\n", "X ONE\n\n*[X]: THREE TWO\n*[Y Z]:  FIVE FOUR\n"),
        ("one\n: two three\nfour five\n: six\n", "ONE\n: THREE TWO\nFIVE FOUR\n: SIX\n"),
        ("> one\n>\n> :   two three\n", "> ONE\n>\n> :   THREE TWO\n"),
        ("one :\ntwo :smile:\n:three\n", ":THREE :smile: TWO : ONE\n"),
        ("[![a b](b.svg)](http://ci) one two\n", "[![B A](b.svg)](http://ci) TWO ONE\n"),
    ],
)  # fmt: skip
def test_what_is_not_prose_is_kept(text: str, expected: str) -> None:
    assert translate(text, WordByWord(order=backward)) == expected


def test_many_notes_in_notes_do_not_exhaust_the_stack() -> None:
    text = "[^a]: " * 10_000 + "one\n"
    assert translate(text, WordByWord(word=str)) == text


def test_keys_say_where_text_is() -> None:
    front = markdown.read(b"---\ntitle: one\n---\n\ntwo\n", "page.md").segments
    assert [segment.key for segment in front] == ["title", "line 5"]
    segments = markdown.read(b"one\n\n| two | three |\n|---|---|\n| four | ![five](a|b.png) |\n", "page.md").segments
    assert [segment.key for segment in segments][:4] == ["line 1", "line 3, cell", "line 3, cell", "line 5, cell"]


def test_code_over_several_lines_of_a_quote_is_left() -> None:
    text = "> <p>one <code>a\n> b</code> two</p>\n"
    document = markdown.read(text.encode(), "page.md")
    report = translate_segments(document.segments, WordByWord())
    assert document.write([result.target for result in report.results]).decode() == text


def test_emphasis_around_nothing_is_not_written() -> None:
    document = markdown.read(b"one **two** ~~six~~ *![ten](a.png)*\n", "a.md")
    (segment, _) = document.segments
    spans = tuple(replace(span, start=3, end=3) for span in segment.spans)
    assert document.write([Target("ONE", spans), Target("TEN")]) == b"ONE *![TEN](a.png)*\n"
