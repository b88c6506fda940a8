"""Adapters: merged the same way in every engine, verified, and used only with the model that they were trained on."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dragoman
from adapters import write_adapter
from command_line import leave
from dragoman.errors import DamagedError, ModelNotFoundError, OutputError, SearchError
from dragoman.files import MANIFEST, write_manifest
from dragoman.modeldir.adapter import find_adapter, read_products
from dragoman.modeldir.layout import ADAPTER_INFO, ADAPTER_WEIGHTS, EDITABLE, WEIGHTS
from dragoman.modeldir.weights import read_weights
from dragoman.models.loading import load_weights
from dragoman.serve.models.loading import adapter_directories, load_served_model, model_directories
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import LINES, write_tiny_model


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, two adapters of it, the first merged, and another model."""
    directory = tmp_path_factory.mktemp("adapters")
    base = write_tiny_model(directory / "base", languages=(("en",), ("de",)))
    write_adapter(directory / "medical", base)
    write_adapter(directory / "legal", base, rank=2, seed=9)
    write_tiny_model(directory / "other", seed=4)
    dragoman.merge(base, directory / "medical", out=directory / "merged")
    return directory


def test_merged_by_the_equation(place: Path) -> None:
    base, merged, adapter = (load_file(place / name) for name in (
        f"base/{WEIGHTS}", f"merged/{WEIGHTS}", f"medical/{ADAPTER_WEIGHTS}"))  # fmt: skip
    assert base.keys() == merged.keys()
    for name, weight in base.items():
        a, b = (adapter.get(name.removesuffix("weight") + part) for part in ("lora_a", "lora_b"))
        expected = weight if a is None or b is None else weight + np.float32(1.5) * np.einsum("or,ri->oi", b, a)
        np.testing.assert_allclose(merged[name], expected, rtol=1e-5, atol=1e-6)
        assert (a is None) == np.array_equal(merged[name], weight)


