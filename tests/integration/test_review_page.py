"""The review page of a document in a browser: pointing at a word highlights the words aligned with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from browser import CHROMIUM, chromium, found
from dragoman.documents.formats.html import html
from dragoman.documents.reports.report import Report
from dragoman.documents.reports.review import review_page
from dragoman.documents.translate import translate_segments
from word_by_word import WordByWord, backward

DRIVER = """<script>
try {
  const cells = document.querySelectorAll("tbody tr:first-child td");
  const words = cells[1].querySelectorAll("span");
  words[0].dispatchEvent(new MouseEvent("mouseenter"));
  const on = Array.from(document.querySelectorAll(".on"), one => one.textContent);
  const red = Array.from(document.querySelectorAll(".bar"), bar => bar.style.background === "var(--low)");
  document.getElementById("only").click();
  const shown = Array.from(document.querySelectorAll("tbody tr"), row => !row.hidden);
  document.body.dataset.found = JSON.stringify([on, cells[2].textContent, red, shown]);
} catch (error) { document.documentElement.dataset.error = error.stack; }
</script></html>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_the_page_shows_aligned_words(tmp_path: Path) -> None:
    segments = html.read("<p>one 😀 <b>two</b> {x}</p><p>lost {y}</p>".encode(), "page.html").segments
    forgetful = WordByWord(lost=frozenset(["X1", "4831"]), can_require=False)
    done = translate_segments(segments[:1], WordByWord(order=backward), align=True).results
    lost = [replace(translate_segments(segments[1:], forgetful).results[0], confidence=0.9)]
    unsure = [replace(done[0], confidence=0.29), replace(done[0], confidence=0.31)]
    page = review_page(Report([*done, *lost, *unsure]), "page.html").replace("</html>", DRIVER)
    (tmp_path / "review.html").write_text(page, encoding="utf-8")
    document = chromium((tmp_path / "review.html").as_uri(), tmp_path / "profile", "--dump-dom")
    assert found(document) == [["one", "ONE"], "{x} TWO 😀 ONE", *[[False, True, True, False]] * 2]


NOTHING = """<script>
document.body.dataset.found = JSON.stringify([document.getElementById("choice").textContent,
  document.getElementById("only") === null, document.querySelectorAll("tbody tr:not([hidden])").length]);
</script></html>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_page_without_segments_to_review_says_so(tmp_path: Path) -> None:
    segments = html.read(b"<p>one</p><p>two</p>", "page.html").segments
    results = [replace(one, confidence=0.9) for one in translate_segments(segments, WordByWord()).results]
    page = review_page(Report(results), "page.html").replace("</html>", NOTHING)
    (tmp_path / "review.html").write_text(page, encoding="utf-8")
    document = chromium((tmp_path / "review.html").as_uri(), tmp_path / "profile", "--dump-dom")
    assert found(document) == ["No segments need review.", True, 2]
