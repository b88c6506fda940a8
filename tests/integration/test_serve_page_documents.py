"""Documents on the web page: drop a file, download its translation, and review it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM
from dragoman.documents.detect import FORMATS
from dragoman.documents.memory.lookup import Match
from dragoman.documents.reports.report import PROBLEMS, SegmentResult
from dragoman.documents.reports.review import segment_notes
from dragoman.documents.segment import Segment
from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from dragoman.translation.result import FLAGS, Translation
from serve_page import drive
from serving import WHOLE_LINES
from word_by_word import Aligned

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

DROP = """
const drop = (name, content) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([content], name));
  document.dispatchEvent(new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true }));
  told.dropping = document.body.classList.contains("dropping");
  document.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
};
const stateOf = () => document.body.dataset.document;
"""
WALK = (
    DROP
    + """(async () => {
const visible = id => byId(id).getClientRects().length > 0;
const rows = () => [...byId("review").tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent));
await until(() => current.models);
told.start = [stateOf(), visible("document"), visible("source")];
drop("page.html", "<p>one <b>two</b> 😀</p><p>lost words</p>");
await until(() => stateOf() !== "waiting");
told.end = [stateOf(), text("document-status"), visible("source"), visible("progress")];
told.download = [byId("download").download, byId("download").href.startsWith("blob:"), await opened.blob.text()];
told.rows = rows();
const word = byId("review").querySelector("td:nth-child(2) .word");
word.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
told.linked = [...document.querySelectorAll(".word.on")].map(node => node.textContent);
byId("only-review").click();
told.review = rows().map(row => row[1]);
told.wide = document.documentElement.scrollWidth <= innerWidth;
drop("lines.txt", Array.from({ length: 130 }, (_, i) => `line ${i}`).join("\\n"));
await until(() => stateOf() === "done" && text("document-name") === "lines.txt");
told.many = [rows().length, visible("more"), visible("only-review-choice")];
byId("more").click();
told.all = [rows().length, visible("more")];
drop("scan.pdf", "%PDF-1.7");
await until(() => stateOf() === "error");
told.error = [text("document-status"), visible("download"), visible("progress")];
drop("large.txt", new Uint8Array(current.models.max_bytes + 1));
await until(() => stateOf() === "error" && text("document-name") === "large.txt");
told.large = text("document-status");
drop("data.bin", new Uint8Array(9));
await until(() => stateOf() === "error" && text("document-name") === "data.bin");
told.unsupported = text("document-status");
drop("long.txt", "word ".repeat(2001));
await until(() => stateOf() === "error" && text("document-name") === "long.txt");
told.long = text("document-status");
const straight = window.fetch;
const late = JSON.stringify({ error: { code: "deadline_exceeded", message: "send less text" } });
window.fetch = () => Promise.resolve(new Response(late, { status: 504 }));
drop("slow.txt", "one");
await until(() => stateOf() === "error" && text("document-name") === "slow.txt");
told.slow = text("document-status");
window.fetch = straight;
drop("empty.txt", "\\n");
await until(() => stateOf() === "empty");
told.empty = [text("document-status"), visible("download"), visible("document-result")];
told.accepted = byId("file").accept.split(",");
const files = new DataTransfer();
files.items.add(new File(["one two"], "chosen.txt"));
byId("file").files = files.files;
byId("file").dispatchEvent(new Event("change"));
await until(() => stateOf() === "done");
told.chosen = await opened.blob.text();
byId("document-close").click();
told.closed = [stateOf(), visible("document"), visible("source"), document.activeElement.id];
done();
})();"""
)


class Forgetful(Aligned):
    """Returns nothing for some sentences."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        texts = list(texts)
        for text, translation in zip(texts, super().stream(texts, **settings), strict=True):
            yield replace(translation, text="") if text == "lost words" else translation


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = ServedModel("en-de", Forgetful(), WHOLE_LINES, "a fake", ("en", "de"))
    return drive(Service({"en-de": model}, Limits(max_characters=10_000)), WALK, tmp_path_factory.mktemp("browser"))


def test_a_dropped_file_can_be_downloaded(told: Any) -> None:
    assert told["start"] == ["none", False, True]
    assert told["dropping"]
    assert told["end"] == ["done", "1 of 2 segments translated, 1 to review", False, False]
    assert told["download"] == ["page.de.html", True, "<p>😀 <b>TWO</b> ONE</p><p>lost words</p>"]