@pytest.mark.parametrize("engine", ["native", "torch", "ctranslate2"])
@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_an_adapter_is_the_merged_model_in_every_engine(
    place: Path, engine: str, precision: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
        monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    options = {"engine": engine, "precision": precision, "device": "cpu"}
    merged = Translator.load(place / "merged", **options).translate(LINES, beam=2)
    adapted = Translator.load(place / "base", adapter=place / "medical", **options)
    assert adapted.translate(LINES, beam=2) == merged
    plain = Translator.load(place / "base", **options).translate(LINES, beam=2)
    legal = Translator.load(place / "base", adapter=place / "legal", **options).translate(LINES, beam=2)
    assert len({tuple(each.text for each in texts) for texts in (plain, merged, legal)}) == 3


def test_torch_and_numpy_read_the_same_bits(place: Path) -> None:
    arrays, tensors = (read(place / "base", place / "medical") for read in (read_weights, load_weights))
    assert arrays is not None
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(arrays[name], tensor.numpy())


def test_scores_and_copies_of_a_translator(place: Path) -> None:
    adapted, merged = Translator.load(place / "base", adapter=place / "medical"), Translator.load(place / "merged")
    pairs = [(LINES[0], LINES[4])]
    assert adapted.score(pairs) == merged.score(pairs)
    again = pickle.loads(pickle.dumps(adapted))
    assert repr(again) == repr(adapted) and "medical" in repr(again)
    assert again.translate(LINES[0]) == merged.translate(LINES[0])


def test_an_adapter_of_another_model(place: Path) -> None:
    with raises(SearchError, "adapter_mismatch", "base", "other"):
        find_adapter(place / "medical", place / "other")
    with raises(SearchError, "adapter_mismatch"):
        dragoman.merge(place / "other", place / "medical", out=place / "new")
    assert not (place / "new").exists()


def test_a_model_and_an_adapter_are_not_confused(place: Path) -> None:
    with raises(ModelNotFoundError, "wrong_model_kind", "--adapter"):
        Translator.load(place / "medical")
    with raises(ModelNotFoundError, "wrong_model_kind", "not an adapter"):
        Translator.load(place / "base", adapter=place / "other")
    with raises(OutputError, "output_exists"):
        dragoman.merge(place / "base", place / "medical", out=place / "other")


def damaged_copy(place: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(place / "medical", tmp_path / "copy"))


def test_damaged_adapters(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    copy = damaged_copy(place, tmp_path)
    (copy / ADAPTER_WEIGHTS).write_bytes((copy / ADAPTER_WEIGHTS).read_bytes()[:-1] + b"\1")
    with raises(DamagedError, "file_damaged"):
        find_adapter(copy, place / "base")
    for tensors, mention in (
        ({"encoder.0.attention.qkv.lora_a": np.ones((3, 24), np.float32)}, "qkv"),
        ({"x.lora_a": np.ones((3, 5), np.float32), "x.lora_b": np.ones((4, 3), np.float32)}, "x.weight"),
        ({"x.lora_a": np.ones((3, 5), np.float16), "x.lora_b": np.ones((4, 3), np.float16)}, "float32"),
    ):
        save_file(tensors, copy / ADAPTER_WEIGHTS)
        write_manifest(copy, ignored=EDITABLE)
        with raises(DamagedError, "weights_mismatch", mention):
            read_weights(place / "base", copy)


@pytest.mark.parametrize(
    ("change", "code"),
    [({"format": 9}, "unsupported_format"), ({"rank": "3"}, "file_damaged"), ({"more": 1}, "file_damaged")],
)
def test_adapter_json(place: Path, tmp_path: Path, change: dict[str, object], code: str) -> None:
    copy = damaged_copy(place, tmp_path)
    about = json.loads((copy / ADAPTER_INFO).read_text())
    (copy / ADAPTER_INFO).write_text(json.dumps({**about, **change}))
    with raises(DamagedError, code):
        read_products(copy)


def test_the_commands(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, adapter, out = (str(path) for path in (place / "base", place / "medical", tmp_path / "out"))
    assert leave(capsys, "merge", base, adapter, "--out", out)[0] == 0
    assert load_file(f"{out}/{WEIGHTS}").keys() == load_file(place / "base" / WEIGHTS).keys()
    assert (tmp_path / "out" / MANIFEST).is_file() and "rank 3" in (tmp_path / "out/card.md").read_text()
    texts = [leave(capsys, "translate", *args, "--text", LINES[0])[1] for args in ([base, "--adapter", adapter], [out])]
    assert texts[0] == texts[1] != leave(capsys, "translate", base, "--text", LINES[0])[1]
    pair = ("--text", LINES[0], "--translation", LINES[4])
    scores = [leave(capsys, "score", *args, *pair)[1] for args in ([base, "--adapter", adapter], [out])]
    assert scores[0] == scores[1] != leave(capsys, "score", base, *pair)[1]
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text(LINES[0] + "\n")
    files = ("--source", str(tmp_path / "test.en"), "--reference", str(tmp_path / "test.de"))
    report = tmp_path / "report"
    assert leave(capsys, "evaluate", base, "--adapter", adapter, *files, "--report", str(report))[0] == 0
    assert "base (medical)" in "".join(path.read_text() for path in report.glob("*.json"))


def test_served_adapters(place: Path) -> None:
    models = model_directories([str(place / "other"), f"en-de={place / 'base'}"])
    found = adapter_directories([f"clinic={place / 'medical'}", str(place / "legal")], models)
    assert found == {"clinic": (place / "base", place / "medical"), "legal": (place / "base", place / "legal")}
    served = load_served_model("clinic", *found["clinic"][:1], 1, adapter=found["clinic"][1], engine="torch")
    (text,) = served.translator.stream([LINES[0]], beam=1)
    assert text == Translator.load(place / "merged", engine="torch").translate(LINES[0], beam=1)
    assert served.languages == ("en", "de")
    with raises(SearchError, "duplicate_name", "'en-de'"):
        adapter_directories([f"en-de={place / 'legal'}"], models)
    with raises(SearchError, "adapter_mismatch", "other"):
        adapter_directories([str(place / "legal")], model_directories([str(place / "other")]))
    with raises(SearchError, "missing_option"):
        adapter_directories(["clinic="], models)
