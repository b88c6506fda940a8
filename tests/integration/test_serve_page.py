"""The page of `dragoman serve` in a real browser: it translates, shows what was looked at, and how things stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM, chromium, found
from dragoman.search.types import Search
from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from dragoman.text.word_groups import visible_word_ids
from dragoman.translation.result import Translation
from serving import WHOLE_LINES, served

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

TEXT = "the old box, the hall\n\n  seven boxes <b>&amp;"
HELP = """
window.addEventListener("error", e => { document.documentElement.dataset.error = e.message; });
window.addEventListener("unhandledrejection", e => { document.documentElement.dataset.error = String(e.reason); });
document.addEventListener("securitypolicyviolation", e => {
  document.documentElement.dataset.error = e.violatedDirective;
});
const asking = [], real = window.fetch;
window.fetch = (path, ...rest) => { asking.push(path); return real(path, ...rest); };
const until = async truth => {
  for (let i = 0; !truth(); i++) {
    if (i === 500) throw new Error(`it never came true: ${truth}; ${document.body.textContent}`);
    await new Promise(next => setTimeout(next, 20));
  }
};
const write = text => { byId("source").value = text; byId("source").dispatchEvent(new Event("input")); };
const state = () => document.body.dataset.state;
const press = key => byId("target").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const over = node => node.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
const weight = mark => Number(mark.style.getPropertyValue("--weight"));
const marks = () => [...document.querySelectorAll("mark")].map(mark => [mark.textContent, weight(mark)]);
const text = id => byId(id).textContent;
const told = {};
const done = () => { document.body.dataset.found = JSON.stringify(told); };
"""
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
const before = getComputedStyle(document.body).backgroundColor;
byId("theme").click();
told.themes = [before, getComputedStyle(document.body).backgroundColor];
told.wide = document.documentElement.scrollWidth <= innerWidth;
told.language = document.documentElement.lang;
byId("clear").click(); await until(() => state() === "idle");
told.cleared = [byId("source").value, text("target"), byId("details").hidden];
done();
})();"""


class Backwards:
    """A translator whose answers a test can foretell: it shouts the words from the last to the first."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        for text in texts:
            words = text.split()
            written = [word.upper() for word in reversed(words)]
            others = [Translation(f"{rank} {text}", 0.0, -rank) for rank in range(1, settings["search"].n_best)]
            tokens = [token for word in written for token in (f"▁{word[:2]}", *([word[2:]] if word[2:] else []))]
            yield Translation(
                " ".join(written),
                -0.5,
                -0.25,
                tuple(tokens),
                tuple(f"▁{word}" for word in words),
                attention=self.attention(len(tokens), len(words)),
                alignment=(),
                alternatives=tuple(others),
            )

    def attention(self, rows: int, columns: int) -> np.ndarray:
        weights = np.random.default_rng(rows).random((rows, columns)) ** 4
        return np.asarray(weights / weights.sum(1, keepdims=True))


MODEL = ServedModel("en-de", Backwards(), WHOLE_LINES, "a fake", ("en", "de"))


def drive(service: Service, script: str, profile: Path, *options: str, query: str = "?lang=en") -> Any:
    """What a script found on the page."""
    with served(service, {"drive.js": HELP + script}) as address:
        return found(chromium(f"{address}/{query}", profile, "--virtual-time-budget=30000", "--dump-dom", *options))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    script = WALK.replace("%TEXT%", json.dumps(TEXT))
    return drive(Service({"en-de": MODEL}, Limits()), script, tmp_path_factory.mktemp("browser"))


def expected(line: str, **settings: Any) -> Translation:
    (found,) = Backwards().stream([line], search=Search(**settings))
    return found


def between_words(translation: Translation) -> np.ndarray:
    """The weights between words, from the rule: summed over what is looked at, averaged over who looks."""
    rows, columns = (
        np.array(visible_word_ids(translation.tokens)),
        np.array(visible_word_ids(translation.source_tokens)),
    )
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    for t, row in enumerate(translation.attention):
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


def test_dark_and_light_and_clear(told: Any) -> None:
    assert told["themes"][0] != told["themes"][1]
    assert told["cleared"] == ["", "The translation appears here", True]


def test_chinese_two_models_and_a_telephone(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    told.words = [text("source-name"), text("target-name"), document.documentElement.lang, byId("source").placeholder];
    told.models = [...byId("model").options].map(option => option.textContent);
    write("the hall"); await until(() => state() === "done");
    byId("model").value = "second"; byId("model").dispatchEvent(new Event("change"));
    told.model = current.model;
    await until(() => state() === "waiting"); await until(() => state() === "done");
    byId("alternatives").open = byId("attention").open = true;
    await until(() => byId("map").rows.length && byId("alternative-list").children.length);
    told.wide = [document.documentElement.scrollWidth, innerWidth];
    done(); })();"""
    service = Service({name: replace(MODEL, name=name) for name in ("first", "second")}, Limits())
    options = ("--accept-lang=zh-CN,en", "--lang=zh-CN", "--window-size=500,900")
    found = drive(service, script, tmp_path, *options, query="")
    assert found["words"] == ["原文", "译文", "zh-CN", "输入或粘贴文字"]
    assert found["models"] == ["英语 → 德语 (first)", "英语 → 德语 (second)"]
    assert found["model"] == "second"
    assert found["wide"][0] <= found["wide"][1]


