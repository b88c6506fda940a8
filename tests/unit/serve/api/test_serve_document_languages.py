"""Documents and languages: formats get the languages of the model, and a document's language can choose the model."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from fake_translator import Named, client_of, pairs_service
from starlette.testclient import TestClient

from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from serving import WHOLE_LINES

GERMAN = "Das alte Haus auf dem Hügel wurde letztes Jahr verkauft."
ENGLISH = "The old house on the hill was sold last year."
LANGUAGES = [{}, {"source": "en", "target": "de"}, {"source": "eng", "target": "deu"}, {"target": "deu"}]


@pytest.mark.parametrize("given", LANGUAGES, ids=["default", "codes", "other codes", "detected"])
def test_documents_get_the_languages_of_the_model(given: dict[str, str]) -> None:
    page = f'<html lang="en"><p>{ENGLISH}</p></html>'
    header = 'msgid ""\nmsgstr ""\n"Project-Id-Version: x\\n"\n"Language: {}\\n"\n'
    catalog = header + f'\nmsgid "{ENGLISH}"\nmsgstr ""\n'
    for client in client_of(pairs_service("en-de", "fr-en")):

        def translate_file(name: str, content: str, client: TestClient = client) -> Any:
            return client.post("/translate_file", files={"file": (name, content.encode())}, data=given)

        expected = page.replace('"en"', '"de"').replace(ENGLISH, f"EN-DE {ENGLISH.upper()}")
        found = client.post("/translate", json={"q": page, "format": "html", **given})
        assert found.json()["translatedText"] == expected
        for name, content, part in (("a.html", page, expected), ("a.po", catalog.format(""), header.format("de"))):
            address = translate_file(name, content).json()["translatedFileUrl"]
            assert part in client.get(address).text
        answer = translate_file("a.po", catalog.format("ja"))
        assert answer.status_code == 422 and "'ja'" in answer.json()["error"]


def test_a_document_in_one_of_several_source_languages() -> None:
    model = ServedModel("many", Named("many"), WHOLE_LINES, "a fake", targets=("en", "it"), sources=("de", "fr"))
    page = f'<html lang="de"><p>{GERMAN}</p></html>'
    for client in client_of(Service({"many": model}, Limits())):
        for given in ({"source": "de", "target": "it"}, {"target": "it"}):
            found = client.post("/translate", json={"q": page, "format": "html", **given}).json()["translatedText"]
            assert found == f'<html lang="it"><p>MANY {GERMAN.upper()}</p></html>'
            sent: dict[str, Any] = {"files": {"file": ("a.html", page.encode())}, "data": given}
            assert client.get(client.post("/translate_file", **sent).json()["translatedFileUrl"]).text == found


def sent_documents(text: str) -> dict[str, bytes]:
    return {
        "a.txt": text.encode(),
        "a.json": json.dumps({"key": text}).encode(),
        "a.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n".encode(),
        "a.xlf": '<xliff version="1.2"><file source-language="de"><body><trans-unit id="1">'
        f"<source>{text}</source></trans-unit></body></file></xliff>".encode(),
    }


@pytest.mark.parametrize("name", sent_documents(""))
def test_the_language_of_a_document_chooses_the_model(name: str) -> None:
    data = sent_documents(GERMAN)[name]
    for client in client_of(pairs_service("en-fr", "de-it", "de-fr", "fr-de")):
        answer = client.post("/v1/documents", params={"name": name, "detect": True, "report": "json"}, content=data)
        found = answer.json()
        assert (found["model"], found["to"]) == ("de-fr", None)  # which has the target language of the default
        assert "DE-FR DAS ALTE HAUS" in b64decode(found["document"]).decode()
        chosen = client.post(f"/v1/documents?detect=true&model=fr-de&report=json&name={name}", content=data).json()
        assert chosen["model"] == "de-it"  # the first
        if name != "a.xlf":  # which says that it is German
            assert client.post(f"/v1/documents?report=json&name={name}", content=data).json()["model"] == "en-fr"


def test_the_model_stays_where_its_language_fits_or_none_is_certain() -> None:
    for client in client_of(pairs_service("en-fr", "de-fr", "en-it")):
        for model, text in (("en-it", ENGLISH), ("en-fr", "1, 2, 3")):
            params = {"format": "text", "detect": True, "report": "json", "model": model}
            assert client.post("/v1/documents", params=params, content=text.encode()).json()["model"] == model
        units = "".join(f'<tuv xml:lang="{code}"><seg>a</seg></tuv>' for code in ("en", "de", "it"))
        memory = f'<tmx version="1.4"><header srclang="*all*"/><body><tu>{units}</tu></body></tmx>'
        answer = client.post("/v1/documents?detect=true&report=json&name=a.tmx", content=memory.encode())
        assert answer.json()["model"] == "en-fr"


def test_a_detected_model_with_several_targets_is_reported_with_the_target() -> None:
    models = [
        ServedModel("first", Named("first"), WHOLE_LINES, "a fake", targets=("fr", "it"), sources=("en",)),
        ServedModel("second", Named("second"), WHOLE_LINES, "a fake", targets=("fr", "it"), sources=("de",)),
    ]
    for client in client_of(Service({one.name: one for one in models}, Limits())):
        params = {"format": "text", "detect": True, "report": "json", "to": "it"}
        found = client.post("/v1/documents", params=params, content=GERMAN.encode()).json()
        assert (found["model"], found["to"], found["name"]) == ("second", "it", "document.it")
