from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.documents.formats.html import html
from dragoman.documents.jobs import make_job
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.segment import Segment
from dragoman.documents.sentences import ModelTranslator
from dragoman.documents.transfer.unknown_text import find_unknown
from dragoman.documents.translate import translate_segments
from dragoman.search.constraints.terms import Terms
from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model
from word_by_word import WordByWord, backward

UNREADABLE = "☐_😀©|\\źł王小明♪→™#‹›㐂Лев\ufe0f\u20e3"


def translate(text: str, memory: Memory | None = None) -> tuple[str | None, list[str]]:
    """The translation, backward and in capitals, and what the model was given."""
    translator = WordByWord(order=backward, unreadable=UNREADABLE)
    (result,) = translate_segments([Segment(text)], translator, memory=memory).results
    assert result.problem is None
    return result.target and result.target.text, [one for call in translator.calls for one in call]


@pytest.mark.parametrize(
    ("text", "expected", "given"),
    [
        ("☐ I agree.", "☐ AGREE. I", ["I agree."]),
        ("_Open it", "_IT OPEN", ["Open it"]),
        ("it is open 😀", "OPEN IS IT 😀", ["it is open"]),
        ("it is open😀", "OPEN IS IT😀", ["it is open"]),
        ("One. 😀 Two three. ☐☐", "ONE. 😀 THREE. TWO ☐☐", ["One.", "Two three."]),
        ("Copyright © now", "NOW © COPYRIGHT", ["Copyright X1 now"]),
        ("one two | three four", "TWO ONE | FOUR THREE", ["one two", "three four"]),
        ("Yes|No", "YES|NO", ["Yes", "No"]),
        ("in Łódź today", "TODAY Łódź IN", ["in X1 today"]),
        ("call foo_bar() now", "NOW foo_bar() CALL", ["call X1() now"]),
        ("Save _As now", "NOW _As SAVE", ["Save X1 now"]),
        ("I am 王小明", "王小明 AM I", ["I am X1"]),
        ("by Лев Лев today", "TODAY Лев Лев BY", ["by X1 today"]),
        ("♪ Love me ♪", "♪ ME LOVE ♪", ["Love me"]),
        ("say ‹hello› here", "HERE ‹HELLO› SAY", ["say ‹hello› here"]),  # the words inside quotes are translated
        ("1\ufe0f\u20e3 First step", "STEP FIRST 1\ufe0f\u20e3", ["X1 First step"]),
        ("a {x}_{y} b", "B {x}_{y} A", ["a X1 b"]),
        ("see https://a.org/_x_ now", "NOW https://a.org/_x_ SEE", ["see X1 now"]),
    ],
)
def test_what_the_model_cannot_read_stays(text: str, expected: str, given: list[str]) -> None:
    assert translate(text) == (expected, given)


@pytest.mark.parametrize("text", ["☐ ☐", "Лев", "_", "| 王 |"])
def test_text_that_the_model_cannot_read_at_all_is_left(text: str) -> None:
    assert translate(text) == (None, [])


def test_readable_text_is_not_protected() -> None:
    text = "☐ one | two_three — «Łódź» 王小明 😀"
    job = make_job(Segment(text), lambda line: [line])
    assert not job.segment.spans and [unit.masked.text for unit in job.units] == [text]


def test_words_without_spaces_are_not_names_as_a_whole() -> None:
    text = "我们㐂去e\u0301t"  # a mark that is unknown does not make a name
    assert [text[a:b] for a, b, _ in find_unknown(text, 0, len(text), {"㐂", "\u0301"})] == ["㐂"]


@pytest.mark.parametrize("unreadable", ["", "•·"])
def test_bullets_divide_links_that_stand_side_by_side(unreadable: str) -> None:
    page = '<p><a href="x">Sign in</a> • <a href="y">Site map</a> <b>·</b> <i>All</i> news</p><p>so 12 · b is one</p>'
    document = html.read(page.encode(), "")
    translator = WordByWord(order=backward, unreadable=unreadable)
    report = translate_segments(document.segments, translator)
    written = document.write([result.target for result in report.results]).decode()
    assert written.startswith('<p><a href="x">IN SIGN</a> • <a href="y">MAP SITE</a> <b>·</b> NEWS <i>ALL</i></p>')
    given = [text for call in translator.calls for text in call]
    assert {"Sign in", "Site map", "All news"} < set(given) and ("so 12 · b is one" in given) == (not unreadable)


def test_markup_follows_its_words_past_symbols() -> None:
    document = html.read(b'<p><a href="x">Yes</a> | <a href="y">No</a></p><p>\xe2\x98\x90 I <b>agree</b> now.</p>', "")
    report = translate_segments(document.segments, WordByWord(order=backward, unreadable=UNREADABLE))
    written = document.write([result.target for result in report.results]).decode()
    assert written == '<p><a href="x">YES</a> | <a href="y">NO</a></p><p>☐ NOW. <b>AGREE</b> I</p>'


def test_a_memory_may_translate_what_the_model_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text("Go to Łódź.\tGeh nach Lodz.\nSo be it.\tSei's.\n", encoding="utf-8")
    memory = Memory([tmp_path / "m.tsv"])
    assert translate("Go to Łódź.", memory) == ("Geh nach Lodz.", [])
    assert translate("☐ So be it.", memory) == ("☐ Sei's.", [])
    assert translate("Come to Łódź.", memory)[0] == "Łódź. TO COME"
    assert translate("12\nGo to Łódź.", memory) == ("12\nGeh nach Lodz.", [])
    both = translate("Come to Łódź now. Go to Łódź. One ☐ two.", memory)
    assert both == ("NOW. Łódź TO COME Geh nach Lodz. TWO. ☐ ONE", ["Come to X1 now.", "One X2 two."])


def test_a_model_tells_what_it_cannot_read_except_terms(tmp_path: Path) -> None:
    translator = Translator.load(write_tiny_model(tmp_path / "model"))
    assert ModelTranslator(translator).vocabulary.unknown("☐ Łódź 王") >= {"☐", "王"}
    terms = Terms({"王": "Wang"})
    assert "王" not in ModelTranslator(translator, terms=terms).vocabulary.unknown("☐ 王")
    assert "王" in ModelTranslator(translator, terms=Terms({"王小": "Wang"})).vocabulary.unknown("☐ 王 was here")
    folded = ModelTranslator(translator, terms=Terms({"Łódź": "Lodz"}, ignore_case=True))
    assert folded.vocabulary.unknown("ŁÓDŹ") == set() and "ź" in folded.vocabulary.unknown("źle")


@pytest.mark.parametrize("part", ["| ", "a ☐ ", "_a ", "☐", "a_"])
def test_many_symbols_take_little_time(part: str) -> None:
    text = part * 20_000
    job = make_job(Segment(text), lambda line: [line], unknown={"|", "☐", "_"})
    assert sum(len(unit.before + unit.masked.text) for unit in job.units) > 0
