"""LibreTranslate's API: what its clients send, and what they expect back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib import parse, request

import pytest
from fake_translator import client_of, pairs_service
from starlette.testclient import TestClient

from dragoman.documents.files import translate_bytes
from dragoman.serve.app import create_app
from dragoman.serve.http.access import Access
from dragoman.text.languages import detection
from dragoman.translation.translator import Translator
from serving import served

GERMAN = "Das alte Haus auf dem Hügel wurde letztes Jahr verkauft."
ENGLISH = "The old house on the hill was sold last year."


@pytest.fixture(scope="module")
def pairs() -> Iterator[TestClient]:
    yield from client_of(pairs_service("mystery", "en-fr", "de-fr", "fr-en", max_characters=5_000))


@pytest.fixture
def undetectable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without py3langid."""
    for cached in ("load_detector", "known_labels", "load_restricted_detector"):
        getattr(detection, cached).cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)


def test_a_pair_is_translated_by_its_model(pairs: TestClient) -> None:
    asked = {"q": "a b", "source": "en", "target": "fr", "format": "text", "api_key": ""}
    for sent in ({"json": asked}, {"data": asked}, {"files": {name: (None, value) for name, value in asked.items()}}):
        assert pairs.post("/translate", **sent).json() == {"translatedText": "EN-FR A B"}  # type: ignore[arg-type]
    asked = {"q": ["a", "b"], "source": "fr", "target": "en", "alternatives": 1}
    assert pairs.post("/translate", json=asked).json() == {
        "translatedText": ["FR-EN A", "FR-EN B"],
        "alternatives": [["FR-EN A 1"], ["FR-EN B 1"]],
    }


@pytest.mark.parametrize(("source", "target"), [("fr", "ru"), ("auto", "ru"), ("ru", ""), ("de", "en")])
def test_a_pair_that_no_model_has_is_rejected(pairs: TestClient, source: str, target: str) -> None:
    answer = pairs.post("/translate", json={"q": "a", "source": source, "target": target})
    assert answer.status_code == 400
    for part in ("de to fr, en to fr, fr to en", "'mystery'", "--languages"):
        assert part in answer.json()["error"]


def test_a_model_of_unknown_languages_is_served_by_name(client: TestClient, pairs: TestClient) -> None:
    answer = pairs.post("/v1/translate", json={"text": "a", "model": "mystery"})
    assert answer.json()["translations"][0]["text"] == "MYSTERY A"
    assert client.post("/translate", json={"q": "a"}).json() == {"translatedText": "A"}  # no languages: the default
    assert client.post("/translate", json={"q": "a", "source": "fr", "target": "ru"}).status_code == 400
    assert client.get("/languages").json() == []


def test_the_source_language_is_detected(pairs: TestClient) -> None:
    for text, source in ((ENGLISH, "en"), (GERMAN, "de")):
        answer = pairs.post("/translate", json={"q": text, "source": "auto", "target": "fr"}).json()
        assert answer["translatedText"] == f"{source}-fr {text}".upper()
        assert answer["detectedLanguage"]["language"] == source
        assert 90 < answer["detectedLanguage"]["confidence"] <= 100
    answer = pairs.post("/translate", json={"q": [ENGLISH, GERMAN, "ja"], "source": "auto", "target": "fr"}).json()
    assert [one["language"] for one in answer["detectedLanguage"]][:2] == ["en", "de"]
    assert [text.split()[0] for text in answer["translatedText"]][:2] == ["EN-FR", "DE-FR"]
    assert len(answer["translatedText"]) == 3


def test_a_text_in_the_target_language_stays(pairs: TestClient) -> None:
    french = "Bonjour, comment allez-vous aujourd'hui ?"
    answer = pairs.post("/translate", json={"q": [french, ENGLISH], "source": "auto", "target": "fr"}).json()
    assert answer["translatedText"] == [french, f"EN-FR {ENGLISH.upper()}"]
    assert [one["language"] for one in answer["detectedLanguage"]] == ["fr", "en"]
    page = f"<p lang='en'>{french}</p>"
    answer = pairs.post("/translate", json={"q": page, "source": "auto", "target": "fr", "format": "html"}).json()
    assert answer["translatedText"] == page
    sent = {"files": {"file": ("a.txt", french.encode())}, "data": {"source": "auto", "target": "fr"}}
    address = pairs.post("/translate_file", **sent).json()["translatedFileUrl"]  # type: ignore[arg-type]
    assert address.endswith(".a.txt") and pairs.get(address).text == french


