"""A server with a multilingual model: requests choose the target language, in every form of the API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_translator import FakeTranslator, client_of
from starlette.testclient import TestClient

from dragoman.errors import SearchError
from dragoman.serve.limits import Limits
from dragoman.serve.models.loading import load_served_model
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator
from raising import raises
from serving import WHOLE_LINES
from tiny_model import LINES, write_tiny_model


class Naming(FakeTranslator):
    """Says which language it was asked for."""

    def translation(self, text: str, settings: dict[str, Any]) -> Translation:
        found = super().translation(text, settings)
        return replace(found, text=f"{settings['to']}: {found.text}")


def served(name: str, fake: FakeTranslator, **more: Any) -> ServedModel:
    return ServedModel(name, fake, WHOLE_LINES, "a fake", **more)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    fake = Naming()
    models = [
        served("several", fake, targets=("de", "fr"), sources=("en",)),
        served("both-ways", fake, targets=("de", "en"), sources=("de", "en")),
        served("one", fake, languages=("en", "it")),
        served("any", fake, targets=("ja", "zh-Hans")),
    ]
    yield from client_of(Service({one.name: one for one in models}, Limits()))


def test_translate(client: TestClient) -> None:
    for to in ("de", "fr"):
        answer = client.post("/v1/translate", json={"text": "a", "to": to}).json()
        assert [one["text"] for one in answer["translations"]] == [f"{to}: A"]
    looked = client.post("/v1/attention", json={"text": "a", "to": "fr"}).json()
    assert looked["target"]["text"] == "fr: A"
    one = client.post("/v1/translate", json={"text": "a", "model": "one", "to": "it"}).json()
    assert one["translations"][0]["text"] == "None: A"  # it has no choice, and is told nothing


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, "missing_language", "de, fr"),
        ({"to": "it"}, "unknown_language", "'it'; available: de, fr"),
        ({"model": "one", "to": "de"}, "unknown_language", "only into 'it'; leave out `to`"),
        ({"to": 3}, "wrong_type", "to must be a string; got int 3"),
    ],
)
def test_refusals(client: TestClient, body: dict[str, Any], code: str, words: str) -> None:
    for path in ("/v1/translate", "/v1/attention"):
        answer = client.post(path, json={"text": "a", **body})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, code) and words in error["message"], error


def test_models_and_languages_are_listed(client: TestClient) -> None:
    models = {one["name"]: one for one in client.get("/v1/models").json()["models"]}
    told = {name: (one["source"], one["target"], one["targets"]) for name, one in models.items()}
    assert told == {
        "several": ("en", None, ["de", "fr"]),
        "both-ways": (None, None, ["de", "en"]),
        "one": ("en", "it", []),
        "any": (None, None, ["ja", "zh-Hans"]),
    }
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de", "fr", "it"]},
        {"code": "fr", "name": "French", "targets": []},
        {"code": "it", "name": "Italian", "targets": []},
        {"code": "ja", "name": "Japanese", "targets": []},
        {"code": "zh-Hans", "name": "Chinese (Simplified)", "targets": []},
    ]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("en", "fr", "fr: A"),
        ("auto", "de", "de: A"),
        ("eng", "de_AT", "de: A"),
        ("ko", "zh", "zh-Hans: A"),
        ("de", "en", "en: A"),
        ("en", "it", "None: A"),
        ("ko", "zh-Hans", "zh-Hans: A"),  # whose sources nobody knows
    ],
)
def test_libretranslates_target_chooses(client: TestClient, source: str, target: str, expected: str) -> None:
    answer = client.post("/translate", json={"q": "a", "source": source, "target": target})
    assert answer.json()["translatedText"] == expected


def test_libretranslate_is_refused_what_is_not_there(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "a", "source": "de", "target": "fr"})
    assert answer.status_code == 400
    there = "auto to ja, auto to zh-Hans, de to en, en to de, en to fr, en to it"
    assert answer.json() == {"error": f"no model translates de to fr; available: {there}"}
    answer = client.post("/translate", json={"q": "a"})
    assert answer.status_code == 422 and "translates into de, fr" in answer.json()["error"]


def test_a_real_model(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "m", 'text.targets=["de", "fr"]', languages=(("en",), ("de", "fr")))
    one = load_served_model("m", directory, 4, device="cpu", engine="torch")
    assert (one.languages, one.targets, one.sources) == (None, ("de", "fr"), ("en",))
    translator = Translator.load(directory, device="cpu", engine="torch")
    for client in client_of(Service({"m": one}, Limits())):
        for to in ("de", "fr"):
            answer = client.post("/v1/translate", json={"text": LINES[0], "to": to}).json()
            assert answer["translations"][0]["text"] == translator.translate(LINES[0], to=to).text
        looked = client.post("/v1/attention", json={"text": LINES[0], "to": "fr"}).json()
        assert [word["text"] for word in looked["source"]["words"]] == LINES[0].split()
        assert {len(row) for row in looked["weights"]} <= {len(looked["source"]["tokens"])}


def test_languages_are_given_to_a_model_that_does_not_know_them(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "mine", languages=((), ()))
    settings: dict[str, Any] = {"device": "cpu", "engine": "torch"}
    assert load_served_model("mine", directory, 1, **settings).pairs == []
    assert load_served_model("mine", directory, 1, ("en", "es"), **settings).pairs == [("en", "es")]
    assert load_served_model("en-es", directory, 1, **settings).pairs == [("en", "es")]
    several = write_tiny_model(tmp_path / "several", 'text.targets=["de", "fr"]', languages=(("en",), ("de", "fr")))
    with raises(SearchError, "unused_option", "--languages"):
        load_served_model("several", several, 1, ("en", "es"), **settings)
