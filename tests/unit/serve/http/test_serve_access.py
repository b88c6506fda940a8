"""Who may use the server: hosts, tokens, and a share for each client."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from fake_translator import fake_service
from starlette.testclient import TestClient

from command_line import leave
from dragoman.errors import SearchError
from dragoman.serve.app import create_app
from dragoman.serve.http.access import Access, api_tokens
from raising import raises


def client_with(access: Access) -> Iterator[TestClient]:
    service = fake_service()
    service.start()
    with TestClient(create_app(service, access=access), raise_server_exceptions=False) as client:
        yield client
    service.close()
    service.worker.thread.join(30)


@pytest.fixture(scope="module")
def guarded() -> Iterator[TestClient]:
    yield from client_with(Access(tokens=["right"]))


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LocalHost:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("::1", True),
        ("mt.example.org", True),
        ("mt.example.org:443", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.7:8000", False),
        ("", False),
    ],
)
def test_a_server_answers_to_its_own_names_alone(host: str, allowed: bool) -> None:
    assert Access(["127.0.0.1", "mt.example.org"]).allows_host(host) == allowed


def test_a_server_on_all_addresses_answers_to_any_address_but_to_no_other_name() -> None:
    access = Access(["0.0.0.0"])
    assert access.allows_host("10.0.0.7:8000")
    assert access.allows_host("[fe80::1]")
    assert not access.allows_host("evil.example")
    assert Access(["0.0.0.0", "*"]).allows_host("evil.example")


def test_a_page_of_another_name_reaches_nothing() -> None:
    for client in client_with(Access(["127.0.0.1"])):
        for path in ("/", "/health", "/v1/models"):
            answer = client.get(path, headers={"Host": "evil.example"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (421, "host_not_allowed")
        answer = client.post("/v1/translate", json={"text": "a"}, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert client.post("/v1/translate", json={"text": "a"}, headers={"Host": "localhost"}).status_code == 200


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()


@pytest.mark.parametrize("given", ["Bearer right", "bearer  right", basic("right")])
def test_the_token_opens_everything(guarded: TestClient, given: str) -> None:
    for path in ("/", "/v1/models", "/metrics", "/languages", "/openapi.json"):
        assert guarded.get(path, headers={"Authorization": given}).status_code == 200
    answer = guarded.post("/v1/translate", json={"text": "a"}, headers={"Authorization": given})
    assert answer.json()["translations"][0]["text"] == "A"


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer", "Basic !", basic("wrong"), "right", "Digest right"])
def test_without_the_token_only_open_paths_are_answered(guarded: TestClient, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    for path in ("/", "/v1/models", "/metrics", "/openapi.json", "/nowhere"):
        answer = guarded.get(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")  # so that browsers ask for it
    assert guarded.post("/v1/translate", json={"text": "a"}, headers=headers).status_code == 401
    for path in ("/health", "/ready", "/languages", "/frontend/settings"):
        assert guarded.get(path, headers=headers).status_code == 200


def test_libretranslate_clients_send_the_token_in_the_body(guarded: TestClient) -> None:
    assert guarded.post("/translate", json={"q": "a", "api_key": "right"}).json() == {"translatedText": "A"}
    assert guarded.post("/translate", data={"q": "a", "api_key": "right"}).status_code == 200
    assert guarded.post("/translate", json={"q": "a"}, headers={"Authorization": "Bearer right"}).status_code == 200
    for key in ("wrong", "", None, 3, ["right"]):
        assert guarded.post("/translate", json={"q": "a", "api_key": key}).status_code == 401
    assert guarded.post("/translate", json={"q": "a"}).status_code == 401
    assert guarded.get("/languages").status_code == 200  # where they send none


@pytest.mark.parametrize(
    ("given", "environment", "tokens"),
    [
        ([], {}, ()),
        (["a", "b"], {}, ("a", "b")),
        ([], {"DRAGOMAN_API_TOKEN": "two words\n"}, ("two words",)),
        (["a"], {"DRAGOMAN_API_TOKEN": "b"}, ("a",)),
    ],
)
def test_tokens_come_from_the_command_line_or_are_one_in_the_environment(
    given: list[str], environment: dict[str, str], tokens: tuple[str, ...]
) -> None:
    assert api_tokens(given, environment) == tokens


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_blank_token_is_an_error_and_no_open_server(
    blank: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, environment in (([blank], {}), (["a", blank], {}), ([], {"DRAGOMAN_API_TOKEN": blank})):
        with raises(SearchError, "missing_option", "blank"):
            api_tokens(given, environment)
    code, out, err = leave(capsys, "serve", "m", "--api-token", blank)
    assert (code, out) == (2, "") and "--api-token" in err
    monkeypatch.setenv("DRAGOMAN_API_TOKEN", blank)
    code, out, err = leave(capsys, "serve", "m")
    assert (code, out) == (2, "") and "DRAGOMAN_API_TOKEN" in err


def test_a_client_is_an_address_or_one_of_several_tokens() -> None:
    scope, headers = {"client": ("10.0.0.7", 4711)}, {b"authorization": b"Bearer two"}
    assert Access().client(scope, {}) == "10.0.0.7"
    assert Access(tokens=["two"]).client(scope, headers) == "10.0.0.7"
    assert Access(tokens=["one", "two"]).client(scope, headers) == "token 1"
    assert Access().client({}, {}) == ""
