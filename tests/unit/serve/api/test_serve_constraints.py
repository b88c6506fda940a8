"""Words that a request requires and avoids."""

from __future__ import annotations

from typing import Any

import pytest
from fake_translator import FakeTranslator
from starlette.testclient import TestClient

PATH = "/v1/translate"


def ask(client: TestClient, **body: Any) -> Any:
    return client.post(PATH, json={"max_length": 14, **body})


def test_a_request_is_given_what_it_requires(real: TestClient) -> None:
    found = ask(real, text=["the old box", "seven"], require=["Flur", ["nine", "acht"]], avoid=["the"]).json()
    for one in found["translations"]:
        assert "Flur" in one["text"] and ("nine" in one["text"] or "acht" in one["text"])
        assert "the" not in one["text"].split()
        assert "unmet" not in one and "unmet" not in one["flags"]
    text = "a box\n\na hall"
    (lines,) = ask(real, text=text, terms={"box": "Kasten", "hall": ["Flur", "Halle"]}).json()["translations"]
    first, _, last = lines["text"].split("\n")
    assert "Kasten" in first and ("Flur" in last or "Halle" in last)


def test_what_is_not_there_is_told(real: TestClient) -> None:
    found = ask(real, text="the old box", require=["der alte Kasten"], max_length=2, n_best=2).json()["translations"][0]
    assert found["unmet"] == ["der alte Kasten"]
    assert "unmet" in found["flags"]
    assert all("unmet" in other["flags"] for other in found["alternatives"])


def test_requests_that_ask_for_nothing_hand_nothing_on(client: TestClient, fake: FakeTranslator) -> None:
    assert ask(client, text="a").status_code == 200
    assert not {"require", "avoid", "terms"} & set(fake.settings[-1])
    assert ask(client, text="a", avoid=["b"], terms={"a": "c"}).status_code == 200
    wished = {name: fake.settings[-1][name] for name in ("require", "avoid", "terms")}
    assert wished == {"require": (), "avoid": ("b",), "terms": (("a", ("c",)),)}


@pytest.mark.parametrize(
    ("body", "status", "code", "mention"),
    [
        ({"require": [""]}, 422, None, "empty"),
        ({"require": ["a"], "avoid": ["a"]}, 422, None, "'a'"),
        ({"require": ["a"], "sampling": {}}, 422, "constraints_with_sampling", "sampling"),
        ({"terms": {"": "x"}}, 422, None, "empty"),
        ({"terms": {"x": []}}, 422, None, "no target"),
        ({"avoid": ["x" * 900] * 2 + ["y" * 900, "z" * 900]}, 413, "too_large", "2,700 characters"),
        ({"text": "b\na a", "terms": {"a": ["x" * 900, "y" * 900, "z" * 900]}}, 413, "too_large", "'a a' have 2,700"),
        ({"avoid": ["x"] * 201}, 413, "too_large", "at most 200"),
        ({"avoid": [3]}, 422, "wrong_type", "avoid must be a list of strings"),
        ({"avod": ["x"]}, 422, "unknown_field", "did you mean 'avoid'?"),
        ({"require": ["a"], "text": "a\nb"}, 422, "constraints_with_splitting", "several lines"),
    ],
)
def test_errors(client: TestClient, body: dict[str, Any], status: int, code: str | None, mention: str) -> None:
    answer = ask(client, **{"text": "a", **body})
    error = answer.json()["error"]
    assert answer.status_code == status
    assert mention in error["message"]
    assert code is None or error["code"] == code  # None: the code of the constraints themselves
