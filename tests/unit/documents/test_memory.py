from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from rapidfuzz import fuzz
from tests.raising import raises
from tests.word_by_word import WordByWord

from dragoman.documents.formats.html import html
from dragoman.documents.formats.localization import xliff
from dragoman.documents.memory import index as index_module
from dragoman.documents.memory import lookup as memory_module
from dragoman.documents.memory.index import normalize
from dragoman.documents.memory.lookup import MIN_SCORE, Match, Memory, find_exact
from dragoman.documents.memory.remember import remember
from dragoman.documents.reports.bilingual import bilingual_file
from dragoman.documents.reports.report import Report
from dragoman.documents.segment import ReadOptions, Segment, SegmentBuilder, Target, render
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError, OutputError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "localization"


def make(tmp_path: Path, *pairs: tuple[str, str]) -> Memory:
    (tmp_path / "m.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    return Memory([tmp_path / "m.tsv"])


def translate(memory: Memory, *segments: Segment | str) -> Report:
    translator = WordByWord()
    built = [Segment(one) if isinstance(one, str) else one for one in segments]
    return translate_segments(built, translator, memory=memory)


def texts(report: Report) -> list[str | None]:
    return [one.target and one.target.text for one in report.results]


def test_exact_matches_are_used_and_approved(tmp_path: Path) -> None:
    memory = make(tmp_path, ("Good  morning", "old"), ("Good morning", "Guten Morgen"), ("Bye.", "Tschüss."))
    report = translate(memory, "Good morning", " Bye. See you. ", "Hi")
    assert texts(report) == ["Guten Morgen", " Tschüss. SEE YOU. ", "HI"]  # the last translation counts
    assert [one.target.approved for one in report.results if one.target] == [True, False, False]
    assert report.from_memory == 1 and report.to_json()["from_memory"] == 1


def test_a_whole_segment_comes_before_its_sentences(tmp_path: Path) -> None:
    memory = make(tmp_path, ("One.", "Eins."), ("One. Two.", "Eins zwei."))
    report = translate(memory, "\tOne. Two.\n")
    assert texts(report) == ["\tEins zwei.\n"] and report.from_memory == 1


def test_placeholders_of_a_match_are_checked(tmp_path: Path) -> None:
    memory = make(
        tmp_path, ("open {a} and {b}", "{b} und {a} öffnen"), ("close {a}", "schließen"), ("x {a} {a}", "{a} y {a}")
    )
    assert texts(translate(memory, "open {a} and {b}", "close {a}", "x {a} {a}")) == [
        "{b} und {a} öffnen", "CLOSE {a}", "{a} y {a}",
    ]  # fmt: skip


def test_a_variable_between_words_is_not_put_into_a_match(tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.add_text("Press ")
    builder.add_point('<x id="1"/>', name="x")
    builder.add_text(" to start it.")
    (result,) = translate(make(tmp_path, ("Press to start it.", "„Start“ drücken.")), builder.build()).results
    assert result.target is not None and not result.target.approved
    assert render(result.target) == 'PRESS <x id="1"/> TO START IT.'


def test_text_with_markup_is_translated_and_the_match_noted(tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.add_text("a ")
    builder.open_pair("<b>", name="b")
    builder.add_text("red")
    builder.close_pair("</b>", "b")
    builder.add_text(" rose")
    report = translate(make(tmp_path, ("a red rose", "eine rote Rose")), builder.build())
    assert texts(report) == ["A RED ROSE"]
    assert report.results[0].matches == (Match("a red rose", "eine rote Rose", 100.0),)


def test_fuzzy_matches_are_those_of_an_exhaustive_search(tmp_path: Path) -> None:
    generator = random.Random(2)
    words = [
        "the",
        "a",
        "red",
        "blue",
        "rose",
        "gate",
        "key",
        "opens",
        "closes",
        "slowly",
        "every",
        "day",
        "garden",
        "old",
    ]

    def sentence() -> str:
        return " ".join(generator.choices(words, k=generator.randint(3, 9)))

    known, asked = [sentence() for _ in range(200)], [sentence() for _ in range(60)]
    found = make(tmp_path, *((one, one.upper()) for one in known)).match(asked)
    n_found = 0
    for text in asked:
        best = max(fuzz.ratio(text, other) for other in known)
        if text in found:
            n_found += 1
            match = found[text]
            assert match.score == (100 if match.source == text else min(99, fuzz.ratio(text, match.source)))
            assert match.score >= MIN_SCORE and match.target == match.source.upper()
        if text in known:
            assert found[text].score == 100
        elif text in found:
            assert best >= found[text].score
    assert n_found > 10


def test_fuzzy_matches_are_shown_but_not_used(tmp_path: Path) -> None:
    from dragoman.documents.reports.review import review_page

    report = translate(
        make(tmp_path, ("The garden is open today.", "Der Garten ist heute offen.")), "The garden is open now."
    )
    assert texts(report) == ["THE GARDEN IS OPEN NOW."]
    (match,) = report.results[0].matches
    assert match.target == "Der Garten ist heute offen." and 75 < match.score < 100
    assert "Der Garten ist heute offen." in review_page(report, "x")


def test_without_rapidfuzz_exact_matches_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "load_scorer", lambda: None)
    memory = make(tmp_path, ("The garden is open today.", "x"), ("Yes.", "Ja."))
    found = memory.match(["The garden is open now.", "Yes."])
    assert list(found) == ["Yes."]


def test_tmx_memories_need_languages() -> None:
    assert Memory([FIXTURES / "omegat.tmx"], "en", "de").match(["The bench is wet."])["The bench is wet."].score == 100
    with raises(DocumentError, "missing_language", "omegat.tmx"):
        Memory([FIXTURES / "omegat.tmx"])
    assert normalize("e\u0301  a\n") == "é a"


def test_a_large_memory_is_read_once_and_kept_outside_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "m.tsv").open("w") as file:
        file.writelines(f"sentence number {i} of a memory that is large\tx{i}\n" for i in range(10_000))
    memory, read = Memory([tmp_path / "m.tsv"]), list[int]()
    pairs = memory.pairs

    def counted() -> Iterator[tuple[str, str]]:
        read.append(1)
        return pairs()

    monkeypatch.setattr(memory, "pairs", counted)
    monkeypatch.setattr(index_module, "BLOCK", 1000)
    tracemalloc.start()
    found = memory.match(["sentence  number 777 of a memory that is large"])
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [one.target for one in found.values()] == ["x777"] and kept < 1 << 20
    similar = memory.match(["sentence number 777 of a memory that is small", "\ud800 x", ""])
    assert [(one.target, one.score < 100) for one in similar.values()] == [("x777", True)]
    assert len(read) == 1


def test_known_sentences_are_found_without_an_index(tmp_path: Path) -> None:
    memory = make(tmp_path, ("a  b", "old"), ("a b", "new"), ("c", ""))
    assert find_exact(memory, ["a b", "a\tb", "c", "d"]) == {"a b": "new", "a\tb": "new"}
    assert memory._index is None


def test_corrections_go_back_into_a_memory(tmp_path: Path) -> None:
    corrected = tmp_path / "corrected.xlf"
    document = xliff.read((FIXTURES / "angular.xlf").read_bytes(), "x", ReadOptions("en", "de"))
    report = translate_segments(document.segments, WordByWord())
    written = document.write([one.target for one in report.results]).decode()
    corrected.write_text(written.replace("HELLO", "Hallo"), encoding="utf-8")
    memory = tmp_path / "memory.tmx"
    assert remember(memory, [corrected, FIXTURES / "weblate.po"], "en", "de") == (3, 3)  # one message is fuzzy
    assert remember(memory, [corrected, FIXTURES / "weblate.po"], "en", "de", unreviewed=True) == (3, 0)
    assert remember(memory, [corrected, FIXTURES / "weblate.po"], "en", "de", unreviewed=True) == (0, 0)
    before = memory.read_bytes()
    confirmed = written.replace("HELLO", "Servus").replace("needs-review-translation", "final")
    corrected.write_text(confirmed, encoding="utf-8")
    assert remember(memory, [corrected], "en", "de") == (1, 0)
    assert memory.read_bytes().startswith(before[: before.index(b"</body>")])
    again = translate_segments(document.segments[:1], WordByWord(), memory=Memory([memory], "en", "de"))
    assert "Servus {{ name }}" in again.results[0].matches[0].target


def test_machine_translations_of_a_tmx_file_count_when_they_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    german = 'xml:lang="de" creationtool="dragoman"'
    unit = "<tu><tuv xml:lang='en'><seg>{0}</seg></tuv><tuv {1}><seg>{0}</seg></tuv></tu>"
    units = unit.format("one", german) + unit.format("two", f'{german} changedate="20260101T000000Z"')
    path.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    assert remember(tmp_path / "m.tsv", [path], "en", "de") == (1, 1)
    assert (tmp_path / "m.tsv").read_text() == "two\ttwo\n"


@pytest.mark.parametrize(
    ("suffix", "mark", "confirmed"),
    [
        (".xlf", "needs-review-translation", "final"),
        (".xlf", "<trans-unit ", "<trans-unit approved='yes' "),
        (".tmx", ' creationtool="dragoman">', ' creationtool="dragoman" changedate="20260101T000000Z">'),
    ],
)
def test_bilingual_files_of_a_document_are_left_out_until_they_are_confirmed(
    suffix: str, mark: str, confirmed: str, tmp_path: Path
) -> None:
    segments = html.read(b"<p>one <b>two</b><p>Known.", "a.html").segments
    report = translate_segments(segments, WordByWord(), memory=make(tmp_path, ("Known.", "Bekannt.")))
    path, memory = tmp_path / f"both{suffix}", tmp_path / "new.tsv"
    path.write_text(bilingual_file(report, suffix, "a.html", "en", "de"))
    assert remember(memory, [path], "en", "de") == (1, 1) and memory.read_text() == "Known.\tBekannt.\n"
    path.write_text(path.read_text().replace(mark, confirmed))
    assert remember(memory, [path], "en", "de") == (1, 0)
    assert memory.read_text() == "Known.\tBekannt.\none two\tONE TWO\n"


def test_machine_translations_of_xliff_2_are_left_out_until_they_are_confirmed(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.xlf", tmp_path / "m.tsv"
    for state in ('state="translated" subState="dragoman:leveraged-mt"', 'state="reviewed"'):
        document = xliff.read((FIXTURES / "xliff20.xlf").read_bytes(), "x", ReadOptions("en", "de"))
        report = translate_segments(document.segments, WordByWord())
        written = document.write([one.target for one in report.results]).decode()
        assert written.count('state="translated" subState="dragoman:leveraged-mt"') == len(document.segments)
        path.write_text(written.replace('state="translated" subState="dragoman:leveraged-mt"', state))
        left_out = len(document.segments) if "subState" in state else 0
        assert remember(memory, [path], "en", "de").unreviewed == left_out
    assert len(memory.read_text().splitlines()) == len(document.segments) + 1  # "Finished." had a translation
    document = xliff.read(written.encode(), "x", ReadOptions("en", "de", retranslate=True))
    again = document.write([Target("a", one.spans, approved=True) for one in document.segments]).decode()
    assert 'subState="dragoman:exact-match"' in again and "leveraged-mt" not in again


@pytest.mark.parametrize("name", ["omegat.tmx", "trados_utf16.tmx", "europe.tmx"])
def test_memories_of_other_programs_are_extended(name: str, tmp_path: Path) -> None:
    memory = tmp_path / name
    memory.write_bytes((FIXTURES / name).read_bytes())
    assert remember(memory, [FIXTURES / "weblate.po"], "en", "de").added == 3
    assert memory.read_bytes()[:200] == (FIXTURES / name).read_bytes()[:200]
    found = Memory([memory], "en", "de").match(["Plant", "a spade", "The bench is wet."])
    assert found["Plant"].target == "Pflanze" and len(found) == {"omegat.tmx": 2, "europe.tmx": 2}.get(name, 1)


def test_remember_rejects_other_files(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("<p>a")
    with raises(DocumentError, "unsupported_format", "x.html"):
        remember(tmp_path / "m.tmx", [tmp_path / "x.html"], "en", "de")
    with raises(OutputError, "unsupported_format", "m.txt"):
        remember(tmp_path / "m.txt", [FIXTURES / "weblate.po"], "en", "de")
    (tmp_path / "m.tsv").write_text("a\tb\n")
    assert remember(tmp_path / "m.tsv", [FIXTURES / "weblate.po"], "en", "de").added == 3
    assert (tmp_path / "m.tsv").read_text().startswith("a\tb\nWelcome to the garden!\tWillkommen im Garten!\n")
    with raises(DocumentError, "language_mismatch", "is 'de', not 'fr'"):
        remember(tmp_path / "m.tsv", [FIXTURES / "weblate.po"], "en", "fr")


def test_a_memory_stays_well_formed_and_a_link_stays_a_link(tmp_path: Path) -> None:
    memory, link, po = tmp_path / "shared.tmx", tmp_path / "link.tmx", tmp_path / "a.po"
    po.write_text('msgid ""\nmsgstr ""\n\nmsgid "one\\001 two"\nmsgstr "eins\\001 zwei"\n', encoding="utf-8")
    assert remember(memory, [po], "en", "de").added == 1
    link.symlink_to(memory)
    po.write_text('msgid ""\nmsgstr ""\n\nmsgid "three"\nmsgstr "drei"\n', encoding="utf-8")
    assert remember(link, [po], "en", "de").added == 1
    assert link.is_symlink() and find_exact(Memory([memory], "en", "de"), ["one two", "three"]) == {
        "one two": "eins zwei",
        "three": "drei",
    }