def test_a_model_of_several_languages_is_a_choice_for_each(tmp_path: Path) -> None:
    script = """(async () => {
await until(() => current.models);
told.choices = [...byId("model").options].map(option => option.textContent);
told.shown = [byId("model-choice").hidden, byId("model-name").hidden, byId("target").lang];
write("the box");
await until(() => state() === "done");
told.first = text("target");
byId("model").selectedIndex = 1; byId("model").dispatchEvent(new Event("change"));
await until(() => state() === "done" && text("target") !== told.first);
told.second = [text("target"), byId("target").lang, storage.get("model")];
over(document.querySelector(".line"));
await until(() => current.attention);
told.looked = current.attention.target.text;
byId("model").selectedIndex = 2; byId("model").dispatchEvent(new Event("change"));
await until(() => state() === "done" && text("target") === "BOX THE");
done();
})();"""

    class Told(Backwards):
        def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
            for found in super().stream(texts, **settings):
                yield replace(
                    found,
                    text=f"{settings['to']} {found.text}",
                    tokens=(f"▁{settings['to']}", *found.tokens),
                    attention=self.attention(1 + len(found.tokens), len(found.source_tokens)),
                )

    several = replace(MODEL, name="several", translator=Told(), languages=None, targets=("de", "fr"), sources=("en",))
    found = drive(Service({"several": several, "en-de": MODEL}, Limits()), script, tmp_path)
    assert found["choices"] == ["English to German (several)", "English to French", "English to German (en-de)"]
    assert found["shown"] == [False, True, "de"] and found["first"] == "de BOX THE"
    assert found["second"] == ["fr BOX THE", "fr", "several\nfr"] and found["looked"] == "fr BOX THE"


DETECTING = """(async () => {
await until(() => current.models);
const shown = () => [byId("model").value, text("source-name"), text("target-name"), current.model, source.lang];
told.choices = [...byId("model").options].map(option => option.textContent);
told.start = shown();
write(%GERMAN%); await until(() => state() === "done");
told.german = shown();
write(%ENGLISH%); await until(() => current.sent === %ENGLISH% && state() === "done");
told.english = shown();
byId("model").value = "de-en"; byId("model").dispatchEvent(new Event("change"));
await until(() => state() === "waiting"); await until(() => state() === "done");
told.override = shown();
byId("model").value = ""; byId("model").dispatchEvent(new Event("change"));
await until(() => current.model === "en-de" && state() === "done");
told.again = shown();
told.stored = storage.get("model");
done(); })();"""


