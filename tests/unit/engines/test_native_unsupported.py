"""Invalid input that would make the C engine read out of bounds is rejected, as in PyTorch."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from dragoman.config import ModelRecipe
from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.errors import DamagedError, DragomanError, SearchError, ShapeError
from dragoman.files import write_manifest
from dragoman.modeldir.weights import tensor_layout
from dragoman.models.loading import build_model
from dragoman.search.types import MAX_TOKENS, Search
from native_engines import load_native
from raising import raises
from random_models import PAPER, RECIPES, TOLD, sentences, write_random

VOCABULARY = 101


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("models") / "whole", PAPER, VOCABULARY)


def of_recipe(old: str, new: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        text = (directory / "recipe.toml").read_text()
        assert old in text
        (directory / "recipe.toml").write_text(text.replace(old, new))

    return change


def of_file(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(content) and None


def of_weights(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def rewrite(directory: Path) -> None:
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors")

    return rewrite


def header(about: object) -> bytes:
    text = json.dumps(about).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)


INNER = "decoder.0.feed_forward.inner.weight"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "d_ff": (of_recipe("d_ff = 80", "d_ff = 1000000"), "1000000|numbers"),
    "d_ff, a little": (of_recipe("d_ff = 80", "d_ff = 79"), r"inner.weight of shape \(80, 48\).*\(79, 48\)"),
    "layers": (of_recipe("encoder_layers = 2", "encoder_layers = 1000"), "encoder.2|numbers"),
    "a layer less": (of_recipe("encoder_layers = 2", "encoder_layers = 1"), "encoder.1"),
    "vocabulary": (of_file("model.json", b'{"vocabulary": 120}'), r"tables.shared of shape \(101, 48\).*\(120, 48"),
    "vocabulary below": (of_file("model.json", b'{"vocabulary": 2}'), r"special tokens|\(2, 48\)"),
    "vocabulary none": (of_file("model.json", b'{"vocabulary": "many"}'), "vocabulary 'many'"),
    "vocabularies": (of_file("model.json", b'{"vocabulary": [9, 9, 9]}'), r"vocabulary \[9, 9, 9\]"),
    "no model.json": (lambda directory: (directory / "model.json").unlink(), "model.json"),
    "a list": (of_file("model.json", b"[]"), "model.json cannot be read"),
    "no JSON": (of_file("model.json", b"\xff\xfe"), "model.json cannot be read"),
    "no tensor": (of_weights(lambda w: w.pop(INNER)), f"no tensor {INNER}|numbers"),
    "a small tensor": (of_weights(lambda w: w.update({INNER: w[INNER][:, :7].clone()})), r"inner.*\(80, 7\)|numbers"),
    "one too many": (of_weights(lambda w: w.update(other=w[INNER].clone())), "tensor other"),
    "no weights": (lambda directory: (directory / "model.safetensors").unlink(), "model.safetensors"),
    "empty weights": (of_file("model.safetensors", b""), "model.safetensors cannot be read"),
    "garbage": (of_file("model.safetensors", bytes(range(256)) * 9), "model.safetensors cannot be read"),
    "a huge header": (of_file("model.safetensors", b"\xff" * 99), "model.safetensors cannot be read"),
    "a header that is none": (of_file("model.safetensors", header([1])), "model.safetensors cannot be read"),
    "beyond the end": (
        of_file("model.safetensors", header({"a": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 324]}})),
        "model.safetensors cannot be read",
    ),
    "before the start": (
        of_file("model.safetensors", header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}})),
        "model.safetensors cannot be read",
    ),
    "another size": (
        of_file("model.safetensors", header({"a": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 64]}})),
        "model.safetensors cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", [NativeEngine, TorchEngine])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_in_words(
    damage: str, engine: type[NativeEngine | TorchEngine], whole: Path, tmp_path: Path
) -> None:
    if engine is NativeEngine:
        load_native(whole)
    directory = tmp_path / "m"
    shutil.copytree(whole, directory)
    change, words = DAMAGES[damage]
    change(directory)
    write_manifest(directory)
    with pytest.raises(DamagedError, match=words):
        engine.load(directory)


KEYS = "encoder.1.attention.function.key_table"
VALUES = "decoder.0.attention.function.value_table"
TOLD_DAMAGES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "other keys": ("rotary", of_recipe("d_k = 10", "d_k = 12"), r"qkv.weight of shape \(81, 52\).*\(93, 52"),
    "no pairs": ("rotary", of_recipe("d_k = 10", "d_k = 9"), "d_k=9"),
    "other heads": ("alibi", of_recipe("n_heads = 6", "n_heads = 7"), r"\(174, 58\).*\(203, |\(58, 66\).*\(58, 77"),
    "farther": ("relative", of_recipe("max_distance = 4", "max_distance = 5"), r"_table of shape \(9, .*\(11, "),
    "much farther": ("relative", of_recipe("max_distance = 4", "max_distance = 1000000"), "2000001|numbers"),
    "relative to none": ("relative", of_recipe('"relative"', '"none"'), "max_distance=4"),
    "none to relative": ("alibi", of_recipe('"alibi"', '"relative"'), "no tensor .*_table|numbers"),
    "no keys": ("relative", of_weights(lambda w: w.pop(KEYS)), f"no tensor {KEYS}"),
    "short keys": ("relative", of_weights(lambda w: w.update({KEYS: w[KEYS][:-1].clone()})), r"\(8, 8\).*\(9, 8\)"),
    "flat values": ("relative", of_weights(lambda w: w.update({VALUES: w[VALUES].ravel()})), r"\(108,\).*\(9, 12\)"),
    "wide values": (
        "relative",
        of_weights(lambda w: w.update({VALUES: w[VALUES].mT.contiguous()})),
        r"\(12, 9\).*\(9, 12",
    ),
}


@pytest.mark.parametrize("engine", [NativeEngine, TorchEngine])
@pytest.mark.parametrize("damage", TOLD_DAMAGES)
def test_damaged_positions_are_rejected(damage: str, engine: type[NativeEngine | TorchEngine], tmp_path: Path) -> None:
    name, change, words = TOLD_DAMAGES[damage]
    directory = write_random(tmp_path / "m", TOLD[name], VOCABULARY)
    if engine is NativeEngine:
        load_native(directory)
    change(directory)
    write_manifest(directory)
    with pytest.raises(DragomanError, match=words):
        engine.load(directory)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_layout_names_what_the_model_has(recipe: str) -> None:
    model, vocabulary = RECIPES[recipe]
    expected = {name: tuple(w.shape) for name, w in build_model(model, vocabulary, 0).state_dict().items()}
    both = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
    assert dict(tensor for tensor in tensor_layout(model, both) if tensor) == expected


def test_prefixes_outside_the_model(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    recipe = ModelRecipe(**sizes, positions="learned", max_positions=9, tie="none")
    engine = load_native(write_random(tmp_path / "m", recipe, (50, 30)))
    short = Search(beam=2, max_length=3)
    assert engine.search([[49]], short, [[29] * 8])[0][0].ids == [29] * 8
    with raises(ShapeError, "text_too_long", "10 tokens", "learned for 9", "max_length"):
        engine.search([[5], [5]], short, [[], [5] * 9])
    for wrong in (30, -1, 2**40):
        with raises(ShapeError, "unknown_id", f"prefix has the id {wrong}", "30 tokens", "0 to 29"):
            engine.search([[5], [5]], short, [[4], [5, wrong, 6]])
    for wrong in (50, -1, 2**40):
        with raises(ShapeError, "unknown_id", f"source has the id {wrong}", "50 tokens"):
            engine.search([[5], [5, wrong]], short)
    with raises(ShapeError, "count_mismatch", "1 prefix for 2 sources", "one for each"):
        engine.search([[5], [5]], short, [[4]])


def test_the_largest_numbers_that_a_search_takes(whole: Path) -> None:
    engine, plain = load_native(whole), Search(max_length=7)
    with raises(SearchError, "out_of_range", "min_length"):
        engine.search([[5, 6]], Search(min_length=10**10))
    for repeat in (9, MAX_TOKENS):  # runs longer than the translation never appear twice
        assert engine.search([[5, 6]], Search(max_length=7, no_repeat=repeat)) == engine.search([[5, 6]], plain)


def test_the_others_stop_when_one_fails(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, done, over = load_native(whole, threads=3), [], threading.Event()
    translate, join = engine._translate, threading.Thread.join

    def tried(*given: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        over.wait(30)
        done.append(1)
        return translate(*given)

    def joined(thread: threading.Thread, *given: Any) -> None:  # the main thread has failed, and waits for the others
        over.set()
        join(thread, *given)

    monkeypatch.setattr(threading.Thread, "join", joined)
    monkeypatch.setattr(engine, "_translate", tried)
    monkeypatch.setattr(engine, "max_rows", 4)
    with pytest.raises(KeyboardInterrupt):
        engine.search(sentences(400, VOCABULARY, 5), Search(max_length=2))
    assert len(done) <= 2 and engine.busy == 0  # of a hundred batches, those that were begun


def test_no_more_threads(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, search = sentences(90, VOCABULARY, 5), Search(max_length=2)
    expected = load_native(whole).search(sources, search)
    start, started = threading.Thread.start, []

    def refused(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    engine = load_native(whole, threads=4)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert engine.search(sources, search) == expected and len(started) == 1


def test_no_memory_for_the_weights(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_native(whole)

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("dragoman.modeldir.weights.mmap.mmap", refused)
    with pytest.raises(MemoryError, match="memory"):
        NativeEngine.load(whole)


def test_no_memory_for_a_worker(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load_native(whole)
    monkeypatch.setattr(engine.code, "worker_new", lambda model: None)
    with pytest.raises(MemoryError, match="one more translating thread"):
        engine.search([[5]], Search(max_length=2))
    assert engine.busy == 0 and not engine.lock.locked()
