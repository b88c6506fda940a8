"""JSON, YAML and Java properties: strings are translated, structure and everything else stays."""

from __future__ import annotations

import json as standard_json
import random
from typing import Any

import pytest
from ruamel.yaml import YAML

from dragoman.documents.detect import read_document
from dragoman.documents.formats.strings import json, properties, yaml
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from raising import raises
from word_by_word import WordByWord, backward

JSON = r"""{
  "title" : "Hello, {name}!",  "count": 12, "ok": true, "path": "src/app_main.js", "locale": "en-US",
  "@title": {"description": "not for users"},
  "menu": ["Open file", "Say \"hi\"\n\nthen \u00fcber", {"deep": "It costs 5 \\ 6"}],
  "files": "You have {n, plural, =0 {no files} one {# file} other {# files in {folder}}} now.",
  "html": "Click <b>this <i>button</i></b>&nbsp;now <br/> please", "empty": ""
}
"""
YAML_TEXT = """\
# a comment: stays
title: Hello, world   # another
menu:
  - Open file
  - 'It''s here'
  - "Say \\"hi\\" \\u00fcber"
  - {a: one two, b: [x y, yes, 12]}
number: 12
flag: yes
anchor: &a some words
alias: *a
literal: |
  First line
    indented line

  Last line
folded: >-
  One paragraph
  goes on

  Second {n, plural, one {# file} other {# files}} here
plain: this goes
  on and on
ratio: key
"""
PROPERTIES = r"""# comment = stays
title = Hello world
greeting: It''s {0}, isn''t it?
plain=It's here
 long = one \
        two \
        three
unicode = \u00fcber alles\!
empty =
path = /usr/lib/x.so
key\ with\ space   value text
"""


def translate(module: Any, text: str, translator: WordByWord | None = None) -> str:
    document = module.read(text.encode(), "file")
    report = translate_segments(document.segments, translator or WordByWord())
    assert not report.kept
    return str(document.write([result.target for result in report.results]).decode())


@pytest.mark.parametrize(("module", "text"), [(json, JSON), (yaml, YAML_TEXT), (properties, PROPERTIES)])
def test_untranslated_files_are_the_same_bytes(module: Any, text: str) -> None:
    for variant in (text, text.replace("\n", "\r\n"), "\ufeff" + text):
        document = module.read(variant.encode(), "file")
        assert document.write([None] * len(document.segments)) == variant.encode()
        assert translate(module, variant, WordByWord(word=str)) == variant


def test_json_strings_are_translated() -> None:
    found = standard_json.loads(translate(json, JSON))
    assert found == {
        "title": "HELLO, {name}!",
        "count": 12,
        "ok": True,
        "path": "src/app_main.js",
        "locale": "en-US",
        "@title": {"description": "not for users"},
        "menu": ["OPEN FILE", 'SAY "HI"\n\nTHEN ÜBER', {"deep": "IT COSTS 5 \\ 6"}],
        "files": "YOU HAVE {n, plural, =0 {NO FILES} one {# FILE} other {# FILES IN {folder}}} NOW.",
        "html": "CLICK <b>THIS <i>BUTTON</i></b> NOW <br/> PLEASE",
        "empty": "",
    }
    backwards = standard_json.loads(translate(json, JSON, WordByWord(order=backward)))
    assert backwards["files"] == "NOW. {n, plural, =0 {FILES NO} one {FILE #} other {{folder} IN FILES #}} HAVE YOU"
    assert standard_json.loads(translate(json, '{"a": "<b>one</b> two {x}"}', WordByWord(order=backward))) == {
        "a": "{x} TWO <b>ONE</b>"
    }
    assert translate(json, '["Tom &amp; {x} & <b>Jim</b>"]') == '["TOM &amp; {x} &amp; <b>JIM</b>"]'
    assert translate(json, '["Tom & <b>Jim</b>"]') == '["TOM & <b>JIM</b>"]'
    keys = [segment.key for segment in json.read(JSON.encode(), "f").segments]
    assert keys[:4] == ["title", "menu.0", "menu.1", "menu.2.deep"]
    assert "files[one]" in keys


def test_json_in_ascii_stays_ascii() -> None:
    assert translate(json, r'["\u00fcber"]', WordByWord(word=lambda word: "Ω😀")) == r'["\u03a9\ud83d\ude00"]'


def test_yaml_strings_are_translated_in_their_style() -> None:
    written = translate(yaml, YAML_TEXT)
    before, after = YAML(typ="safe", pure=True).load(YAML_TEXT), YAML(typ="safe", pure=True).load(written)
    assert after == {
        "title": "HELLO, WORLD",
        "menu": ["OPEN FILE", "IT'S HERE", 'SAY "HI" ÜBER', {"a": "ONE TWO", "b": ["X Y", before["flag"], 12]}],
        "number": 12,
        "flag": before["flag"],
        "anchor": "SOME WORDS",
        "alias": "SOME WORDS",
        "literal": "FIRST LINE\n  INDENTED LINE\n\nLAST LINE\n",
        "folded": "ONE PARAGRAPH GOES ON\nSECOND {n, plural, one {# FILE} other {# FILES}} HERE",
        "plain": "THIS GOES ON AND ON",
        "ratio": "KEY",
    }
    assert "# a comment: stays" in written and "# another" in written and "- 'IT''S HERE'" in written


