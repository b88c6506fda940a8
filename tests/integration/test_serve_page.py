"""The web page from opening to clearing: lines, attention, alternatives, themes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM
from dragoman.serve.limits import Limits
from dragoman.serve.service import Service
from dragoman.text.word_groups import visible_word_ids
from dragoman.translation.result import Translation
from serve_page import MODEL, drive, expected

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

TEXT = "the old box, the hall\n\n  seven boxes <b>&amp;"
WALK = """(async () => {
await until(() => current.models);
told.start = [state(), text("target"), byId("copy").hidden, byId("details").hidden, byId("model-choice").hidden,
  text("model-name")];
write(%TEXT%);
await until(() => state() === "done");
told.lines = [...document.querySelectorAll("#target .line")].map(line => line.textContent);
told.begun = [current.line];
byId("source").setSelectionRange(22, 22); current.sent = null; await translate(); // the cursor is in the empty line
told.begun.push(current.line);
told.asked = asking.filter(path => path.includes("attention")).length;
over(document.querySelector(".line"));
await until(() => current.attention);
over(document.querySelectorAll(".line span")[1]);
told.weights = current.attention.weights;
told.marks = marks();
told.mirror = text("highlights");
told.said = text("description");
told.chosen = document.querySelectorAll(".line span.chosen").length;
byId("target").dispatchEvent(new PointerEvent("pointerleave"));
told.left = [marks().length, text("description")];
press("ArrowRight"); await until(() => current.word === 0);
press("ArrowRight"); await until(() => current.word === 1);
told.walked = text("description");
press("ArrowDown"); await until(() => current.line === 2 && current.word === 0);
told.second = [...document.querySelectorAll(".line")[2].querySelectorAll("span")].map(span => span.textContent);
told.both = document.querySelectorAll(".line span.chosen").length;
told.under = marks().map(([word]) => word);
press("Escape");
byId("alternatives").open = true; await until(() => byId("alternative-list").children.length);
told.others = [...byId("alternative-list").children].map(item => item.firstChild.textContent);
byId("attention").open = true; await until(() => byId("map").rows.length);
told.map = [byId("map").rows.length, byId("map").rows[0].cells.length];
byId("source").focus(); byId("source").setSelectionRange(5, 5);
document.dispatchEvent(new Event("selectionchange"));
await until(() => current.line === 0 && text("description"));
told.followed = text("description");
byId("copy").click(); await until(() => text("copy") !== "Copy");
told.copied = text("copy");
const before = getComputedStyle(document.body).backgroundColor;
byId("theme").click();
told.themes = [before, getComputedStyle(document.body).backgroundColor];
told.wide = document.documentElement.scrollWidth <= innerWidth;
told.language = document.documentElement.lang;
byId("clear").click(); await until(() => state() === "idle");
told.cleared = [byId("source").value, text("target"), byId("details").hidden];
done();
})();"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    script = WALK.replace("%TEXT%", json.dumps(TEXT))
    return drive(Service({"en-de": MODEL}, Limits()), script, tmp_path_factory.mktemp("browser"))


def between_words(translation: Translation) -> np.ndarray:
    """The weights between words, from the rule: summed over what is looked at, averaged over who looks."""
    rows, columns = (
        np.array(visible_word_ids(translation.tokens)),
        np.array(visible_word_ids(translation.source_tokens)),
    )
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    for t, row in enumerate(translation.alignment_weights):
        for s, weight in enumerate(row):
            table[rows[t], columns[s]] += weight / (rows == rows[t]).sum()
    return table


def test_it_opens_quietly(told: Any) -> None:
    assert told["start"] == ["idle", "The translation appears here", True, True, True, "English to German"]
    assert told["language"] == "en"
    assert told["wide"]


def test_every_line_is_translated_in_its_place(told: Any) -> None:
    assert told["lines"] == ["HALL THE BOX, OLD THE", "", "  <B>&AMP; BOXES SEVEN"]
    assert told["asked"] == 0  # nobody had looked yet


def test_the_line_that_is_looked_into_is_that_of_the_cursor_or_the_first(told: Any) -> None:
    assert told["begun"] == [2, 0]


def test_a_word_that_is_pointed_at_shows_what_it_looked_at(told: Any) -> None:
    translation = expected(TEXT.split("\n")[0])
    weights = between_words(translation)
    np.testing.assert_allclose(told["weights"], weights, atol=2e-3)
    assert [word for word, _ in told["marks"]] == ["the", "old", "box,", "the", "hall"]
    np.testing.assert_allclose([weight for _, weight in told["marks"]], weights[1], atol=2e-3)
    assert told["mirror"] == TEXT + "\n"
    assert told["chosen"] == 1
    likeliest = ["the", "old", "box,", "the", "hall"][int(weights[1].argmax())]
    assert told["said"].startswith(f"THE attends to {likeliest} {round(100 * weights[1].max())} %")
    assert told["left"] == [0, ""]


def test_arrow_keys_go_from_word_to_word_and_from_line_to_line(told: Any) -> None:
    assert told["walked"] == told["said"]
    assert told["second"] == ["<B>&AMP;", "BOXES", "SEVEN"]
    assert told["both"] == 1  # though both lines have a first word
    assert told["under"] == ["seven", "boxes", "<b>&amp;"]


def test_alternatives_and_the_map_are_there_on_demand(told: Any) -> None:
    best = expected(TEXT.split("\n")[2].strip(), n_best=5, beam=5)
    assert told["others"] == [other.text for other in best.alternatives]  # not what is already shown
    words = max(visible_word_ids(best.tokens)) + 1
    assert told["map"] == [words + 1, 3 + 1]


def test_the_cursor_in_the_text_shows_who_looked_there(told: Any) -> None:
    assert told["followed"].startswith("old is attended to by ")


def test_copy_dark_and_light_and_clear(told: Any) -> None:
    assert told["copied"] == "Copied"
    assert told["themes"][0] != told["themes"][1]
    assert told["cleared"] == ["", "The translation appears here", True]


def test_the_description_is_drawn(tmp_path: Path) -> None:
    script = """(async () => { await until(() => state() === "done");
    told.heads = [...document.querySelectorAll("h2")].map(head => head.textContent);
    told.fields = [...document.querySelectorAll("section")][0].textContent;
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path, query="docs")
    assert {"POST/v1/translate", "POST/v1/attention", "GET/v1/models", "GET/metrics"} <= set(found["heads"])
    assert "length_penalty" in found["fields"]
    assert "from -5 to 5" in found["fields"]


def test_the_description_fits_a_telephone_without_broken_words(tmp_path: Path) -> None:
    script = """(async () => { await until(() => state() === "done");
    document.body.style.width = "390px"; // Chromium's windows are at least 500 wide
    const broken = [];
    for (const cell of document.querySelectorAll("td")) for (const node of cell.childNodes) {
      for (const word of node.textContent.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) broken.push(word[0]);
      }
    }
    told.broken = broken.filter(word => !/[-/,]/.test(word)); // lines may break after those
    told.wide = document.body.scrollWidth;
    const download = [...document.querySelectorAll("section")].find(one => one.textContent.includes("/download_file/"));
    told.titles = [...download.querySelectorAll("h3")].map(title => title.textContent).slice(0, 1);
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path, "--window-size=500,900", query="docs")
    assert found["broken"] == []
    assert found["wide"] <= 390
    assert found["titles"] == ["Path parameters"]
