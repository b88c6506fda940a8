from __future__ import annotations

import pytest

from dragoman.documents.reports.bilingual import bilingual_file
from dragoman.documents.reports.numbers import numbers_differ
from dragoman.documents.reports.review import entry
from dragoman.documents.segment import Segment
from dragoman.documents.translate import translate_segments
from word_by_word import WordByWord, backward


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("no number", "keine Zahl"),
        ("$1,250.50", "1.250,50 Dollar"),
        ("12,500 people", "12\u202f500 Menschen"),
        ("12 500 people", "12.500 Menschen"),
        ("1234567", "1.234.567"),
        ("at 09:30", "um 9.30 Uhr"),
        ("on 5/1/2024", "am 1.5.2024"),
        ("2024-05-01", "01.05.2024"),
        ("May 1st, 2024", "1. Mai 2024"),
        ("three of 25", "3 von 25"),
        ("12 dogs", "zwölf Hunde"),
        ("300 people in 2020", "2020 waren es 300"),
        ("٣٥", "35"),
    ],
)
def test_numbers_are_the_same(source: str, target: str) -> None:
    assert not numbers_differ(source, target) and not numbers_differ(target, source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("$1,250.50", "1.250 Dollar"),
        ("+1 (555) 123-4567", "+1 (55) 123-4567"),
        ("£99.99", "99.9 Pfund"),
        ("step 3", "Schritt 4"),
        ("0.5 %", "5 %"),
        ("25 dogs", "Hunde"),
        ("25 of 25", "25"),
        ("at 1.2 m", "bei einem Meter"),
        ("", "0.5"),
    ],
)
def test_numbers_differ(source: str, target: str) -> None:
    assert numbers_differ(source, target) and numbers_differ(target, source)


def test_a_segment_with_other_numbers_needs_review_everywhere() -> None:
    translator = WordByWord(lambda word: word.replace("555", "55").upper(), backward)
    segments = [Segment("call 555 now"), Segment("call 556 now"), Segment("call {0} at 12,500")]
    report = translate_segments(segments, translator)
    assert [result.flags for result in report.results] == [("numbers_differ",), (), ()]
    assert [result.needs_review for result in report.results] == [True, False, False]
    assert report.results[0].target is not None and report.results[0].target.text == "NOW 55 CALL"
    assert [one["flags"] for one in report.to_json()["review"]] == [["numbers_differ"]]
    assert entry(report.results[0])["notes"] == [{"code": "numbers_differ", "values": (), "text": "numbers differ"}]
    assert "numbers_differ" in bilingual_file(report, ".xlf", "page.html", "en", "de")
