"""The choice of models and languages on the web page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM
from dragoman.serve.limits import Limits
from dragoman.serve.service import Service
from dragoman.translation.result import Translation
from serve_page import MODEL, Backwards, drive

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

DETECTING = """(async () => {
await until(() => current.models);
const shown = () => [byId("model").value, text("source-name"), text("target-name"), current.model, source.lang];
told.choices = [...byId("model").options].map(option => option.textContent);
told.start = shown();
write(%GERMAN%); await until(() => state() === "done");
told.german = shown();
write(%ENGLISH%); await until(() => current.sent === %ENGLISH% && state() === "done");
told.english = shown();
const before = answers;
byId("model").value = "de-en"; byId("model").dispatchEvent(new Event("change"));
await until(() => answers > before);
told.override = shown();
byId("model").value = ""; byId("model").dispatchEvent(new Event("change"));
await until(() => current.model === "en-de" && state() === "done");
told.again = shown();
told.stored = storage.get("model");
done(); })();"""


def test_chinese_two_models_and_a_telephone(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    told.words = [text("source-name"), text("target-name"), document.documentElement.lang, byId("source").placeholder];
    told.models = [...byId("model").options].map(option => option.textContent);
    write("the hall"); await until(() => state() === "done");
    const before = answers;
    byId("model").value = "second"; byId("model").dispatchEvent(new Event("change"));
    told.model = current.model;
    await until(() => answers > before);
    byId("alternatives").open = byId("attention").open = true;
    await until(() => byId("map").rows.length && byId("alternative-list").children.length);
    told.wide = [document.documentElement.scrollWidth, innerWidth];
    done(); })();"""
    service = Service({name: replace(MODEL, name=name) for name in ("first", "second")}, Limits())
    options = ("--accept-lang=zh-CN,en", "--lang=zh-CN", "--window-size=500,900")
    found = drive(service, script, tmp_path, *options, query="")
    assert found["words"] == ["原文", "译文", "zh-CN", "输入或粘贴文字，或拖入文件"]
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
                    alignment_weights=self.weights(1 + len(found.tokens), len(found.source_tokens)),
                )

    several = replace(MODEL, name="several", translator=Told(), languages=None, targets=("de", "fr"), sources=("en",))
    found = drive(Service({"several": several, "en-de": MODEL}, Limits()), script, tmp_path)
    assert found["choices"] == ["English to German (several)", "English to French", "English to German (en-de)"]
    assert found["shown"] == [False, True, "de"] and found["first"] == "de BOX THE"
    assert found["second"] == ["fr BOX THE", "fr", "several\nfr"] and found["looked"] == "fr BOX THE"


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


def test_the_languages_are_swapped_with_the_translation_as_the_text(tmp_path: Path) -> None:
    script = """(async () => {
await until(() => current.models);
byId("model").value = "fr-en"; byId("model").dispatchEvent(new Event("change"));
told.alone = byId("swap").hidden;
byId("model").value = "en-de"; byId("model").dispatchEvent(new Event("change"));
write("the old box");
await until(() => state() === "done" && text("target") === "BOX OLD THE");
told.shown = [byId("swap").hidden, byId("swap").getAttribute("aria-label")];
byId("swap").click();
await until(() => state() === "done" && text("target") === "THE OLD BOX");
told.after = [current.model, byId("model").value, byId("source").value, byId("source").lang, storage.get("model")];
done();
})();"""
    pairs = {"en-de": ("en", "de"), "de-en": ("de", "en"), "fr-en": ("fr", "en")}
    service = Service({name: replace(MODEL, name=name, languages=pair) for name, pair in pairs.items()}, Limits())
    found = drive(service, script, tmp_path)
    assert found["alone"] is True and found["shown"] == [False, "Swap languages"]
    assert found["after"] == ["de-en", "de-en", "BOX OLD THE", "de", "de-en"]
