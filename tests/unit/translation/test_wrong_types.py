"""What a program hands over by mistake: answered in words where it comes in, and not by an error from deep inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from dragoman import Search, Translator
from dragoman.errors import ModelNotFoundError, SearchError
from dragoman.modeldir.locate import find_model
from dragoman.search.types import Sampling
from dragoman.translation.options import request
from raising import raises
from tiny_model import write_tiny_model

SHORT = {"max_length": 6}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(write_tiny_model(tmp_path_factory.mktemp("models") / "tiny"), device="cpu")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (5, "expected a text, or an iterable of texts; got int 5"),
        (None, "expected a text, or an iterable of texts; got None"),
        (Path("a.txt"), r"iterable of texts; got PosixPath\('a.txt'\)"),
        (b"abc", "texts are str, but bytes came; decode it"),
        (["a", 3], "a text to translate must be a str; got int 3"),
    ],
)
def test_what_is_no_text(translator: Translator, texts: Any, message: str) -> None:
    with pytest.raises(SearchError, match=message):
        translator.translate(texts)


def test_texts_before_what_is_none_are_answered(translator: Translator) -> None:
    found = translator.stream(["a", "b", 3], **SHORT)  # type: ignore[list-item]
    assert [next(found), next(found)] == translator.translate(["a", "b"], **SHORT)
    with pytest.raises(SearchError, match="must be a str; got int 3"):
        next(found)


def test_a_text_is_no_stream_of_texts(translator: Translator) -> None:
    with pytest.raises(SearchError, match=r"use translate\(text\), or stream\(\[text\]\)"):
        translator.stream("abc")


@pytest.mark.parametrize("prefix", [5, b"a", {"a"}, {"a": 1}, [5], ["a", None]])
def test_what_is_no_prefix(translator: Translator, prefix: Any) -> None:
    with pytest.raises(SearchError, match="prefix must be a str, or a list with one for each text; got"):
        translator.translate(["a"], prefix=prefix)
    assert translator.translate(["a"], prefix=iter(["der"]), **SHORT)[0].text.startswith("der")


@pytest.mark.parametrize("pairs", [5, "ab", ["ab", "cd"], ("a", "b"), [("a", 3)], [("a", "b", "c")], None])
def test_what_are_no_pairs(translator: Translator, pairs: Any) -> None:
    with pytest.raises(SearchError, match=r"expected pairs \(source, target\) of texts; got"):
        translator.score(pairs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Search(beam="4"), "beam must be a whole number; got str '4'"),
        (lambda: Search(beam=4.0), "beam must be a whole number; got float 4.0"),
        (lambda: Search(n_best=True), "n_best must be a whole number; got bool True"),
        (lambda: Search(max_length="x"), "max_length must be a whole number"),
        (lambda: Search(length_penalty=None), "length_penalty must be a number; got None"),
        (lambda: Search(sampling={"top_k": 3}), r"sampling must be a Sampling, as in Sampling\(top_p=0.9\), or None"),
        (lambda: Sampling(temperature="1"), "temperature must be a number; got str '1'"),
        (lambda: Sampling(top_k=1.5), "top_k must be a whole number"),
        (lambda: Sampling(seed="x"), "seed must be a whole number"),
        (lambda: request(search={"beam": 3}), r"search must be a Search, as in Search\(beam=5\); got dict"),
        (lambda: request(batch="x"), "batch must be a whole number"),
        (lambda: request(n_best="3"), "n_best must be a whole number"),
        (lambda: request(reproducible="no"), "reproducible must be True or False; got str 'no'"),
        (lambda: Translator.load(None), "a model is the path of a directory, or a name; got None"),
        (lambda: Translator.load(b"x"), "a model is the path of a directory"),
    ],
)
def test_settings_of_the_wrong_type(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SearchError, match=message):
        make()


def test_numbers_of_numpy_are_numbers(translator: Translator) -> None:
    asked = Search(beam=numpy.int64(2), length_penalty=numpy.float32(0.5), max_length=numpy.int32(3))
    assert [type(value) for value in (asked.beam, asked.length_penalty, asked.max_length)] == [int, float, int]
    assert translator.translate("the old box", search=asked).tokens


def test_models_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("DRAGOMAN_MODELS", raising=False)
    monkeypatch.setattr(Path, "home", lost)
    with raises(ModelNotFoundError, "model_not_found", "in $DRAGOMAN_MODELS (there are none)"):
        find_model("tiny")
