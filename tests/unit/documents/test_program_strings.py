"""Placeholders of program strings, tags around words, tags of templates, and apostrophes of ICU messages."""

from __future__ import annotations

import json as standard_json

import pytest

from dragoman.documents.formats.localization import po, xliff
from dragoman.documents.formats.strings import json, properties
from dragoman.documents.markup import escape_xml
from dragoman.documents.segment import NO_OPTIONS, Segment, Span
from dragoman.documents.transfer.assembly import Unit
from dragoman.documents.transfer.masks import mask_text
from dragoman.documents.transfer.placeholders import find_placeholders
from dragoman.documents.transfer.protected import protect_placeholders
from dragoman.documents.translate import translate_segments
from dragoman.translation.result import Translation
from word_by_word import WordByWord, backward


def translate_string(text: str, translator: WordByWord | None = None) -> str:
    """The translation of a JSON string."""
    document = json.read(standard_json.dumps([text]).encode(), "a.json")
    report = translate_segments(document.segments, translator or WordByWord(order=backward))
    assert not report.kept
    (found,) = standard_json.loads(document.write([result.target for result in report.results]))
    return str(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Copied %1 of %2, %L3 (%1%2)", ["%1", "%2", "%L3", "%1", "%2"]),
        ("50 %1, 10%2 and %15,5", []),
        ("%Y-%m-%d %H:%M:%SZ, then %B %d, %Y", ["%Y-%m-%d %H:%M:%SZ", "%B %d, %Y"]),
        ("%s: %d of %d; %d. %B", ["%s", "%d", "%d", "%d. %B"]),
        ("Use `x y`, ``a()``, :ref:`b` and `c <d>`_", ["`x y`", "``a()``", ":ref:`b`", "`c <d>`_"]),
        ("```x y```:\n```sh\necho `a b`\n```\nthen ```", ["```x y```", "```sh\necho `a b`\n```"]),
        ("``quoted'' and `one' or ` two `", []),
        ("$DATE$ $user_1$, $5 or $6, US$ and $HOME", ["$DATE$", "$user_1$"]),
        ("*|FNAME|* a|b *|* ", ["*|FNAME|*"]),
        ("--help, --output=a/b.c. well -- no--yes --", ["--help", "--output=a/b.c"]),
        ("yyyy-MM-dd'T'HH:mm dd/MM/yyyy HH:mm:ss: h:mm a", ["yyyy-MM-dd'T'HH:mm", "dd/MM/yyyy", "HH:mm:ss", "h:mm a"]),
        ("MMMM d, yyyy DD.MM.YYYY 10 mm/s and MM", ["MMMM d, yyyy", "DD.MM.YYYY"]),
        (
            "%%Name%% %a.b% <#if x>a</#if> <@b/> [[x.y]] [[a b]] <#>",
            ["%%Name%%", "%a.b%", "<#if x>", "</#if>", "<@b/>", "[[x.y]]"],
        ),
        ("see @:common.save now", ["@:common.save"]),
        ("{{#if x}}a{{else}}b{{/if}}", ["{{#if x}}", "{{else}}", "{{/if}}"]),
    ],
)
def test_placeholders_of_programs_are_found(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in find_placeholders(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You have :count, (:min) :Name a:b see: this 10:30", [":count", ":min"]),
        ("It''s '{not this}' but {name}", ["'{not this}'", "{name}"]),
        ("Put '{'words'}' in braces", ["'{'", "'}'"]),
        ("%2 of them, %50", ["%2", "%50"]),  # in prose, %50 is Turkish for 50 %
    ],
)
def test_some_are_placeholders_in_programs_alone(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in find_placeholders(text, program=True)] == expected
    assert [text[start:end] for start, end in find_placeholders(text)] == [one for one in expected if one == "{name}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You have :count new", "NEW :count HAVE YOU"),
        ("page %1 of %2", "%2 OF %1 PAGE"),
        ("use `x y` now", "NOW `x y` USE"),
        ("Please <0>sign in</0> first", "FIRST <0>IN SIGN</0> PLEASE"),
        ("<0>one</0> two <1/> six <2>ten <3>four</3></2>", "<2><3>FOUR</3> TEN</2> SIX <1/> TWO <0>ONE</0>"),
        ("</0>one <1> two", "TWO <1> ONE </0>"),
        ("<1 >x y</1> six <2 />", "<2 /> SIX <1 >Y X</1>"),
        ("<0>one <1>two</0> six</1>", "</1> SIX <0>TWO <1>ONE</0>"),  # not nested
        ("{n, plural, one {<0>a b</0>} other {<0># b</0> c}}", "{n, plural, one {<0>B A</0>} other {C <0>B #</0>}}"),
    ],
)
def test_placeholders_and_numbered_tags_of_strings_are_kept(text: str, expected: str) -> None:
    assert translate_string(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>a b</p><ul><li>six</li><li>d <b>e</b></li></ul>", "<p>B A</p><ul><li>SIX</li><li><b>E</b> D</li></ul>"),
        ("<!-- a b -->\n<p>one two</p>\n<!-- /b -->", "<!-- a b -->\n<p>TWO ONE</p>\n<!-- /b -->"),
        ("<div>\n  <h1>one two</h1>six ten\n</div>", "<div>\n  <h1>TWO ONE</h1>TEN SIX\n</div>"),
    ],
)
def test_blocks_in_strings_are_translated_one_by_one(text: str, expected: str) -> None:
    assert translate_string(text) == expected


