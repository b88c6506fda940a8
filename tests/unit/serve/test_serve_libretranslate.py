"""LibreTranslate's simplest form: what its clients send, and what they expect back."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient


def test_libretranslate(client: TestClient) -> None:
    asked = {"q": "a b", "source": "en", "target": "de", "format": "text", "api_key": ""}
    assert client.post("/translate", json=asked).json() == {"translatedText": "A B"}
    assert client.post("/translate", data=asked).json() == {"translatedText": "A B"}
    assert client.post("/translate", json={"q": ["a", "b"], "alternatives": 1}).json() == {
        "translatedText": ["A", "B"],
        "alternatives": [["A 1"], ["B 1"]],
    }
    assert client.get("/languages").json() == []  # nobody knows those of the fakes


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"q": "a", "format": "html"}, "format must be 'text'; got str 'html'"),
        ({"source": "en"}, "the field 'q' is missing"),
        ({"q": "a", "alternatives": -1}, "alternatives must be an integer, at least 0; got int -1"),
        ([], "the body must be a JSON object; send one with the header Content-Type: application/json"),
    ],
)
def test_libretranslates_errors_are_as_its_clients_expect(client: TestClient, body: Any, message: str) -> None:
    answer = client.post("/translate", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": message})
    assert client.post("/translate", content=b"\xff").status_code == 400


def test_libretranslates_errors_have_its_form_also_before_the_body_is_read(client: TestClient) -> None:
    answer = client.get("/translate")
    assert answer.status_code == 405
    assert answer.json() == {"error": "this path does not support GET; see /docs for the API"}
    answer = client.post("/translate", files={"q": b"a"})  # a form, but of the kind for files
    assert answer.status_code == 400
    assert "nor a form of type application/x-www-form-urlencoded" in answer.json()["error"]


def test_a_form_that_is_not_utf8_is_refused(client: TestClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content="q=%C3%A4&source=en", headers=form).status_code == 200
    answer = client.post("/translate", content="q=%E4%FF&source=en", headers=form)
    assert (answer.status_code, answer.json()["error"].endswith("as JSON, in UTF-8")) == (400, True)


def test_a_real_models_languages(real: TestClient) -> None:
    assert real.get("/languages").json() == [{"code": "en", "name": "en", "targets": ["de"]}]
    assert real.post("/translate", json={"q": "the box", "source": "auto", "target": "de"}).status_code == 200
    answer = real.post("/translate", json={"q": "the box", "source": "fr", "target": "de"})
    assert answer.json() == {"error": "no model translates fr to de; available: en to de"}
