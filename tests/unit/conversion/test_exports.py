"""Exported models translate as ours in the engine of each toolkit; what cannot be expressed is an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dragoman
from command_line import leave
from dragoman.config import ModelRecipe
from dragoman.conversion.exports import export as export_module
from dragoman.conversion.exports.export import FORMATS, ExportFormat, export
from dragoman.conversion.exports.sentencepiece_files import sentencepiece_model
from dragoman.errors import ConversionError, OutputError
from dragoman.modeldir.layout import WEIGHTS, load_tokenizers
from dragoman.text.sentencepiece import load_processor
from dragoman.translation.translator import Translator
from exportable_model import POST, PRE, exportable, lines, tokenizer
from opus_model import UNUSUAL, write_opus
from raising import raises

MODELS = {
    "post": POST,
    "pre": PRE,
    "biases, gelu": replace(POST, attention_bias=True, activation="gelu", output_bias=True),
    "two vocabularies": replace(POST, tie="target", activation="silu"),
    "nothing tied": replace(POST, tie="none", activation="tanh"),
}
LENGTH = 20
TEXTS = [*lines(0)[:20], *UNUSUAL, "", "e\u0301tude, A\u030a and \u212b"]


def needs(to: str) -> None:
    for package in {"huggingface": ["transformers"], "ctranslate2": ["ctranslate2"]}.get(to, ["onnx", "onnxruntime"]):
        pytest.importorskip(package)


def ours(directory: Path, texts: Sequence[str]) -> list[str]:
    translator = Translator.load(directory, engine="torch", device="cpu", precision="float32")
    found = translator.translate(texts, beam=1, split="never", max_length=LENGTH, extra_length=LENGTH)
    return [each.text for each in found]


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_text_in_each_toolkit(tmp_path: Path, name: str, to: str) -> None:
    needs(to)
    model = exportable(tmp_path / "m", MODELS[name])
    assert export(model, to, tmp_path / "out") > 5
    texts = [text for text in TEXTS if text]  # Translator gives back an empty line without a search
    assert FORMATS[to].translate(tmp_path / "out", texts, LENGTH) == [text.strip() for text in ours(model, texts)]


@pytest.mark.parametrize(
    ("model", "to"),
    [
        (replace(POST, positions="none"), "onnx"),
        (replace(POST, d_k=5, d_v=7, norm_epsilon=0.03), "onnx"),
        (replace(PRE, positions="learned", max_positions=64, tie="none"), "onnx"),
        (replace(PRE, positions="learned", max_positions=64, tie="none"), "ctranslate2"),
    ],
)
def test_variations_that_only_some_express(tmp_path: Path, model: ModelRecipe, to: str) -> None:
    needs(to)
    directory, texts = exportable(tmp_path / "m", model), list(lines(0)[:9])
    export(directory, to, tmp_path / "out")
    assert FORMATS[to].translate(tmp_path / "out", texts, LENGTH) == ours(directory, texts)


@pytest.mark.parametrize("name", MODELS)
def test_export_and_import_give_the_same_weights(tmp_path: Path, name: str) -> None:
    model = exportable(tmp_path / "m", MODELS[name], kind="unigram")
    export(model, "huggingface", tmp_path / "out", verify=False)
    dragoman.import_model(tmp_path / "out", out=tmp_path / "back")
    here, back = (load_file(place / WEIGHTS) for place in (model, tmp_path / "back"))
    assert here.keys() == back.keys()
    for tensor, weight in here.items():
        np.testing.assert_array_equal(weight, back[tensor], tensor)
    assert ours(model, TEXTS) == ours(tmp_path / "back", TEXTS)


@pytest.mark.parametrize("languages", [(), ("fra", "zho_Hans", "deu")])
def test_an_imported_model_goes_back(tmp_path: Path, languages: tuple[str, ...]) -> None:
    pytest.importorskip("transformers")
    dragoman.import_model(write_opus(tmp_path / "opus", languages=languages), out=tmp_path / "m")
    assert export(tmp_path / "m", "huggingface", tmp_path / "out") > 5
    if languages:
        assert ">>fra<<" in json.loads((tmp_path / "out" / "vocab.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("to", FORMATS)
def test_several_target_languages(tmp_path: Path, to: str) -> None:
    needs(to)
    model = exportable(tmp_path / "m", targets=("de", "fr"))
    export(model, to, tmp_path / "out")
    texts = list(lines(0)[:9])
    translator = Translator.load(model, engine="torch", device="cpu", precision="float32")
    for language in ("de", "fr"):
        expected = translator.translate(texts, beam=1, split="never", max_length=LENGTH, to=language)
        marked = [f">>{language}<< {text}" for text in texts]
        assert FORMATS[to].translate(tmp_path / "out", marked, LENGTH) == [each.text for each in expected]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_exported_tokenizer_normalizes_as_ours(kind: str) -> None:
    one = tokenizer(kind, None, 420)
    processor = load_processor(sentencepiece_model(one, begins_with_space=True))
    for text in (*TEXTS, "Vie\u0323\u0302t \u1e9b\u0323 o\u0304\u0301", "a\x07b\u2028c\u3000d"):
        assert processor.encode(text) == one.encode(text), text


def test_a_spaceless_source_begins_without_a_space(tmp_path: Path) -> None:
    for language, text in (("zh", "日本語 and more"), ("en", "and more")):
        model = exportable(tmp_path / language, languages=(language, "de"))
        export(model, "huggingface", tmp_path / f"out-{language}", verify=False)
        processor = load_processor((tmp_path / f"out-{language}" / "source.spm").read_bytes())
        assert processor.encode(text) == load_tokenizers(model)[0].encode(text)


@pytest.mark.parametrize(
    ("model", "to", "part"),
    [
        (replace(POST, positions="rotary"), "onnx", "rotary"),
        (replace(POST, positions="learned"), "huggingface", "learned"),
        (replace(POST, d_k=5, d_v=5), "huggingface", "d_model / n_heads"),
        (replace(POST, norm_epsilon=0.01), "huggingface", "model.norm_epsilon=0.01"),
        (replace(PRE, tie="target"), "huggingface", "model.tie='target'"),
        (replace(POST, positions="none"), "ctranslate2", "none"),
        (ModelRecipe(architecture="recurrent", d_model=16, n_heads=8, encoder_layers=1, decoder_layers=1), "onnx",
         "recurrent"),
    ],
)  # fmt: skip
def test_what_cannot_be_expressed_is_named(tmp_path: Path, model: ModelRecipe, to: str, part: str) -> None:
    directory = exportable(tmp_path / "m", model)
    with raises(ConversionError, "unsupported_model", part):
        export(directory, to, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_wordpiece_other_formats_and_an_existing_directory(tmp_path: Path) -> None:
    with raises(ConversionError, "unsupported_tokenizer", "wordpiece"):
        export(exportable(tmp_path / "w", kind="wordpiece"), "huggingface", tmp_path / "out")
    model = exportable(tmp_path / "m")
    with raises(ConversionError, "unknown_choice", "'onyx'", "onnx"):
        export(model, "onyx", tmp_path / "out")
    with raises(OutputError, "output_exists"):
        export(model, "huggingface", model)


def test_a_wrong_export_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    right = FORMATS["huggingface"]

    def damaged(model: object, out: Path) -> None:
        right.write(model, out)  # type: ignore[arg-type]
        weights = load_file(out / WEIGHTS)
        weights["model.decoder.layers.0.fc1.weight"] *= -3
        save_file(weights, out / WEIGHTS, {"format": "pt"})

    formats: dict[str, Callable[..., object] | ExportFormat] = {"huggingface": ExportFormat(damaged, right.translate)}
    monkeypatch.setattr(export_module, "FORMATS", formats)
    with raises(ConversionError, "export_mismatch"):
        export(exportable(tmp_path / "m"), "huggingface", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    model, out = str(exportable(tmp_path / "m")), str(tmp_path / "out")
    code, printed, _ = leave(capsys, "export", "ctranslate2", model, "--out", out)
    assert code == 0 and "verified" in printed and (tmp_path / "out" / "model.bin").is_file()
    assert leave(capsys, "export", "ctranslate2", model, "--out", out)[0] == 2
    code, printed, _ = leave(capsys, "export", "huggingface", model, "--out", out + "2", "--no-verify")
    assert code == 0 and "not verified" in printed