def test_code_in_two_lines_of_a_yaml_block_is_kept() -> None:
    text = "a: |\n  one `x\n    --y z` two\n  three `x\n  four\n  ```\n  `five`\n"
    written = translate(yaml, text, WordByWord(order=backward))
    assert written == "a: |\n  TWO `x --y z` ONE\n  `X THREE\n  FOUR\n  ```\n  `five`\n"


@pytest.mark.parametrize("word", ["yes", "a: b", "- x", "# x", "it's, [really]", "{x", "12", "", "null", "x #y"])
def test_any_translation_is_a_yaml_string(word: str) -> None:
    text = "a: one\nb: [one, two]\nc: 'one'\nd: \"one\"\ne: |\n  one\n"
    document = yaml.read(text.encode(), "f")
    targets = [result.target for result in translate_segments(document.segments, WordByWord(lambda _: word)).results]
    after = YAML(typ="safe", pure=True).load(document.write(targets))
    expected = word or "one"  # an empty translation keeps the source
    assert after == {"a": expected, "b": [expected, word or "two"], "c": expected, "d": expected, "e": f"{expected}\n"}


def test_properties_are_translated() -> None:
    expected = r"""# comment = stays
title = HELLO WORLD
greeting: IT''S {0}, ISN''T IT?
plain=IT'S HERE
 long = ONE TWO THREE
unicode = \u00dcBER ALLES!
empty =
path = /usr/lib/x.so
key\ with\ space   VALUE TEXT
"""
    assert translate(properties, PROPERTIES) == expected


def test_properties_in_latin_1_and_utf_8() -> None:
    translator = WordByWord(word=lambda word: word + "é")
    for encoding, expected in (("latin-1", b"a=\\u00fcber\\u00e9"), ("utf-8", "a=überé".encode())):
        document = properties.read("a=über".encode(encoding), "f")
        (result,) = translate_segments(document.segments, translator).results
        assert document.write([result.target]) == expected


def test_apostrophes_of_a_message_are_written_twice() -> None:
    assert translate(properties, "a=Open {0}", WordByWord(lambda word: word if word == "X1" else "l'a")) == "a=l''a {0}"
    assert translate(properties, "a=Open it", WordByWord(lambda word: "l'a")) == "a=l'a l'a"


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.json", b'{"a": ', "invalid_json"),
        ("a.json", b"[" * 5000, "unsafe_document"),
        ("a.json", b"[" * 40 + b"]" * 40, "unsafe_document"),
        ("a.yaml", b"a: [", "damaged_document"),
        ("a.yaml", b"a:\n\t- x\n  b: : c", "damaged_document"),
        ("a.json", b'{"a": "\xff"}', "unsupported_encoding"),
    ],
)
def test_damaged_files_are_rejected(name: str, data: bytes, code: str) -> None:
    with raises(DocumentError, code, name):
        read_document(data, name)


@pytest.mark.parametrize(("module", "text"), [(json, JSON), (yaml, YAML_TEXT), (properties, PROPERTIES)])
def test_changed_files_are_the_same_bytes_or_rejected(module: Any, text: str) -> None:
    generator = random.Random(5)
    for _ in range(80):
        changed = list(text)
        for _ in range(3):
            place = generator.randrange(len(changed))
            inserted = generator.choice(["'", '"', "\\", "{", "\n", ":", "é", "<b>"])
            changed[place : place + generator.randint(0, 4)] = inserted
        variant = "".join(changed)
        try:
            assert translate(module, variant, WordByWord(word=str)) == variant
        except DocumentError:
            continue


@pytest.mark.parametrize("word", ["Loading...", "Loading…", "Done.", "Name:", "Yes/No", "Don't."])
def test_one_word_with_punctuation_is_translated(word: str) -> None:
    assert translate(json, f'{{"a":"{word}"}}') == f'{{"a":"{word.upper()}"}}'