def test_the_language_is_detected_where_models_have_different_sources(tmp_path: Path) -> None:
    german, english = "Das alte Haus auf dem Hügel wurde verkauft.", "The old house on the hill was sold."
    script = DETECTING.replace("%GERMAN%", json.dumps(german)).replace("%ENGLISH%", json.dumps(english))
    pairs = {"en-de": ("en", "de"), "de-en": ("de", "en"), "fr-en": ("fr", "en")}
    service = Service({name: replace(MODEL, name=name, languages=pair) for name, pair in pairs.items()}, Limits())
    found = drive(service, script, tmp_path)
    assert found["choices"] == ["Detect language", "English to German", "German to English", "French to English"]
    assert found["start"] == ["", "Text", "Translation", "en-de", "en"]
    assert found["german"] == ["", "Text · German detected", "Translation · English", "de-en", "de"]
    assert found["english"] == ["", "Text · English detected", "Translation · German", "en-de", "en"]
    assert found["override"] == ["de-en", "Text", "Translation", "de-en", "de"]
    assert found["again"] == found["english"] and found["stored"] == ""


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


def test_errors_a_busy_server_and_one_that_is_away(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    const answers = [];
    const straight = window.fetch;
    window.fetch = (path, ...rest) => {
      return answers.length && path === "v1/translate" ? answers.shift()() : straight(path, ...rest);
    };
    const refuse = (status, code, message, headers) => () => {
      return Promise.resolve(new Response(JSON.stringify({ error: { code, message } }), { status, headers }));
    };
    const nobody = () => Promise.reject(new TypeError("Failed to fetch"));
    answers.push(refuse(504, "deadline", "it took too long"));
    write("the hall"); await until(() => state() === "error");
    told.refused = text("status");
    answers.push(refuse(429, "too_many", "full", { "Retry-After": "2" }));
    write("the old hall"); await until(() => text("status").includes("busy"));
    told.busy = text("status");
    await until(() => state() === "done");
    told.after = text("target");
    answers.push(nobody, nobody);
    write("the new hall"); await until(() => state() === "error");
    told.away = text("status");
    await until(() => state() === "done");
    told.back = text("target");
    told.left = answers.length;
    write("x".repeat(201)); await until(() => state() === "error");
    told.long = [text("status"), byId("count").classList.contains("error")];
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits(max_characters=200)), script, tmp_path)
    assert found["refused"] == "it took too long"
    assert found["busy"] == "The server is busy; retrying in 2 s."
    assert found["after"] == expected("the old hall").text
    assert found["away"].startswith("The server cannot be reached.")
    assert found["back"] == expected("the new hall").text
    assert found["left"] == 0
    assert found["long"] == ["201 of 200 characters: shorten the text, or use the API for files.", True]


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


def test_a_server_that_is_away_when_the_page_opens_is_asked_until_it_is_there(tmp_path: Path) -> None:
    script = """(async () => {
    const straight = window.fetch;
    let refused = 0;
    window.fetch = (path, ...rest) => {
      return path === "v1/models" && refused++ < 2 ? Promise.reject(new TypeError("away")) : straight(path, ...rest);
    };
    await until(() => current.models);
    current.models = null; refused = 0; source.value = "the hall"; // as a browser that brings a text back
    start();
    await until(() => state() === "error"); told.away = text("status");
    await until(() => state() === "done"); told.there = text("target");
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["away"].startswith("The server cannot be reached.")
    assert found["there"] == "HALL THE"


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


def test_the_description_is_drawn(tmp_path: Path) -> None:
    script = """(async () => { await until(() => state() === "done");
    told.heads = [...document.querySelectorAll("h2")].map(head => head.textContent);
    told.fields = [...document.querySelectorAll("section")][0].textContent;
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path, query="docs")
    assert {"POST/v1/translate", "POST/v1/attention", "GET/v1/models", "GET/metrics"} <= set(found["heads"])
    assert "length_penalty" in found["fields"]
    assert "from -5 to 5" in found["fields"]