def test_reports_name_numbered_tags_by_their_numbers() -> None:
    (segment,) = json.read(b'["Please <0>sign in</0> or <1 >out</1>"]', "a.json").segments
    assert [span.name for span in segment.spans] == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please <0>sign in</0> or <1/>", "<1/> OR <0>IN SIGN</0> PLEASE"),
        ("Values <5 are low and >10 are high", "HIGH ARE >10 AND LOW ARE <5 VALUES"),  # no tag
    ],
)
def test_numbered_tags_are_pairs_in_po_and_xliff_too(text: str, expected: str) -> None:
    translator = WordByWord(order=backward)
    document = po.read(f'msgid "{text}"\nmsgstr ""\n'.encode(), "a.po", NO_OPTIONS)
    written = document.write([one.target for one in translate_segments(document.segments, translator).results])
    assert f'msgstr "{expected}"' in written.decode()
    body = f'<file><body><trans-unit id="1"><source>{escape_xml(text)}</source></trans-unit></body></file>'
    content = f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">{body}</xliff>'
    units = xliff.read(content.encode(), "a.xlf", NO_OPTIONS)
    written = units.write([one.target for one in translate_segments(units.segments, translator).results])
    assert f"{escape_xml(expected)}</target>" in written.decode()


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("{% if x %}Your item:{% endif %}", "Your item:", "{% if x %}ITEM: YOUR{% endif %}"),
        ("Hello {{#if x}}friend{{else}}you{{/if}}, six", "Hello X1 friend X2 you X3, six", None),
        ("One {% if x %}two{% endif %} six", "One X1 two X2 six", None),
        ("Total:{{ total }}euros", "Total: 4831 euros", "EUROS{{ total }}TOTAL:"),
        ("One {name}s {n}-day {x}MB v{y} (six){a}", "One X1s 5984-day X3MB vX4 (six)X5", None),
        ("report.{ext} file{n}", "report.X1 file 5984", "{n} FILE REPORT.{ext}"),
        ("您好{name}先生您好，a {% if x %}两个{% endif %}。", "您好X1先生您好，a X2两个X3。", None),
        ("%dMB two%s", "4831MB twoX2", None),
        ("one {a}2.5 {a}1,{b}6.", "one X1 X2,X3.", "{a}1,{b}6. {a}2.5 ONE"),
        ("{% if x %}2 of {n}0 now{% endif %}", "2 of 5984 now", "{% if x %}NOW {n}0 OF 2{% endif %}"),
    ],
)
def test_a_space_divides_masks_from_words_that_they_touch(text: str, read: str, expected: str | None) -> None:
    translator = WordByWord(order=backward)
    if expected is not None:
        assert translate_string(text, translator) == expected
    else:
        document = json.read(standard_json.dumps([text]).encode(), "a.json")
        translate_segments(document.segments, translator)
    assert translator.calls[0] == [read]
    assert translate_string(text, WordByWord(word=str)) == text


@pytest.mark.parametrize(
    ("translation", "accepted"),
    [
        ("Klicken Sie X1 an", True),
        ("Klick X X1", False),
        ("KundenX X1", False),
        ("Klick X1 X2", False),
        ("MAX klickt X1, Xaver auch", True),
        ("Die x-Achse von X1", True),
        ("Die X-Achse von X1", False),
    ],
)
def test_pieces_of_masks_are_not_accepted(translation: str, accepted: bool) -> None:
    masked = mask_text("Click {a}", [(0, Span(6, 9, "protected", name="{a}"))])
    assert Unit(masked, "").accept(Translation(translation)) is accepted


@pytest.mark.parametrize(
    ("source", "accepted"), [("Windows X of", True), ("The x-axis of", True), ("The box of", False)]
)
def test_what_the_source_has_is_no_piece_of_a_mask(source: str, accepted: bool) -> None:
    masked = mask_text(f"{source} {{a}}", [(0, Span(len(source) + 1, len(source) + 4, "protected", name="{a}"))])
    assert Unit(masked, "").accept(Translation("Das X von X1")) is accepted