def test_the_review_shows_both_texts_and_aligned_words(told: Any) -> None:
    (_, *first), (_, kept, note) = told["rows"]
    assert first == ["one two 😀", "😀 TWO ONE"]
    assert kept == "lost words" and note.startswith("lost words") and len(note) > len("lost words")
    assert told["review"] == ["lost words"]
    assert told["linked"] == ["one", "ONE"]
    assert told["wide"]


def test_a_long_document_is_shown_in_parts(told: Any) -> None:
    assert told["many"] == [100, True, False]
    assert told["all"] == [130, False]


def test_errors_are_shown(told: Any) -> None:
    message, *shown = told["error"]
    assert "PDF" in message and shown == [False, False]
    assert f"{Limits(max_characters=10_000).max_bytes + 1:,}" in told["large"]


def test_errors_are_worded_for_the_page(told: Any) -> None:
    assert "file" in told["slow"] and "send less text" not in told["slow"]
    assert ".xlsm" not in told["unsupported"] and "format 'text'" not in told["unsupported"]
    assert "PowerPoint" in told["unsupported"]
    assert "smaller files" in told["long"] and "requests" not in told["long"]


def test_a_file_without_text_has_no_download(told: Any) -> None:
    assert told["empty"] == ["There is nothing to translate in this file.", False, False]


def test_only_documents_can_be_chosen(told: Any) -> None:
    assert told["accepted"] == [suffix for one in FORMATS for suffix in one.suffixes]


def test_a_file_can_be_chosen_and_closed(told: Any) -> None:
    assert told["chosen"] == "TWO ONE"
    assert told["closed"] == ["none", False, True, "open"]


def test_the_review_is_in_chinese_on_a_chinese_page(tmp_path: Path) -> None:
    matches = (Match("a", "甲", 100.0), Match("b", "乙", 80.0))
    every = SegmentResult(Segment("x"), None, "empty", 0.9, FLAGS, ("词",), ("b",), retried=True, matches=matches)
    results = [every, *(replace(every, problem=problem) for problem in PROBLEMS)]
    results += [SegmentResult(Segment("x"), confidence=0.1, retried=True)]
    notes = [note for result in results for note in segment_notes(result)]
    script = f"""(async () => {{
await until(() => current.models);
told.notes = {json.dumps(notes)}.map(noteText);
drop("lines.txt", "one two\\nlost words");
await until(() => stateOf() === "done");
told.document = [text("document-status"), byId("review").rows[2].textContent, text("only-review-choice").trim()];
done();
}})();"""
    model = ServedModel("en-de", Forgetful(), WHOLE_LINES, "a fake", ("en", "de"))
    found = drive(Service({"en-de": model}, Limits()), DROP + script, tmp_path, query="?lang=zh")
    english = {note["text"] for note in notes}
    assert len(found["notes"]) == len(notes) and english.isdisjoint(found["notes"])
    assert all(re.search("[一-鿿]", note) and "undefined" not in note for note in found["notes"])
    status, row, label = found["document"]
    assert (status, label) == ("共 2 段，已翻译 1 段，1 段需要检查", "只看需要检查的段落")
    assert row == "第 2 行lost wordslost words保留了原文：模型没有给出译文"


def test_the_language_of_a_file_is_detected_and_its_direction_is_shown(tmp_path: Path) -> None:
    script = """(async () => {
await until(() => current.models);
drop("strings.json", JSON.stringify({ key: "Das alte Haus auf dem Hügel wurde verkauft." }));
await until(() => stateOf() === "done");
told.german = [text("document-status"), byId("download").download];
byId("model").value = "en-de"; byId("model").dispatchEvent(new Event("change"));
await until(() => stateOf() === "done" && byId("download").download === "strings.de.json");
told.chosen = text("document-status");
done();
})();"""
    pairs = {"en-de": ("en", "de"), "de-en": ("de", "en")}
    models = {name: ServedModel(name, Aligned(), WHOLE_LINES, "a fake", pair) for name, pair in pairs.items()}
    found = drive(Service(models, Limits()), DROP + script, tmp_path)
    summary = "1 of 1 segments translated, 0 to review"
    assert found["german"] == [f"German to English · {summary}", "strings.en.json"]
    assert found["chosen"] == summary
