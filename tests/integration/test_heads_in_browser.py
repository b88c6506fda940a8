"""The page of `dragoman inspect heads` in a real browser: a click on a head shows its figures and its map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM, chromium
from browser import found as found_in
from dragoman.inspect.attention.maps import record_attention
from dragoman.inspect.heads.page import heads_page
from dragoman.inspect.heads.survey import HeadSurvey, survey_heads
from dragoman.translation.translator import Translator
from small_model import model_at

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

SOURCES = ["one twenty-two </script> six", "ten nine eight seven six five"]
TARGETS = ["eins </script> sechs", "zehn neun acht"]
WATCH = (
    "<script>window.addEventListener('error', e => { document.documentElement.dataset.error = e.message; });</script>"
)
DRIVE = """<script>
const text = id => at(id).textContent, all = what => [...document.querySelectorAll(what)];
const snapshot = () => ({ which: text("which"), label: text("label"), source: text("source"), said: text("description"),
  figures: Object.fromEntries(all("#figures div").map(row => [...row.children].map(cell => cell.textContent))),
  pressed: all("#blocks [aria-pressed=true]").map(b => b.getAttribute("aria-label")),
  size: [at("matrix").width, at("matrix").height] });
const found = { start: snapshot(), buttons: all("#blocks button").map(b => b.getAttribute("aria-label")),
  curves: all("#curves svg").length, circles: all("#curves circle").length };
all("#blocks button")[4].click(); found.decoder = snapshot();
all("#examples button")[1].click(); found.other = snapshot();
const box = at("matrix").getBoundingClientRect();
const there = { clientX: box.left + 5, clientY: box.top + geometry.top + 3 };
at("matrix").dispatchEvent(new PointerEvent("pointermove", there));
found.pointed = snapshot();
const before = getComputedStyle(document.body).backgroundColor;
at("theme").click();
found.themes = [before, getComputedStyle(document.body).backgroundColor];
found.wide = document.documentElement.scrollWidth <= window.innerWidth;
document.body.dataset.found = JSON.stringify(found);
</script></body>"""


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(model_at(tmp_path_factory.mktemp("page") / "model"), device="cpu", engine="torch")


@pytest.fixture(scope="module")
def asked(translator: Translator) -> HeadSurvey:
    return survey_heads(translator, SOURCES, TARGETS, curve=True)


@pytest.fixture(scope="module")
def found(translator: Translator, asked: HeadSurvey, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("browser")
    text = heads_page(asked, translator, SOURCES, TARGETS).replace("<style>", WATCH + "<style>", 1)
    (folder / "page.html").write_text(text.replace("</body>", DRIVE, 1), encoding="utf-8")
    return found_in(chromium((folder / "page.html").as_uri(), folder / "profile", "--dump-dom"))


def test_it_opens_with_the_worthiest_head(found: Any, asked: HeadSurvey) -> None:
    best = max(asked.heads, key=lambda head: head.importance)
    assert found["start"]["which"] == f"{best.id.kind}, layer {best.id.layer}, head {best.id.head}"
    assert len(found["buttons"]) == len(asked.heads) == 15
    for name, head in zip(found["buttons"], asked.heads, strict=True):
        assert name.startswith(f"{head.id.kind}, layer {head.id.layer}, head {head.id.head}: ")
        assert name.endswith(f", {head.label}")
    assert (found["curves"], found["circles"], found["wide"]) == (1, 16, True)


def test_a_click_shows_another_head_and_another_pair(found: Any, asked: HeadSurvey, translator: Translator) -> None:
    head = asked.heads[4]
    assert found["decoder"]["which"] == "decoder, layer 1, head 2" and found["decoder"]["label"] == head.label
    assert len(found["decoder"]["pressed"]) == 1 and found["decoder"]["pressed"][0] == found["buttons"][4]
    assert head.statistics is not None and head.ablation is not None
    assert float(found["decoder"]["figures"]["ablation"]) == pytest.approx(head.ablation, abs=6e-5)
    assert found["decoder"]["figures"]["maximum weight"] == f"{100 * head.statistics.confidence:.0f} %"
    assert "aligns" not in found["decoder"]["figures"]
    assert found["decoder"]["source"] == SOURCES[0] and found["other"]["source"] == SOURCES[1]
    looked = record_attention(translator, SOURCES[1], TARGETS[1])
    row = looked.maps["decoder"][0, 1, 0]
    assert found["other"]["said"] == "Point at a row."
    assert found["pointed"]["said"].startswith(
        f"{looked.target_input.tokens[0]} attends to {looked.target_input.tokens[int(np.argmax(row))]} {row.max():.2f}"
    )
    assert min(found["pointed"]["size"]) > 50


def test_dark_and_light(found: Any) -> None:
    assert found["themes"][0] != found["themes"][1]