def test_spans_around_divided_masks_stay_at_their_words() -> None:
    text = "<b>one{{else}}two</b> <i>six</i>{{/if}} ten"
    assert translate_string(text, WordByWord()) == "<b>ONE{{else}}TWO</b> <i>SIX</i>{{/if}} TEN"


def elided(word: str) -> str:
    return f"d'{word}" if word[0] in "X45" else word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the file of {name}", "the file of d’{name}"),
        ("{n, plural, one {of {name}} other {of # in {name}}}", None),
        ("it''s {name}", "it''s d’{name}"),
        ("Delete '{name}' of {x}", "Delete d''{name}' of d’{x}"),
        ("of {{name}} and %s", "of d'{{name}} and d'%s"),
    ],
)
def test_apostrophes_of_a_translation_quote_no_placeholder(text: str, expected: str | None) -> None:
    expected = expected or "{n, plural, one {of d’{name}} other {of d’# in d’{name}}}"
    assert translate_string(text, WordByWord(elided)) == expected


def test_apostrophes_of_icu_branches_in_po_and_xliff() -> None:
    translator = WordByWord(lambda word: f"{word}'")
    message = "{n, plural, one {one {name}} other {two}}"
    document = po.read(f'msgid "{message}"\nmsgstr ""\n'.encode(), "a.po", NO_OPTIONS)
    written = document.write([one.target for one in translate_segments(document.segments, translator).results])
    assert "{n, plural, one {one' {name}’} other {two’}}" in written.decode()
    body = f'<file><body><trans-unit id="1"><source>{message}</source></trans-unit></body></file>'
    text = f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">{body}</xliff>'
    units = xliff.read(text.encode(), "a.xlf", NO_OPTIONS)
    written = units.write([one.target for one in translate_segments(units.segments, translator).results])
    assert "{n, plural, one {one' {name}’} other {two’}}" in written.decode()


@pytest.mark.parametrize(
    "text", ["it''s '{n}' {x}", "{n, plural, one {'{'a'}' it''s} other {don't '{b}'}}", "'{", "{n,plural,other{a '{}}"]
)
def test_apostrophes_of_the_source_stay(text: str) -> None:
    assert translate_string(text, WordByWord(word=str)) == text
    document = properties.read(f"a={text}".encode(), "a.properties")
    report = translate_segments(document.segments, WordByWord(word=str))
    assert document.write([result.target for result in report.results]) == f"a={text}".encode()


@pytest.mark.parametrize(
    "text",
    [
        "%s of %s",
        "%02d of %3d",
        "run `git checkout %s` after `cd %s`",
        "--output=%s or --input=%s",
        "https://a.org/%s or https://b.org/a%20{}",
        "docs/%s.txt or `{:>5}`",
        "<code>%s</code> or <code>cp %s</code>",
        "<a href='%s'>one</a> two %s",
        "<a href='%s'>one</a> <a href='%s'>two</a>",
        "<a href='x'>%s</a> two <img alt='%s'> six",
    ],
)
def test_arguments_without_names_stay_in_order(text: str) -> None:
    """Also equal ones: the translation has the same texts in another order, and would print each value elsewhere."""
    document = json.read(standard_json.dumps([text]).encode(), "a.json")
    (result,) = translate_segments(document.segments, WordByWord(order=backward)).results
    assert result.problem == "placeholder_lost" and result.target is None
    (result,) = translate_segments(document.segments, WordByWord()).results
    assert result.problem is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`date +%Y-%m-%d` or `date %d`", "`date %d` OR `date +%Y-%m-%d`"),
        ("{a:%d} to {b:%d} of %id%", "%id% OF {b:%d} TO {a:%d}"),
        ("https://a.org/%20d or %s, `100%%`", "`100%%` %s, OR https://a.org/%20d"),
        ("<a href='/a%20d'>one</a> %s", "%s <a href='/a%20d'>ONE</a>"),
        ("<a href='%1$s'>one</a> %2$s", "%2$s <a href='%1$s'>ONE</a>"),
    ],
)
def test_other_placeholders_may_change_their_order(text: str, expected: str) -> None:
    assert translate_string(text) == expected


def test_markup_and_program_strings_are_found_in_parts() -> None:
    text = "copied :aa of :bb"
    segment = protect_placeholders(Segment(text, (Span(7, 10),), program=True))
    assert [text[span.start : span.end] for span in segment.spans[1:]] == [":aa", ":bb"]
