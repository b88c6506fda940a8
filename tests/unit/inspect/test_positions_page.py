"""The page of position codes contains their numbers, loads nothing, and works in a browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from attention_pages import assert_offline
from browser import CHROMIUM, chromium, found
from dragoman.config import ModelRecipe
from dragoman.config.model import PositionCodeName
from dragoman.errors import SearchError
from dragoman.inspect.positions.codes import PositionView, code_views
from dragoman.inspect.positions.page import positions_page
from dragoman.inspect.positions.picture import sign_colormap
from raising import raises

DRIVE = """<script>
const all = what => [...document.querySelectorAll(what)];
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
const shown = () => [...document.querySelectorAll(".slot select")].map(s => s.selectedOptions[0].textContent);
const seen = { start: shown(), cards: all("#cards button").length, lines: all("#chart .mean").length };
const [rows, columns] = views[0].values.shape, painted = paintNumbers(views[0].values, 0).getContext("2d");
seen.painted = [...painted.getImageData(0, 0, columns, rows).data];
all("#cards button").find(b => b.textContent === "alibi").dispatchEvent(new MouseEvent("click", { shiftKey: true }));
seen.after = shown(); seen.heads = all(".slot[data-slot='1'] .planes button").length;
press("ArrowRight"); press("ArrowRight"); press("ArrowDown");
seen.said = at("description").textContent;
const canvas = all(".slot canvas")[1], box = canvas.getBoundingClientRect(), g = canvas.geometry;
const clientX = box.left + LEFT + 3.5 / g.columns * g.wide, clientY = box.top + 6 + 5.5 / g.rows * g.high;
canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
seen.pair = state.pair;
const before = getComputedStyle(document.body).backgroundColor;
at("theme").click();
seen.themes = [before, getComputedStyle(document.body).backgroundColor];
seen.wide = document.documentElement.scrollWidth <= window.innerWidth;
document.body.dataset.found = JSON.stringify(seen);
</script></body>"""
WATCH = (
    "<script>window.addEventListener('error', e => { document.documentElement.dataset.error = e.message; });</script>"
)


@pytest.fixture(scope="module")
def views() -> list[PositionView]:
    return code_views(get_args(PositionCodeName), ModelRecipe(d_model=16, n_heads=4), 9)


@pytest.fixture(scope="module")
def text(views: list[PositionView]) -> str:
    return positions_page(views, "codes of <b>")


def unpack(entry: dict[str, Any]) -> Any:
    numbers = np.frombuffer(base64.b64decode(entry["numbers"]), "<i2").reshape(entry["shape"])
    return numbers / 32767 * entry["scale"]


def test_the_numbers_come_back(text: str, views: list[PositionView]) -> None:
    assert text.count("</script>") == text.count("<script") == 2
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["title"] == "codes of <b>"
    assert [entry["name"] for entry in data["views"]] == [view.name for view in views]
    for entry, view in zip(data["views"], views, strict=True):
        for name in ("values", "pairs"):
            step = entry[name]["scale"] / 32767
            np.testing.assert_allclose(unpack(entry[name]), getattr(view, name), atol=0.51 * step)
    assert not set(re.findall(r"/\*[A-Z]+\*/", text))


def test_there_is_no_reference_to_the_network(text: str) -> None:
    assert_offline(text)


def test_a_page_of_too_many_positions_is_rejected() -> None:
    with raises(SearchError, "too_large", "601", "--length"):
        positions_page(code_views(["none"], ModelRecipe(d_model=8), 601))


def assert_painted_as_in_a_picture(view: PositionView, pixels: Any) -> None:
    """Compare the colors of the page, on white, with those of the picture."""
    shares = view.values / np.abs(view.values).max()
    expected = 255 * sign_colormap()((shares.flatten() + 1) / 2)[:, :3]
    colors, opacity = pixels[:, :3], pixels[:, 3:] / 255
    np.testing.assert_allclose(opacity * colors + (1 - opacity) * 255, expected, atol=3)
    assert (shares < -0.5).any() and (shares > 0.5).any()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_two_codes_are_compared_in_a_browser(text: str, views: list[PositionView], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    driven = text.replace("<style>", WATCH + "<style>", 1).replace("</body>", DRIVE)
    page.write_text(driven, encoding="utf-8")
    seen = found(chromium(page.as_uri(), tmp_path / "profile", "--dump-dom", "--window-size=500,800"))
    assert seen["start"] == ["sinusoidal", "index"]
    assert (seen["cards"], seen["lines"]) == (len(views), 2)
    assert_painted_as_in_a_picture(views[0], np.array(seen["painted"]).reshape(-1, 4))
    assert (seen["after"], seen["heads"]) == (["sinusoidal", "alibi"], 4)
    assert "query at 1, key at 1" in seen["said"] and "alibi head 2: 0.00 added to the score" in seen["said"]
    assert seen["pair"] == [5, 3]
    assert seen["themes"][0] != seen["themes"][1]
    assert seen["wide"]