@pytest.mark.parametrize("word", ["text/html", "index.html", "snake_case", "camelCase", "v1.2", "a:b", "x=1"])
def test_identifiers_and_paths_are_not_translated(word: str) -> None:
    assert translate(json, f'{{"a":"{word}"}}') == f'{{"a":"{word}"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one v%s two", "TWO V%s ONE"),
        ("%dMB one", "ONE %dMB"),
        ("%dx%d one", "ONE %dX%d"),
        ("one %s%s", "%s%s ONE"),
        ("%(a)s%(b)s one", "ONE %(a)s%(b)s"),
        ("%1$s%2$s one", "ONE %1$s%2$s"),
        ("one %d%% two", "TWO %d%% ONE"),
        ("100%% one", "ONE 100%%"),
        ("one {a}-{b}", "{a}-{b} ONE"),
        ("Hello <0>{name}</0>", "<0>{name}</0> HELLO"),
        ("one <code>a</code><code>b</code>", "<code>a</code><code>b</code> ONE"),
        ("9%sure one", "ONE 9%SURE"),
        ("%site one", "ONE %SITE"),
        ("one %name% at %date%", "%date% AT %name% ONE"),
        ("one &amp; <0>two</0>", "<0>TWO</0> &amp; ONE"),
    ],
)
def test_placeholders_that_touch_other_characters_are_kept(text: str, expected: str) -> None:
    assert translate(json, f'{{"a":"{text}"}}', WordByWord(order=backward)) == f'{{"a":"{expected}"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=Use '{'name'}' for {0}", "a=Use '{'name'}' for {0}"),  # quoted braces: left as it is
        ("a=one {0,choice,0#none|1#{1}}", "a=ONE {0,choice,0#none|1#{1}}"),
        ("a=\\ one two", "a=\\ ONE TWO"),
        ("a=click 'ok' to {0}", "a=CLICK ''OK'' TO {0}"),
        ("a=one \\ud83d\\ude00 two", "a=ONE \\ud83d\\ude00 TWO"),
    ],
)
def test_message_formats_and_first_spaces_are_kept(text: str, expected: str) -> None:
    assert translate(properties, text) == expected


@pytest.mark.parametrize("text", ["{name}%s one %s", "100%%%s one %s"])
def test_arguments_without_names_stay_in_order(text: str) -> None:
    document = json.read(f'{{"a":"{text}"}}'.encode(), "a.json")
    report = translate_segments(document.segments, WordByWord(order=backward))
    assert [result.problem for result in report.results] == ["placeholder_lost"]


def test_placeholders_in_html_strings_are_written_as_they_are() -> None:
    text = '["a &amp; {:>5} b", "see https://x.org/?a=1&b=2 &lt; here"]'
    assert translate(json, text) == '["A &amp; {:>5} B", "SEE https://x.org/?a=1&b=2 &lt; HERE"]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: |\n  <b> one</b>\n  two\n", "a: |\n  <b>ONE</b>\n  TWO\n"),
        ("a: >\n  <b> one\n\n  two</b>\n", "a: >\n  <b> ONE\n\n  TWO</b>\n"),
        ("a: >\n  one\n  two\n    - six\n  ten\n", "a: >\n  ONE TWO\n    - SIX\n  TEN\n"),
        ("a: 'one\n\n   ... two'\nb: x\n", "a: 'ONE\n\n   ... TWO'\nb: X\n"),
        ("a: 'one\r\n\r\n   two'\r\n", "a: 'ONE\r\n\r\n   TWO'\r\n"),
        ("a: one <b\n  class='x'>two</b>\n", "a: ONE <b class='x'>TWO</b>\n"),
        ("a: one\n\n  <b\n  class='x'>two</b>\n", "a: \"ONE\\n<b class='x'>TWO</b>\"\n"),
    ],
)
def test_lines_of_yaml_strings_stay(text: str, expected: str) -> None:
    assert translate(yaml, text) == expected


def test_a_yaml_string_is_quoted_for_what_its_branches_need() -> None:
    written = translate(yaml, "a: 1 {n, plural, other {# files}}\n", WordByWord(order=backward))
    assert YAML(typ="safe", pure=True).load(written) == {"a": "1 {n, plural, other {FILES #}}"}


@pytest.mark.parametrize(("text", "expected"), [("k two =", "k \\= TWO"), ("k two :One", "k \\:ONE TWO")])
def test_a_property_does_not_begin_with_a_separator(text: str, expected: str) -> None:
    assert translate(properties, text, WordByWord(order=backward)) == expected


@pytest.mark.parametrize(
    "unit", ["<a", "<a '", "<!--", "{n, plural, one {", "{n,plural,other{}", "{{", "%(", "  ", "'{"]
)
def test_strings_of_unfinished_markup_are_translated(unit: str) -> None:
    """In seconds: the time must not grow with the square of the number of units, or faster."""
    text = f"one {unit * 10_000} two"
    for module in (json, yaml):
        document = module.read(standard_json.dumps({"a": text}).encode(), "file")
        report = translate_segments(document.segments, WordByWord())
        written = document.write([result.target for result in report.results])
        assert written.startswith(b'{"a": "ONE ') and written.endswith(b' TWO"}')


def test_line_breaks_of_strings_get_no_spaces() -> None:
    document = read_document(b'["one {x}<br>three four<br/><b>6</b> two"]', "a.json")
    report = translate_segments(document.segments, WordByWord(order=backward))
    written = document.write([result.target for result in report.results])
    assert written == b'["{x} ONE<br>FOUR THREE<br/>TWO <b>6</b>"]'
