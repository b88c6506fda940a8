"""Attention on the web page: which lines and words it is shown for, and how."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM
from dragoman.serve.limits import Limits
from dragoman.serve.service import Service
from dragoman.translation.result import Translation
from serve_page import MODEL, Backwards, drive, expected

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def test_the_page_sends_what_it_shows_and_repeats_nothing(tmp_path: Path) -> None:
    sent: list[tuple[str, str, str | None]] = []

    class Repeating(Backwards):
        def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
            for one in super().stream(texts, **settings):
                others = [one.text, "another", one.text, "another"][: settings["search"].n_best - 1]
                yield replace(one, alternatives=tuple(Translation(text, -1.0, -1.0) for text in others))

    def forced(source: str, translation: str, to: str | None) -> Translation:
        sent.append((source, translation, to))
        return expected(source)

    script = """(async () => {
    await until(() => current.models);
    write("the old hall"); await until(() => state() === "done");
    byId("alternatives").open = byId("attention").open = true;
    await until(() => byId("map").rows.length && byId("alternative-list").children.length);
    told.others = [...byId("alternative-list").children].map(item => item.firstChild.textContent);
    done(); })();"""
    model = replace(MODEL, translator=Repeating(), forced=forced)
    assert drive(Service({"en-de": model}, Limits()), script, tmp_path)["others"] == ["another"]
    assert sent == [("the old hall", "HALL OLD THE", None)]


def test_improbable_translations_have_no_bar(tmp_path: Path) -> None:
    class Sure(Backwards):
        def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
            for one in super().stream(texts, **settings):
                others = (Translation("likely", -1.0, -1.0), Translation("unlikely", -9.0, -9.0))
                yield replace(one, alternatives=others[: settings["search"].n_best - 1])

    script = """(async () => {
    await until(() => current.models);
    write("the old hall"); await until(() => state() === "done");
    byId("alternatives").open = true;
    await until(() => byId("alternative-list").children.length);
    told.others = [...byId("alternative-list").children].map(item => [...item.children].map(node => node.textContent));
    done(); })();"""
    model = replace(MODEL, translator=Sure())
    found = drive(Service({"en-de": model}, Limits()), script, tmp_path)
    assert found["others"] == [["likely", "", "36.8 %"], ["unlikely"]]


def test_lines_end_where_the_server_ends_them(tmp_path: Path) -> None:
    text = "the hall\fseven boxes\u2028the box\n\U0001f4e6 the old hall"
    script = """(async () => {
    await until(() => current.models);
    write(%TEXT%); await until(() => state() === "done");
    told.looked = [];
    for (let line = 0; line < 4; line++) {
      await selectLine(line); selectWord(0);
      const words = marks().map(([word]) => word);
      told.looked.push([current.line, text("description").split(" ")[0], words, text("highlights")]);
    }
    byId("source").focus(); byId("source").setSelectionRange(12, 12); // in "seven"
    document.dispatchEvent(new Event("selectionchange"));
    await until(() => current.line === 1 && text("description").startsWith("seven is attended to by "));
    done(); })();""".replace("%TEXT%", json.dumps(text))
    looked = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)["looked"]
    lines = text.splitlines()
    assert [line[:3] for line in looked] == [
        [number, line.split()[-1].upper(), line.split()] for number, line in enumerate(lines)
    ]
    assert {line[3] for line in looked} == {text + "\n"}


def test_marks_lie_under_the_words_of_right_to_left_lines(tmp_path: Path) -> None:
    text = "the hall\n\u05d0\u05d1\u05d2 \u05d3\u05d4 the box"
    script = """(async () => {
    await until(() => current.models);
    write(%TEXT%); await until(() => state() === "done");
    await selectLine(1); selectWord(0);
    const marked = [...document.querySelectorAll("mark")].map(mark => mark.getBoundingClientRect());
    told.inside = marked.map(({ left }) => left);
    told.edges = [byId("highlights").getBoundingClientRect().left, byId("highlights").getBoundingClientRect().right];
    told.style = [getComputedStyle(byId("highlights")).unicodeBidi, getComputedStyle(byId("source")).unicodeBidi];
    told.isolated = [...byId("description").children].map(word => word.dir);
    done(); })();""".replace("%TEXT%", json.dumps(text))
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["style"] == ["plaintext", "plaintext"]
    first, second = found["inside"][:2]
    assert second < first  # the line begins at the right, though the text begins at the left
    assert first > sum(found["edges"]) / 2
    assert set(found["isolated"]) == {"auto"}


def test_a_tap_shows_what_a_word_looked_at(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    write("the old hall"); await until(() => state() === "done");
    const tap = place => {
      const { x, y, height } = place.getBoundingClientRect();
      const at = { clientX: x + 4, clientY: y + height / 2, bubbles: true };
      const touch = kind => new PointerEvent(kind, { ...at, pointerType: "touch" });
      place.dispatchEvent(touch("pointerover"));
      target.dispatchEvent(touch("pointerleave"));
      place.dispatchEvent(new MouseEvent("click", at));
    };
    tap(document.querySelector(".line")); // nobody has looked into it before
    await until(() => current.word === 0);
    told.first = text("description");
    tap(document.querySelectorAll(".line span")[2]); await until(() => current.word === 2);
    told.third = text("description");
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["first"].startswith("HALL attends to ")
    assert found["third"].startswith("THE attends to ")


def test_a_line_that_cannot_be_looked_into_shows_no_other_lines_map(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    write("the old hall\\n" + "box ".repeat(300)); byId("source").setSelectionRange(0, 0);
    await until(() => state() === "done");
    byId("attention").open = true; await until(() => byId("map").rows.length);
    told.rows = byId("map").rows.length;
    await selectLine(1);
    told.long = [byId("map").rows.length, text("map")];
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["rows"] == 4
    assert found["long"] == [0, "This line is too long for attention, or was translated in parts."]


def test_scripts_without_spaces_are_shown_by_tokens(tmp_path: Path) -> None:
    side = {
        "text": "我 喜欢苹果。 ok你",
        "tokens": ["我", "▁", "喜欢", *(f"<0x{byte:02X}>" for byte in "苹果".encode()), "。", "▁o", "k", "你"],
        "words": [
            {"text": "我", "start": 0, "end": 1, "tokens": [0]},
            {"text": "喜欢苹果。", "start": 2, "end": 7, "tokens": list(range(1, 10))},
            {"text": "ok你", "start": 8, "end": 11, "tokens": [10, 11, 12]},
        ],
    }
    script = """(async () => {
    await until(() => current.models);
    told.words = splitSpaceless(%SIDE%).words.map(({ text, start, end, tokens }) => [text, start, end, tokens]);
    write("每星期一 box"); await until(() => state() === "done");
    await selectLine(0);
    told.shown = [...document.querySelectorAll(".line span")].map(span => span.textContent);
    told.sums = current.attention.weights.map(row => row.reduce((a, b) => a + b));
    done(); })();""".replace("%SIDE%", json.dumps(side))
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["words"] == [
        ["我", 0, 1, [0]],
        ["喜欢", 2, 4, [1, 2]],
        ["苹果", 4, 6, [3, 4, 5, 6, 7, 8]],
        ["。", 6, 7, [9]],
        ["ok", 8, 10, [10, 11]],
        ["你", 10, 11, [12]],
    ]
    assert found["shown"] == ["BOX", "每星", "期一"]
    np.testing.assert_allclose(found["sums"], 1, atol=2e-3)
