"""Arguments of the wrong type are rejected early, with a clear error."""

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
from raising import raises
from tiny_model import write_tiny_model

SHORT = {"max_length": 6}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(write_tiny_model(tmp_path_factory.mktemp("models") / "tiny"), device="cpu")


@pytest.mark.parametrize(
    ("texts", "mention"),
    [
        (5, "int 5"),
        (None, "None"),
        (Path("a.txt"), "PosixPath('a.txt')"),
        (b"abc", "decode"),
        (["a", 3], "int 3"),
    ],
)
def test_what_is_no_text(translator: Translator, texts: Any, mention: str) -> None:
    with raises(SearchError, "wrong_type", mention):
        translator.translate(texts)


def test_texts_before_what_is_none_are_answered(translator: Translator) -> None:
    found = translator.stream(["a", "b", 3], **SHORT)  # type: ignore[list-item]
    assert [next(found), next(found)] == translator.translate(["a", "b"], **SHORT)
    with raises(SearchError, "wrong_type", "int 3"):
        next(found)


def test_a_text_is_no_stream_of_texts(translator: Translator) -> None:
    with raises(SearchError, "wrong_type", "stream([text])"):
        translator.stream("abc")


@pytest.mark.parametrize("prefix", [5, b"a", {"a"}, {"a": 1}, [5], ["a", None]])
def test_what_is_no_prefix(translator: Translator, prefix: Any) -> None:
    with raises(SearchError, "wrong_type", "prefix"):
        translator.translate(["a"], prefix=prefix)
    assert translator.translate(["a"], prefix=iter(["der"]), **SHORT)[0].text.startswith("der")


@pytest.mark.parametrize("pairs", [5, "ab", ["ab", "cd"], ("a", "b"), [("a", 3)], [("a", "b", "c")], None])
def test_what_are_no_pairs(translator: Translator, pairs: Any) -> None:
    with raises(SearchError, "wrong_type", "pairs"):
        translator.score(pairs)


@pytest.mark.parametrize(
    ("make", "mention"),
    [
        (lambda: Search(beam="4"), "beam must be an integer; got str '4'"),
        (lambda: Search(beam=4.0), "float 4.0"),
        (lambda: Search(n_best=True), "bool True"),
        (lambda: Search(max_length="x"), "max_length"),
        (lambda: Search(length_penalty=None), "length_penalty must be a number; got None"),
        (lambda: Search(sampling={"top_k": 3}), "Sampling(top_p=0.9)"),
        (lambda: Sampling(temperature="1"), "temperature must be a number; got str '1'"),
        (lambda: Sampling(top_k=1.5), "top_k"),
        (lambda: Sampling(seed="x"), "seed"),
        (lambda: Translator.load(None), "None"),
        (lambda: Translator.load(b"x"), "directory"),
    ],
)
def test_values_of_the_wrong_type(make: Callable[[], object], mention: str) -> None:
    with raises(SearchError, "wrong_type", mention):
        make()


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"search": {"beam": 3}}, "Search(beam=5); got dict"),
        ({"batch": "x"}, "batch"),
        ({"n_best": "3"}, "n_best"),
        ({"reproducible": "no"}, "reproducible must be True or False; got str 'no'"),
    ],
)
def test_options_of_the_wrong_type(translator: Translator, options: dict[str, Any], mention: str) -> None:
    with raises(SearchError, "wrong_type", mention):
        translator.stream([], **options)


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
    with raises(ModelNotFoundError, "model_not_found", "with this name in", "models"):
        find_model("tiny")