def test_a_long_text_does_not_decide_the_language_of_short_ones(pairs: TestClient) -> None:
    texts = [GERMAN * 20, "The weather is nice.", "Good morning, my friend"]
    found = pairs.post("/translate", json={"q": texts, "source": "auto", "target": "fr"}).json()
    assert [one["language"] for one in found["detectedLanguage"]] == ["de", "en", "en"]


def test_detect(pairs: TestClient, client: TestClient) -> None:
    for sent in ({"json": {"q": GERMAN, "api_key": "x"}}, {"data": {"q": GERMAN}}):
        best, *others = pairs.post("/detect", **sent).json()  # type: ignore[arg-type]
        assert best["language"] == "de" and best["confidence"] > 90
        assert {one["language"] for one in others} <= {"en", "fr"}
    spanish = "El gato duerme en la casa de mi abuela."
    assert client.post("/detect", json={"q": spanish}).json()[0]["language"] == "es"  # models of unknown languages
    answer = pairs.post("/detect", json={})
    assert (answer.status_code, answer.json()) == (400, {"error": "the field 'q' is missing"})
    assert pairs.post("/detect", json={"q": "x" * 6_000}).status_code == 413


def test_frontend_settings(pairs: TestClient, client: TestClient) -> None:
    settings = pairs.get("/frontend/settings").json()
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "fr", "name": "French"},
    }
    assert settings["charLimit"] == 5_000
    assert not settings["apiKeys"] and not settings["keyRequired"]
    assert settings["filesTranslation"] and ".docx" in settings["supportedFilesFormat"]
    assert client.get("/frontend/settings").status_code == 200


@pytest.mark.usefixtures("undetectable")
def test_without_detection_everything_else_works(pairs: TestClient) -> None:
    named = pairs.post("/translate", json={"q": "a", "source": "en", "target": "fr"})
    assert named.json() == {"translatedText": "EN-FR A"}
    for path, body in (("/detect", {"q": "a"}), ("/translate", {"q": "a", "source": "auto", "target": "fr"})):
        answer = pairs.post(path, json=body)
        assert answer.status_code == 501 and "py3langid" in answer.json()["error"]
    assert pairs.get("/frontend/settings").json()["language"]["source"]["code"] == "en"
    assert not pairs.get("/v1/models").json()["detection"]


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"q": "a", "format": "rtf"}, "format must be 'text' or 'html'; got str 'rtf'"),
        ({"source": "en"}, "the field 'q' is missing"),
        ({"q": "a", "alternatives": -1}, "alternatives must be an integer, at least 0"),
        ({"q": "a", "alternatives": 10**6}, "alternatives must be an integer"),
        ([], "the body must be a JSON object; send one with the header Content-Type: application/json"),
    ],
)
def test_errors_are_as_clients_expect(client: TestClient, body: Any, part: str) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == 400 and part in answer.json()["error"]


def test_too_many_alternatives_are_rejected_by_their_name(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "a", "alternatives": 16})
    assert answer.status_code == 422 and "alternatives must be under 16" in answer.json()["error"]


@pytest.mark.parametrize("content", [b"\xff", b"{"])
def test_broken_json_is_answered_with_the_field_that_is_needed(client: TestClient, content: bytes) -> None:
    for path in ("/translate", "/detect"):
        answer = client.post(path, content=content)
        assert answer.status_code == 400 and '{"q": ' in answer.json()["error"]


