"""What a request may cost: requests that send little and want much are rejected, or cost little."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fake_translator import FakeTranslator, client_of, fake_service
from starlette.testclient import TestClient

from dragoman.search.types import Search
from dragoman.serve.errors import RequestError
from dragoman.serve.http.bodies import check_json_structure, parse_multipart
from dragoman.serve.http.replies import json_object, json_reply
from dragoman.serve.scheduling.budget import check_added_length, estimate_work
from raising import raises

EMOJI = "\N{GRINNING FACE}" * 1000
SHORT = [f"x{number}" for number in range(128)]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/attention", {"text": EMOJI, "min_length": 500}),
        ("/v1/attention", {"text": EMOJI, "min_length": 500, "beam": 16}),
        ("/v1/attention", {"text": EMOJI, "translation": EMOJI, "beam": 16, "min_length": 500}),
        ("/v1/translate", {"text": SHORT, "min_length": 500, "beam": 16, "n_best": 16}),
        ("/v1/translate", {"text": SHORT, "min_length": 500, "beam": 16, "n_best": 16, "sampling": {}}),
        ("/v1/translate", {"text": SHORT, "extra_length": 500, "sampling": {"temperature": 1e6}}),
        ("/v1/translate", {"text": ["ab"] * 20_000, "n_best": 16, "beam": 16}),
    ],
)
def test_requests_that_cost_much_are_rejected_before_they_are_queued(real: TestClient, path: str, body: Any) -> None:
    answer = real.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "over_budget"), answer.text[:300]


def test_a_text_in_parts_costs_no_more_than_its_lengths(real: TestClient) -> None:
    text = "\N{GRINNING FACE}" * 100  # 400 bytes, in parts of 30 tokens
    answer = real.post("/v1/attention", json={"text": text, "min_length": 500, "beam": 2})
    assert answer.status_code == 200
    rows = answer.json()["weights"]
    assert 500 <= len(rows) < 1500  # 500 for each part would be over 6,500


def test_lines_share_the_lengths_of_their_text() -> None:
    fake = FakeTranslator()
    for client in client_of(fake_service(translator=fake)):
        assert client.post("/v1/translate", json={"text": ["a\nb\nc\nd", "e"], "min_length": 100}).status_code == 200
    lengths = {
        text: told["search"].min_length
        for texts, told in zip(fake.batches, fake.settings, strict=True)
        for text in texts
    }
    assert lengths == {"a": 25, "b": 25, "c": 25, "d": 25, "e": 100}


def test_work_is_what_is_written_times_the_beam() -> None:
    assert estimate_work("x" * 30, Search(beam=4)) == 11 + 4 * 11
    assert estimate_work("x" * 30, Search(beam=16, n_best=3, min_length=500)) == 11 + 16 * 511
    assert estimate_work("x", Search(beam=16, max_length=7, min_length=5)) == 1 + 16 * 6
    assert estimate_work("\N{GRINNING FACE}" * 30, Search(beam=1)) == 41 + 41  # by bytes


def test_lengths_of_long_texts_may_add_up() -> None:
    check_added_length(["a long sentence of many words"] * 2000, Search(extra_length=100))
    check_added_length(["x"] * 4, Search(min_length=500))
    with raises(RequestError, "over_budget", "min_length"):
        check_added_length(["x"] * 128, Search(min_length=500))
    with raises(RequestError, "over_budget", "extra_length"):
        check_added_length(["x"] * 128, Search(extra_length=500))


def test_a_request_that_could_not_be_ready_in_time_is_rejected() -> None:
    service = fake_service(timeout=2)
    for client in client_of(service):
        assert client.post("/v1/translate", json={"text": "x" * 3000}).status_code == 200
        (kind,) = service.throughput.rates
        service.throughput.bulk_rates[kind] = 100.0  # of work a second
        answer = client.post("/v1/translate", json={"text": "x" * 3000})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "over_budget")
        assert client.post("/v1/translate", json={"text": "xyz"}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"%x":1' % number for number in range(900_000)) + b"}",
        b'{"text": [' + b",".join([b"1"] * 900_000) + b"]}",
        b'{"text": [' + b",".join([b'""'] * 900_000) + b"]}",
        b'{"text": [' + b",".join([b'"\\\\"'] * 900_000) + b"]}",
        b"[" * 900_000,
        b" " * 900_000 + b"{}",
    ],
    ids=["fields", "numbers", "strings", "backslashes", "brackets", "spaces"],
)
def test_bodies_of_too_much_structure_are_not_parsed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it was parsed"))
    with raises(RequestError, "too_large") as refused:
        check_json_structure(body)
    assert refused.value.status == 413
    for client in client_of(fake_service()):
        assert (
            client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"}).status_code == 413
        )
        assert client.post("/translate", content=body).status_code == 413


def test_large_texts_are_not_too_much_structure() -> None:
    check_json_structure(json.dumps({"text": ['"quoted", \\ and so on; '] * 20_000}, indent=4).encode())
    check_json_structure(json.dumps({"text": '"\\' * 500_000}).encode())


def test_few_unknown_fields_are_named_and_many_are_counted() -> None:
    for client in client_of(fake_service()):
        body = {f"field {number}": 1 for number in range(2000)}
        answer = client.post("/v1/translate", json={"text": "a", **body})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize("surrogate", ["\ud800", "\udfff"])
@pytest.mark.parametrize("path", ["/v1/translate", "/v1/attention", "/translate", "/detect"])
def test_half_characters_anywhere_are_the_clients_error(real: TestClient, path: str, surrogate: str) -> None:
    names = ("text", "model", "to", "q", "source", "target", "format", "api_key", "translation", surrogate)
    fields = [{name: surrogate} for name in names]
    fields += [
        {"require": [surrogate]},
        {"avoid": [surrogate]},
        {"terms": {surrogate: "a"}},
        {"terms": {"a": surrogate}},
    ]
    for field in fields:
        body = json.dumps({"text": "a", "q": "a", **field}).encode()
        for content in (body, json.dumps(field).encode()):
            answer = real.post(path, content=content, headers={"Content-Type": "application/json"})
            assert 200 <= answer.status_code < 500, (field, answer.text)
            answer.json()


@pytest.mark.parametrize("alternatives", [15, 16, 17, 9_999, 10_000, 10**30, -1])
def test_any_number_of_alternatives_is_answered(real: TestClient, alternatives: int) -> None:
    answer = real.post("/translate", json={"q": "the old box", "alternatives": alternatives})
    assert answer.status_code == 200 if alternatives == 15 else 400 <= answer.status_code < 500


def test_messages_are_bounded(real: TestClient) -> None:
    for body in (
        {"text": "a", "model": "x" * 100_000},
        {"text": "a", "x" * 100_000: 1},
        {"text": "a", "to": "é" * 9999},
    ):
        answer = real.post("/v1/translate", json=body)
        assert 400 <= answer.status_code < 500
        assert len(answer.content) < 3000


def test_a_large_reply_comes_in_pieces_and_is_the_same() -> None:
    entries = [{"text": "é" * 100, "n": number} for number in range(2000)]
    fields: dict[str, Any] = {"model": "m", "empty": [], "translations": iter(entries), "after": None}
    streamed = json_reply(json_object(fields), large=True)

    async def read() -> list[bytes]:
        return [bytes(piece) async for piece in streamed.body_iterator]  # type: ignore[attr-defined]

    pieces = asyncio.run(read())
    assert len(pieces) > 3
    assert json.loads(b"".join(pieces)) == {**fields, "translations": entries}
    assert json.loads(bytes(json_reply(json_object({}), large=False).body)) == {}


@pytest.mark.parametrize(
    "body", [b"", b"--x", b"--x\r\n\r\na\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--"]
)
def test_forms_that_are_not_whole_are_rejected(body: bytes) -> None:
    with pytest.raises(ValueError):
        parse_multipart(body, "multipart/form-data; boundary=x")
