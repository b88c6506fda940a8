"""The review page and the bilingual files of a translated document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from dragoman.documents.files import Extras, check_outputs
from dragoman.documents.formats.html import html
from dragoman.documents.reports.bilingual import bilingual_file
from dragoman.documents.reports.report import LOW_CONFIDENCE, Report, SegmentResult
from dragoman.documents.reports.review import review_page, segment_notes
from dragoman.documents.segment import Segment, Target
from dragoman.documents.translate import translate_segments
from dragoman.errors import OutputError
from dragoman.translation.result import FLAGS
from raising import raises
from word_by_word import WordByWord, backward

PAGE = b"""<p>One <b>two &amp; {file}</b> three <img src="a.png"></p><p>lost {x} here</p><p translate=no>no</p>
<h1>He said </script> 'x' &lt;b> \xf0\x9f\x98\x80 four</h1>"""


@pytest.fixture
def report() -> Report:
    segments = html.read(PAGE, "page.html").segments
    return translate_segments(segments, WordByWord(order=backward), align=True)


def test_xliff_has_both_texts(report: Report) -> None:
    root = etree.fromstring(bilingual_file(report, ".xlf", 'a "page".html', "en", "de").encode())
    space = {"x": "urn:oasis:names:tc:xliff:document:1.2"}
    assert root.xpath("string(//x:file/@original)", namespaces=space) == 'a "page".html'
    units = root.findall(".//x:trans-unit", space)
    assert len(units) == len(report.results)
    assert ["".join(unit.find("x:source", space).itertext()) for unit in units] == [
        result.segment.text for result in report.results
    ]
    first = units[0].find("x:target", space)
    assert "".join(first.itertext()).split() == ["THREE", "{file}", "&", "TWO", "ONE"]
    assert ["".join(g.itertext()) for g in first.findall("x:g", space)] == ["{file} & TWO"]
    assert len(first.findall("x:x", space)) == 1


def test_tmx_has_both_texts(report: Report) -> None:
    root = etree.fromstring(bilingual_file(report, ".tmx", "page.html", "en", "de").encode())
    found = [[tuv.get("{http://www.w3.org/XML/1998/namespace}lang") for tuv in tu] for tu in root.iter("tu")]
    assert found == [["en", "de"]] * report.translated
    (opening, *_) = root.iter("bpt")
    assert opening.text == "<b>"


def page_data(page: str) -> dict[str, Any]:
    found = re.search(r"const data = (\{.*\});\n", page)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_has_words_with_their_links(report: Report) -> None:
    page = review_page(report, "page.html")
    assert page.count("</script>") == 1  # that of the page itself
    first = page_data(page)["segments"][0]
    assert (first["source"], first["target"]) == ("One two & {file} three", "THREE {file} & TWO ONE")
    source, target, links = first["words"]
    pairs = {(first["source"][slice(*source[s])], first["target"][slice(*target[t])]) for s, t in links}
    assert pairs == {("One", "ONE"), ("two", "TWO"), ("&", "&"), ("{file}", "{file}"), ("three", "THREE")}


def test_low_confidence_needs_review_everywhere() -> None:
    results = [
        SegmentResult(Segment(f"text {confidence}"), Target("Text"), confidence=confidence)
        for confidence in (0.9, LOW_CONFIDENCE, LOW_CONFIDENCE - 1e-6, 0.02, None)
    ]
    results.append(SegmentResult(Segment("text 6"), Target("Text"), confidence=0.1, flags=("too_short",)))
    report, expected = Report(results), [False, False, True, True, False, True]
    assert [one.needs_review for one in results] == expected
    assert report.counts.to_review == 3 and report.summary().endswith("; 3 to review")
    assert [one["segment"] for one in report.to_json()["review"]] == [3, 4, 6]
    segments = page_data(review_page(report, "page.html"))["segments"]
    assert [one["review"] for one in segments] == expected
    assert [bool(one["notes"]) for one in segments] == expected
    assert [note["code"] for note in segments[5]["notes"]] == ["too_short"]  # it explains the confidence
    units = bilingual_file(report, ".xlf", "page.html", "en", "de").split("</trans-unit>")[:-1]
    assert ["<note>" in unit for unit in units] == expected


def test_bilingual_files_mark_what_the_model_translated() -> None:
    approved = SegmentResult(Segment("one"), Target("eins", approved=True))
    report = Report([approved, SegmentResult(Segment("two"), Target("zwei")), SegmentResult(Segment("six"))])
    xliff = bilingual_file(report, ".xlf", "page.html", "en", "de")
    assert '<target state="translated" state-qualifier="exact-match">eins' in xliff
    assert '<target state="needs-review-translation" state-qualifier="leveraged-mt">zwei' in xliff
    assert "<note>" not in xliff
    tmx = bilingual_file(report, ".tmx", "page.html", "en", "de")
    assert '<tuv xml:lang="de"><seg>eins' in tmx
    assert '<tuv xml:lang="de" creationtool="dragoman"><seg>zwei' in tmx


def test_flags_have_labels() -> None:
    every = SegmentResult(Segment("x"), Target("y"), confidence=0.9, flags=FLAGS)
    notes = list(segment_notes(every))
    assert [note["code"] for note in notes] == [flag for flag in FLAGS if flag != "unmet"]
    assert not {note["text"] for note in notes} & set(FLAGS)


def test_names_are_checked_before_anything_is_translated(tmp_path: Path) -> None:
    with raises(OutputError, "unsupported_format", ".tmx"):
        Extras.parse(None, tmp_path / "a.csv")
    same = Extras.parse(tmp_path / "c.tmx", tmp_path / "c.tmx")
    with raises(OutputError, "output_is_input"):
        check_outputs(same.files, [])