def test_html_keeps_its_markup(pairs: TestClient) -> None:
    asked = {"q": "<p class=x>a b</p>\n<p>c &amp; d<br>e</p>", "source": "en", "target": "fr", "format": "html"}
    expected = "<p class=x>EN-FR A B</p>\n<p>EN-FR C &amp; D<br>EN-FR E</p>"
    for sent in ({"json": asked}, {"data": asked}):
        assert pairs.post("/translate", **sent).json() == {"translatedText": expected}  # type: ignore[arg-type]
    pages = [f"<p>{ENGLISH}</p>", "<hr>", f'<a href="x">{GERMAN}</a>']
    answer = pairs.post("/translate", json={"q": pages, "target": "fr", "format": "html", "alternatives": 1}).json()
    assert answer["translatedText"][::2] == [
        f"<p>EN-FR {ENGLISH.upper()}</p>",
        f'<a href="x">DE-FR {GERMAN.upper()}</a>',
    ]
    assert answer["translatedText"][1] == "<hr>"
    assert answer["alternatives"] == [[], [], []]
    assert [one["language"] for one in answer["detectedLanguage"]][::2] == ["en", "de"]


def test_html_with_too_many_tags_is_rejected() -> None:
    for client in client_of(pairs_service("en-de")):
        answer = client.post("/translate", json={"q": ["<b>" * 100_001] * 2, "format": "html"})
        assert answer.status_code == 413


def test_html_of_a_real_model_is_that_of_the_document(real: TestClient, directory: Path) -> None:
    page = "<p>the <b>old</b> box, <i>the hall</i></p><ul><li>seven boxes</ul>"
    found = real.post("/translate", json={"q": page, "source": "en", "target": "de", "format": "html"}).json()
    translator = Translator.load(directory, device="cpu", threads=1)
    expected, _ = translate_bytes(translator, page.encode(), "page.html", "html", beam=4)
    assert found == {"translatedText": expected.decode()}


def test_files_are_translated_and_downloaded(pairs: TestClient) -> None:
    sent = {"files": {"file": ("pagé.html", b"<p>a <br>b</p>")}, "data": {"source": "en", "target": "fr"}}
    address = pairs.post("/translate_file", **sent).json()["translatedFileUrl"]  # type: ignore[arg-type]
    assert address.startswith("http://testserver/download_file/")
    answer = pairs.get(address)
    assert answer.content == b"<p>EN-FR A <br>EN-FR B</p>"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''pag%C3%A9.fr.html"
    assert answer.headers["content-type"] == "application/octet-stream"
    detected = {"files": {"file": ("a.txt", GERMAN.encode())}, "data": {"source": "auto", "target": "fr"}}
    address = pairs.post("/translate_file", **detected).json()["translatedFileUrl"]  # type: ignore[arg-type]
    assert pairs.get(address).text == f"DE-FR {GERMAN.upper()}"
    assert "download_file" not in pairs.get("/metrics").text.replace("/download_file/{name}", "")
    answer = pairs.get("/download_file/0123.a.txt")
    assert (answer.status_code, type(answer.json()["error"])) == (404, str)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"data": {"source": "en"}}, 400),
        ({"json": {"source": "en"}}, 400),
        ({"files": {"file": (None, "no file")}}, 400),
        ({"files": {"file": ("a.pdf", b"%PDF-1.7")}}, 422),
        ({"files": {"file": ("a.txt", b"a")}, "data": {"source": "fr", "target": "ru"}}, 400),
        ({"files": {"file": ("a.txt", b"a" * 5_001)}}, 413),
    ],
)
def test_files_that_are_rejected(pairs: TestClient, sent: dict[str, Any], status: int) -> None:
    answer = pairs.post("/translate_file", **sent)
    assert (answer.status_code, type(answer.json()["error"])) == (status, str)


def test_files_with_a_token() -> None:
    service = pairs_service("en-de")
    service.start()
    with TestClient(create_app(service, access=Access(tokens=["secret"]))) as client:
        file = {"file": ("a.txt", b"a")}
        assert client.post("/translate_file", files=file, data={"api_key": "wrong"}).status_code == 401
        address = client.post("/translate_file", files=file, data={"api_key": "secret"}).json()["translatedFileUrl"]
        assert client.get(address).text == "EN-DE A"  # clients send no token for the address
    service.close()


def test_text_is_not_sent_as_a_file(client: TestClient) -> None:
    answer = client.post("/translate", files={"q": b"a"})
    assert answer.status_code == 400 and "a form without files" in answer.json()["error"]


