"""/v1/attention for a given translation: one forced pass, no search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_translator import client_of
from starlette.testclient import TestClient

from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.inspect.attention.maps import record_attention
from dragoman.serve.limits import Limits
from dragoman.serve.models.loading import load_served_model
from dragoman.serve.service import Service
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.forced_attention import forced_attention
from dragoman.translation.translator import Translator
from tiny_model import LINES, write_tiny_model


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: Any) -> Any:
        raise AssertionError("a search")

    for engine in (NativeEngine, TorchEngine):
        monkeypatch.setattr(engine, "search", search)


def check(
    answer: dict[str, Any], translator: Translator, text: str, given: str, to: str | None = None, atol: float = 1e-4
) -> None:
    """Compare with what `dragoman inspect` records of the alignment head."""
    recorded, head = record_attention(translator, text, given, to=to), translator.alignment_head
    layer, n = recorded.maps["cross"][head.layer], translator.n_language_tokens
    steps = (layer.mean(0) if head.head is None else layer[head.head])[:, n:-1]
    weights = steps[:-1] if head.step == "writes" else steps[1:]
    np.testing.assert_allclose(answer["weights"], weights, atol=atol)
    assert answer["target"]["text"] == given
    assert [word["text"] for word in answer["target"]["words"]] == given.split()
    assert [given[word["start"] : word["end"]] for word in answer["target"]["words"]] == given.split()


@pytest.mark.usefixtures("no_search")
def test_a_given_translation_is_not_searched(
    real: TestClient, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.translation.alignment.MIN_STRENGTH", 0.2)  # the model was never trained
    given = "der alte Kasten, im Flur"
    answer = real.post("/v1/attention", json={"text": LINES[0], "translation": given})
    assert answer.status_code == 200, answer.text
    translator = Translator.load(directory, device="cpu")
    check(answer.json(), translator, LINES[0], given, atol=0.05)  # served in int8
    forced = forced_attention(translator, LINES[0], given)
    assert forced is not None and forced.alignment
    assert answer.json()["alignment"] == [list(link) for link in forced.alignment]


def test_one_of_several_target_languages(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "m", 'text.targets=["de", "fr"]', languages=(("en",), ("de", "fr")))
    served = load_served_model("m", directory, 1, device="cpu", engine="torch")
    translator = Translator.load(directory, device="cpu", engine="torch")
    for client in client_of(Service({"m": served}, Limits())):
        for to in ("de", "fr"):
            asked = {"text": LINES[0], "to": to, "translation": "im alten Flur"}
            check(client.post("/v1/attention", json=asked).json(), translator, LINES[0], "im alten Flur", to)


def test_the_head_that_was_trained_to_align_is_shown(tmp_path: Path) -> None:
    guided = ("train.alignment_weight=0.05", "train.alignment_layer=2", "train.alignment_head=2")
    directory = write_tiny_model(tmp_path / "m", *guided)
    served = load_served_model("m", directory, 1, device="cpu", engine="torch")
    translator = Translator.load(directory, device="cpu", engine="torch")
    assert translator.alignment_head == AlignmentHead(1, 1, "reads")
    for client in client_of(Service({"m": served}, Limits())):
        asked = {"text": LINES[0], "translation": "im alten Flur"}
        check(client.post("/v1/attention", json=asked).json(), translator, LINES[0], "im alten Flur")


def test_a_text_in_parts_is_searched(real: TestClient) -> None:
    text = " ".join([*LINES[:3]] * 2)  # more than the model's 30 tokens
    found = real.post("/v1/attention", json={"text": text, "translation": "Kasten"}).json()
    assert found["target"]["text"] == real.post("/v1/attention", json={"text": text}).json()["target"]["text"]


@pytest.mark.parametrize(
    ("translation", "code"),
    [("", "not_one_line"), ("a\nb", "not_one_line"), ("x" * 1001, "too_large"), (3, "wrong_type")],
)
def test_a_translation_is_one_line(real: TestClient, translation: Any, code: str) -> None:
    answer = real.post("/v1/attention", json={"text": "the box", "translation": translation})
    assert answer.json()["error"]["code"] == code
