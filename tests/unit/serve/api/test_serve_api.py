"""The API through an in-process client: responses, errors, and its OpenAPI description."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_translator import FakeTranslator, client_of, fake_service
from starlette.testclient import TestClient

from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.errors import DamagedError, SearchError, TextError
from dragoman.models import EncoderDecoder
from dragoman.search.types import Search
from dragoman.serve.api.schema import attention_fields, locate_words
from dragoman.serve.app import create_app
from dragoman.serve.errors import to_request_error
from dragoman.serve.models.loading import has_attention
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator


def translate(client: TestClient, **body: Any) -> Any:
    answer = client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_one_text_and_many(client: TestClient) -> None:
    assert translate(client, text="a b") == {"model": "first", "translations": [{"text": "A B", "flags": []}]}
    found = translate(client, text=["a", "", "b\n\n  c\r\n"], model="second")
    assert found["model"] == "second"
    assert [one["text"] for one in found["translations"]] == ["A", "", "B\n\n  C\r\n"]
    assert translate(client, text=[])["translations"] == []


def test_what_was_asked_for_is_in_the_answer(client: TestClient) -> None:
    (one,) = translate(client, text="a", nbest=3, scores=True, alignments=True)["translations"]
    assert (one["score"], one["log_probability"], one["alignment"]) == (-0.5, -1.0, [[0, 0]])
    assert [other["text"] for other in one["alternatives"]] == ["A 1", "A 2"]
    assert one["alternatives"][0]["score"] == -2.0


def test_nothing_more_is_in_the_answer_also_where_nothing_was_translated(client: TestClient) -> None:
    assert translate(client, text=["", "\n"])["translations"] == [
        {"text": "", "flags": []},
        {"text": "\n", "flags": []},
    ]
    assert translate(client, text="", alignments=True)["translations"] == [{"text": "", "alignment": [], "flags": []}]


def test_settings_reach_the_search(client: TestClient, fake: FakeTranslator) -> None:
    body = {"beam": 7, "n_best": 2, "length_penalty": 1, "extra_length": 9, "max_length": 30, "min_length": 2}
    translate(client, text="a", no_repeat=4, sampling={"top_p": 0.5, "seed": 3}, **body)
    search = fake.settings[-1]["search"]
    assert {name: getattr(search, name) for name in body} == body
    assert (search.no_repeat, search.sampling.top_p, search.sampling.seed) == (4, 0.5, 3)
    translate(client, text="a", n_best=6)
    assert fake.settings[-1]["search"].beam == 6  # as many as are asked for


@pytest.mark.parametrize(
    ("body", "status", "code", "mention"),
    [
        ("{", 400, "invalid_json", "not valid JSON"),
        ("[]", 422, "wrong_type", "JSON object"),
        ("{}", 422, "missing_field", "'text'"),
        ('{"text": 3}', 422, "wrong_type", "text must be a string or a list of strings; got int 3"),
        ('{"text": ["a", null]}', 422, "wrong_type", "text must be a string or a list of strings"),
        ('{"text": "a", "baem": 3}', 422, "unknown_field", "'baem'; did you mean 'beam'?"),
        ('{"text": "a", "beam": "3"}', 422, "wrong_type", "beam must be an integer, at least 1 and at most 10,000"),
        ('{"text": "a", "beam": true}', 422, "wrong_type", "beam must be an integer"),
        ('{"text": "a", "beam": 0}', 422, "out_of_range", "beam must be an integer, at least 1"),
        ('{"text": "a", "beam": 17}', 422, "over_limit", "beam must be at most 16 on this server (--max-beam); got 17"),
        ('{"text": "a", "n_best": 17}', 422, "over_limit", "n_best must be at most 16 on this server"),
        ('{"text": "a", "nbest": "1"}', 422, "wrong_type", "best must be"),
        ('{"text": "a", "extra_length": 501}', 422, "out_of_range", "extra_length must be an integer"),
        ('{"text": "a", "length_penalty": 9}', 422, "out_of_range", "length_penalty must be a number, at least -5"),
        ('{"text": "a", "length_penalty": NaN}', 422, "out_of_range", "length_penalty must be a number"),
        ('{"text": "a", "scores": 1}', 422, "wrong_type", "scores must be true or false; got int 1"),
        ('{"text": "a", "model": "frist"}', 404, "model_not_found", "'frist'; did you mean 'first'?"),
        ('{"text": "a", "beam": 2, "n_best": 3}', 422, "out_of_range", "n_best=3"),
        ('{"text": "a", "min_length": 5, "max_length": 2}', 422, "out_of_range", "max_length=2"),
        ('{"text": "a", "require": [3]}', 422, "wrong_type", "require must be a list of strings or lists of strings"),
        ('{"text": "a", "terms": []}', 422, "wrong_type", "terms must be a JSON object; got list []"),
        ('{"text": "a", "terms": {"one": 1}}', 422, "wrong_type", "terms['one'] must be a string or a list of strings"),
        ('{"text": "a", "sampling": {"top_p": 0}}', 422, "out_of_range", "sampling.top_p must be a number, over 0"),
        ('{"text": "a", "sampling": {"topp": 1}}', 422, "unknown_field", "'topp' in sampling; did you mean 'top_p'?"),
        ('{"text": "a", "sampling": 3}', 422, "wrong_type", "sampling must be a JSON object; got int 3"),
        ('{"text": "a\\ud800"}', 422, "invalid_character", "U+D800 at character 1"),
        (f'{{"text": "{"x" * 5001}"}}', 413, "too_large", "5,001 characters; this server accepts 5,000"),
        (f'{{"text": [{",".join(["1"] * 4)}]}}', 422, "wrong_type", "text must be a string"),
        ('{"text": "crash"}', 500, "internal_error", "unexpected server error"),
        ('{"text": "huge"}', 503, "out_of_memory", "memory"),
        ('{"text": "large"}', 503, "out_of_memory", "memory"),
    ],
)
def test_errors_have_a_code_and_a_message(client: TestClient, body: str, status: int, code: str, mention: str) -> None:
    answer = client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    assert error["code"] == code, error
    assert mention in error["message"]
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_a_field_of_another_request_is_not_suggested(client: TestClient) -> None:
    message = client.post("/v1/attention", json={"text": "a", "n_bst": 2}).json()["error"]["message"]
    assert "unknown field 'n_bst'" in message
    assert "n_best" not in message


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SearchError("no", code="constraints_with_sampling"), 422, "constraints_with_sampling"),
        (TextError("no", code="not_one_line"), 422, "not_one_line"),
        (DamagedError("no", code="file_damaged"), 500, "file_damaged"),
        (ValueError("secret"), 500, "internal_error"),
    ],
)
def test_exceptions_keep_their_code(error: Exception, status: int, code: str) -> None:
    found = to_request_error(error)
    assert (found.status, found.code) == (status, code)
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b"\xff\xfe{}",
        *('{"text": "a", "q": "a"}'.encode(encoding) for encoding in ("utf-16", "utf-16-le", "utf-32")),
        json.dumps({"text": [""] * 10_000}).encode("utf-16"),
        b'{"text": ' + b"1" * 5000 + b"}",
    ],
    ids=["deep", "a mark alone", "utf-16", "utf-16 without a mark", "utf-32", "a large one in utf-16", "a long number"],
)
def test_bodies_that_no_parser_takes(client: TestClient, body: bytes) -> None:
    answer = client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert client.post("/translate", content=body).status_code == 400


def test_too_many_texts(client: TestClient) -> None:
    answer = client.post("/v1/translate", json={"text": [""] * 20_001})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_an_error_that_nobody_expected_is_in_the_log_without_the_text(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        client.post("/v1/translate", json={"text": ["my private words", "crash"]})
    assert "ZeroDivisionError" in caplog.text
    assert "fake_translator.py" in caplog.text
    assert "private" not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/nowhere", 404, "not_found"), ("GET", "/v1/translate", 405, "method_not_allowed")],
)
def test_wrong_paths(client: TestClient, method: str, path: str, status: int, code: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_models_health_and_metrics(client: TestClient) -> None:
    models = client.get("/v1/models").json()
    assert [model["name"] for model in models["models"]] == ["first", "second"]
    assert (models["beam"], models["max_beam"], models["max_characters"]) == (4, 16, 5_000)
    assert {".txt", ".docx", ".po"} < set(models["suffixes"])
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    assert [client.head(path).status_code for path in ("/health", "/ready", "/metrics")] == [200, 200, 405]
    translate(client, text="a")
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'dragoman_requests_total{path="/v1/translate",status="200"}' in metrics.text
    assert 'dragoman_sentences_total{model="first"}' in metrics.text


def test_a_server_that_leaves_is_alive_but_not_ready() -> None:
    service = fake_service()
    for client in client_of(service):
        service.close()
        assert client.get("/health").status_code == 200
        assert (client.get("/ready").status_code, client.get("/ready").json()) == (503, {"status": "shutting_down"})
        answer = client.post("/v1/translate", json={"text": "a"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_the_deadline_is_answered_with_504() -> None:
    fake = FakeTranslator()
    fake.go.clear()
    for client in client_of(fake_service(translator=fake, timeout=0.05)):
        answer = client.post("/v1/translate", json={"text": "a"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
        fake.go.set()


def test_the_description_tells_the_truth(client: TestClient) -> None:
    told = client.get("/openapi.json").json()
    assert {"/v1/translate", "/v1/attention", "/v1/models", "/metrics", "/translate"} <= set(told["paths"])
    responses = told["paths"]["/v1/translate"]["post"]["responses"]
    assert {"200", "400", "404", "413", "422", "429", "503", "504"} <= set(responses)
    assert responses["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorResponse")
    fields = told["components"]["schemas"]["TranslateRequest"]["properties"]
    assert (fields["no_repeat"]["minimum"], fields["length_penalty"]["maximum"]) == (0, 5)
    assert set(told["components"]["schemas"]["ErrorResponse"]["properties"]) == {"error"}


def test_a_real_model_answers_as_the_translator_does(real: TestClient, directory: Path) -> None:
    translator = Translator.load(directory, device="cpu", threads=1)
    texts = ["the old box", "seven boxes, eight halls", "我们去学校。"]
    found = translate(real, text=texts, n_best=3, scores=True, alignments=True)["translations"]
    for one, expected in zip(found, translator.translate(texts, n_best=3, alignment=True), strict=True):
        assert one["text"] == expected.text
        assert one["score"] == pytest.approx(expected.score)
        assert [other["text"] for other in one["alternatives"]] == [other.text for other in expected.alternatives]
        assert [tuple(pair) for pair in one["alignment"]] == list(expected.alignment or ())


def test_attention_of_a_real_model(real: TestClient, directory: Path) -> None:
    text = "  the old box, the hall"
    found = real.post("/v1/attention", json={"text": text}).json()
    expected = Translator.load(directory, device="cpu", threads=1).translate(text, alignment=True)
    assert found["target"]["text"] == expected.text
    assert found["source"]["tokens"] == list(expected.source_tokens)
    assert found["target"]["tokens"] == list(expected.tokens)
    np.testing.assert_allclose(found["weights"], expected.alignment_weights, atol=1e-4)
    words = found["source"]["words"]
    assert [text[word["start"] : word["end"]] for word in words] == ["the", "old", "box,", "the", "hall"]
    assert sorted(token for word in words for token in word["tokens"]) == list(range(len(expected.source_tokens)))


def test_attention_takes_one_search_and_no_second_pass(real: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    counted(NativeEngine, "search")
    counted(TorchEngine, "search")
    counted(EncoderDecoder, "hidden")
    assert real.post("/v1/attention", json={"text": "the old box"}).status_code == 200
    assert calls == {"search": 1}


@pytest.mark.parametrize(("text", "status"), [("", 422), ("a\nb", 422), ("x" * 1001, 413), ("\ud800", 422)])
def test_attention_is_of_one_line(real: TestClient, text: str, status: int) -> None:
    body = f'{{"text": "{text.encode("unicode_escape").decode()}"}}'
    answer = real.post("/v1/attention", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text


def test_the_pages_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.headers["content-security-policy"].startswith("default-src 'self'")
        linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert linked
        for link in linked:
            assert not link.startswith(("/", "http"))  # relative, so that a proxy may show the server under a prefix
            assert client.get("/" + link.removeprefix("./")).status_code == 200
        assert "style=" not in page.text
        assert not re.search(r"<script(?! defer src=)", page.text)


def test_words_whose_letters_the_vocabulary_lacks_have_their_place() -> None:
    found = locate_words(
        "a ñandú 中", ["▁a", "▁", "<0xC3>", "<0xB1>", "and", "<0xC3>", "<0xBA>", "▁", "<0xE4>", "<0xB8>", "<0xAD>"]
    )
    assert [(word.text, word.start, word.end) for word in found.words] == [("a", 0, 1), ("ñandú", 2, 7), ("中", 8, 9)]
    silent = locate_words("ab ñ", ["▁a", "<0x01>", "b", "▁", "<0x7F>", "▁", "<0x0A>", "<0xC3>", "<0xB1>"])
    assert [(word.text, word.start, word.end) for word in silent.words] == [("ab", 0, 2), ("ñ", 3, 4)]
    lost = locate_words("ONE two", ["▁one", "▁two"])
    assert [(word.start, word.end) for word in lost.words] == [(None, None), (4, 7)]


def test_a_model_without_attention_is_served_all_the_same() -> None:
    class Blind:
        def translate(self, text: str, **settings: Any) -> None:
            raise SearchError("a Blind has no attention between tokens; ask for the text alone")

    assert not has_attention(Blind(), Search())  # type: ignore[arg-type]


def test_models_tell_whether_they_have_attention(real: TestClient) -> None:
    assert [model["attention"] for model in real.get("/v1/models").json()["models"]] == [True]


def test_under_a_prefix_whether_the_proxy_strips_it_or_not() -> None:
    service = fake_service()
    service.start()
    told: list[str] = []
    with TestClient(create_app(service, "/mt", lambda _, path, *__: told.append(path))) as client:
        for path in ("/health", "/mt/health", "/mt/", "/mt/web/page.js"):
            assert client.get(path).status_code == 200
        assert client.get("/mt/openapi.json").json()["servers"] == [{"url": "/mt"}]
        for path in ("/docs/", "/mt/docs/", "/mt"):
            answer = client.get(path, follow_redirects=False)
            assert answer.headers["location"] == f"http://testserver/mt/{'docs' if 'docs' in path else ''}"
        assert client.post("/mt/v1/translate", json={"text": "a"}).json()["translations"][0]["text"] == "A"
    service.close()
    assert told == ["/health", "/health", "/", "/web/page.js", "/openapi.json", *["other"] * 3, "/v1/translate"]


def test_pages_answer_head(client: TestClient) -> None:
    assert (client.head("/").status_code, client.head("/").content) == (200, b"")


def test_words_that_are_looked_at_are_those_of_the_alignment() -> None:
    tokens = ("▁", "▁Kas", "ten", "▁", "▁alt")
    alignment, weights = ((0, 0), (1, 1)), [[0.5, 0.5]] * 5
    translation = Translation(
        "Kasten  alt", tokens=tokens, source_tokens=("▁old", "▁box"), alignment=alignment, alignment_weights=weights
    )
    words = attention_fields("m", "old box", translation)["target"]["words"]
    assert [(word["text"], word["start"], word["tokens"]) for word in words] == [("Kasten", 0, [1, 2]), ("alt", 8, [4])]
    assert [words[target]["text"] for _, target in alignment] == ["Kasten", "alt"]