def test_errors_have_the_same_form_before_the_body_is_read(client: TestClient) -> None:
    answer = client.get("/translate")
    assert answer.status_code == 405
    assert answer.json() == {"error": "this path does not support GET; see /docs for the API"}


def test_a_repeated_field_of_a_form_is_a_list(client: TestClient) -> None:
    texts = [("q", (None, "a")), ("q", (None, "b"))]
    assert client.post("/translate", files=texts).json() == {"translatedText": ["A", "B"]}  # type: ignore[arg-type]
    assert client.post("/translate", data={"q": ["a", "b"]}).json() == {"translatedText": ["A", "B"]}
    answer = client.post("/detect", files=texts)  # type: ignore[arg-type]
    assert answer.status_code == 400 and "q must be a string" in answer.json()["error"]


def test_several_files_are_rejected(pairs: TestClient) -> None:
    files = [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]
    answer = pairs.post("/translate_file", files=files)
    assert answer.status_code == 400 and "one file" in answer.json()["error"]


def test_media_types_have_no_case(client: TestClient) -> None:
    part = 'Content-Disposition: form-data; name="q"\r\n\r\na'
    for kind, body in (
        ("Multipart/Form-Data; boundary=aB", f"--aB\r\n{part}\r\n--aB--\r\n"),
        ("Application/X-WWW-Form-URLEncoded", "q=a"),
        ("APPLICATION/JSON", '{"q": "a"}'),
    ):
        assert client.post("/translate", content=body, headers={"Content-Type": kind}).json() == {"translatedText": "A"}


def test_forms_are_utf8(client: TestClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content="q=%C3%A4", headers=form).json() == {"translatedText": "Ä"}
    answer = client.post("/translate", content="q=%E4%FF", headers=form)
    assert (answer.status_code, answer.json()["error"].endswith("as JSON, in UTF-8")) == (400, True)
    answer = client.post("/translate", files={"q": (None, "ä\r\nö\n".encode())})
    assert answer.json() == {"translatedText": "Ä\r\nÖ\n"}
    assert client.post("/translate", files={"q": (None, b"\xff")}).status_code == 400


def test_a_real_models_languages(real: TestClient) -> None:
    assert real.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    assert real.post("/translate", json={"q": "the box", "source": "auto", "target": "de"}).status_code == 200
    answer = real.post("/translate", json={"q": "the box", "source": "fr", "target": "de"})
    assert answer.json() == {"error": "no model translates fr to de; available: en to de"}


class PythonClient:
    """What libretranslatepy 2.1.4 sends, byte for byte: forms by urllib, also as the body of a GET."""

    def __init__(self, url: str, api_key: str | None) -> None:
        self.url, self.api_key = f"{url}/", api_key

    def send(self, path: str, params: dict[str, str], method: str | None = None) -> Any:
        if self.api_key is not None:
            params["api_key"] = self.api_key
        asked = request.Request(self.url + path, data=parse.urlencode(params).encode(), method=method)
        with request.urlopen(asked, timeout=30) as response:
            return json.loads(response.read().decode())


@pytest.mark.parametrize("api_key", [None, "secret"])
def test_the_python_client(api_key: str | None) -> None:
    with served(pairs_service("en-de")) as url:
        client = PythonClient(url, api_key)
        asked = {"q": "höher & höher", "source": "en", "target": "de"}
        assert client.send("translate", asked)["translatedText"] == "EN-DE HÖHER & HÖHER"
        assert client.send("detect", {"q": GERMAN})[0]["language"] == "de"
        assert [one["name"] for one in client.send("languages", {}, "GET")] == ["German", "English"]


def test_weblate() -> None:
    """Weblate lists /languages, translates only between languages on it, and sends lists as JSON."""
    for client in client_of(pairs_service("en-pt", "en-zh")):
        supported = {one["code"] for one in client.get("/languages").json()}
        assert {"en", "pt", "zh"} <= supported
        for target in ("pt", "pt-BR", "zh-Hans"):
            asked = {"api_key": "", "q": ["Hello", "%(count)s files"], "source": "en", "target": target}
            payload = client.post("/translate", json=asked).json()
            model = f"EN-{target[:2].upper()}"
            assert payload["translatedText"] == [f"{model} HELLO", f"{model} %(count)s FILES"]
