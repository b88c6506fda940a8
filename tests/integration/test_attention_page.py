"""The page of `dragoman inspect attention` in a real browser: it draws, answers the keys, and meets no error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM, chromium
from browser import found as found_in
from dragoman.inspect.attention.maps import SentenceAttention, record_attention
from dragoman.inspect.attention.page import attention_page
from dragoman.translation.translator import Translator
from small_model import model_at

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

WATCH = (
    "<script>window.addEventListener('error', e => { document.documentElement.dataset.error = e.message; });</script>"
)
DRIVE = """<script>
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
const count = what => document.querySelectorAll(what).length;
const pressed = place => [...document.querySelectorAll(`#${place} [aria-pressed=true]`)].map(b => b.textContent);
const snapshot = () => ({ kind: pressed("kinds"), layer: pressed("layers"), heads: pressed("heads"),
  units: pressed("units"), words: count("#lines text"), thumbnails: count("#overview canvas"),
  said: document.getElementById("description").textContent });
const found = { start: snapshot(), values: Array.from(data.kinds.cross.values),
  words: weights("cross", 2, 1).map(row => [...row]) };
press("ArrowDown"); press("ArrowDown"); found.second = snapshot();
press("ArrowRight"); press("ArrowRight"); press("["); found.turned = snapshot();
press("u"); found.tokens = snapshot();
press("k"); press("a"); found.encoder = snapshot();
document.querySelector("#kinds button").click();
document.querySelector('rect[data-side="column"]').dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
found.column = snapshot();
found.isolated = [...document.querySelectorAll("#description bdi")].map(word => [word.textContent, word.dir]);
const before = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
found.themes = [before, getComputedStyle(document.body).backgroundColor];
found.matrix = [document.getElementById("matrix").width, document.getElementById("matrix").height];
found.wide = document.documentElement.scrollWidth <= window.innerWidth;
const held = () => [document.activeElement.parentElement.id, document.activeElement.dataset.value];
document.querySelectorAll("#heads button")[2].focus(); press("ArrowDown"); press("]"); found.held = [held()];
document.activeElement.click(); found.held.push(held());
document.querySelectorAll("#overview button")[1].focus(); document.activeElement.click();
found.held.push([held()[0], document.activeElement.getAttribute("aria-label")]);
document.body.dataset.found = JSON.stringify(found);
</script></body>"""


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> SentenceAttention:
    place = model_at(tmp_path_factory.mktemp("page") / "model", encoder_layers=2, decoder_layers=3)
    return record_attention(
        Translator.load(place, device="cpu", engine="torch"), "one twenty-two six", "eins </script> sechs"
    )


@pytest.fixture(scope="module")
def found(attention: SentenceAttention, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("browser")
    text = attention_page(attention).replace("<style>", WATCH + "<style>", 1).replace("</body>", DRIVE, 1)
    (folder / "page.html").write_text(text, encoding="utf-8")
    return open_page(folder / "page.html")


def open_page(path: Path, *options: str) -> Any:
    return found_in(chromium(path.as_uri(), path.parent / "profile", *options, "--dump-dom"))


def test_it_opens_with_the_last_layer_and_all_heads(found: Any, attention: SentenceAttention) -> None:
    start = found["start"]
    assert (start["kind"], start["layer"], start["heads"], start["units"]) == (
        ["cross"],
        ["3"],
        ["mean of all"],
        ["words"],
    )
    assert start["words"] == len(attention.target_output.words) + len(attention.source.words)
    assert start["thumbnails"] == 3 * 3
    assert found["wide"]


def test_a_button_keeps_the_focus_when_it_is_drawn_anew(found: Any) -> None:
    assert found["held"] == [["heads", "1"], ["heads", "1"], ["overview", "layer 1, head 2"]]


def test_words_beside_figures_are_isolated_so_that_arabic_does_not_turn_them_around(found: Any) -> None:
    assert found["isolated"]
    for word, direction in found["isolated"]:
        assert direction == "auto"
        assert f"{word} 0." in found["column"]["said"]


def test_the_browser_pools_words_as_python_does(found: Any, attention: SentenceAttention) -> None:
    np.testing.assert_allclose(np.array(found["values"]) / 65535, attention.maps["cross"].flatten(), atol=1e-5)
    expected = attention.pool("cross")[2, 1]
    np.testing.assert_allclose(found["words"], expected, atol=1e-4)


def test_keys_move_word_head_layer_units_and_kind(found: Any, attention: SentenceAttention) -> None:
    mean = attention.pool("cross")[2].mean(0)[1]
    best = attention.source.words[int(mean.argmax())].label
    assert found["second"]["said"].startswith(f"</script> attends to  {best} {mean.max():.2f}")
    assert (found["turned"]["heads"], found["turned"]["layer"]) == (["2"], ["2"])
    assert found["tokens"]["units"] == ["tokens"]
    assert found["tokens"]["words"] == len(attention.target_output.tokens) + len(attention.source.tokens)
    assert (found["encoder"]["kind"], found["encoder"]["heads"]) == (["encoder"], ["mean of all"])
    assert found["encoder"]["words"] == 2 * len(attention.source.tokens)


def test_a_pointer_over_a_source_word_shows_who_looks_at_it(found: Any, attention: SentenceAttention) -> None:
    assert found["column"]["said"].startswith(f"{attention.source.tokens[0]} is attended by ")


def test_dark_and_light(found: Any) -> None:
    assert found["themes"][0] != found["themes"][1]
    assert min(found["matrix"]) > 50


def test_a_part_is_shown_under_its_own_numbers(attention: SentenceAttention, tmp_path: Path) -> None:
    told = """<script>document.dispatchEvent(new KeyboardEvent("keydown", { key: "u" }));
const text = place => at(place).textContent;
document.body.dataset.found = JSON.stringify([text("kinds"), text("layers"), text("heads"), text("overview"),
  text("description"), at("unit-choice").hidden, at("name-choice").hidden,
  document.querySelectorAll("#lines text").length]);
</script></body>"""
    text = attention_page(attention.select("decoder", 2, 3), words=True).replace("<style>", WATCH + "<style>", 1)
    (tmp_path / "page.html").write_text(text.replace("</body>", told, 1), encoding="utf-8")
    shown = open_page(tmp_path / "page.html")
    assert shown[:4] == ["decoder", "2", "3", "head 3layer 2"]
    assert shown[4].startswith("decoder, layer 2, head 3.")
    assert shown[5:] == [True, True, 2 * len(attention.target_output.words)]


def test_it_fits_a_telephone(attention: SentenceAttention, tmp_path: Path) -> None:
    frame = '<iframe src="page.html" style="width:390px;height:800px"></iframe>'
    told = (
        "<script>document.body.dataset.found = JSON.stringify(document.documentElement.scrollWidth);"
        "window.parent.postMessage(document.body.dataset.found, '*')</script></body>"
    )
    (tmp_path / "page.html").write_text(attention_page(attention).replace("</body>", told, 1), encoding="utf-8")
    listen = "<script>window.onmessage = e => { document.body.dataset.found = e.data; }</script>"
    (tmp_path / "outer.html").write_text(f"<!doctype html><body>{listen}{frame}</body>", encoding="utf-8")
    assert open_page(tmp_path / "outer.html", "--virtual-time-budget=3000") <= 390
