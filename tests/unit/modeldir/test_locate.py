"""Finding models by path or by name; errors list what is available."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.errors import ModelNotFoundError, SearchError
from dragoman.modeldir import locate
from dragoman.modeldir.locate import find_model, model_names, read_recipe
from raising import raises
from tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_models_by_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("repository", "data package")  # a checkout may have models of its own
    real = locate.model_sources
    monkeypatch.setattr(locate, "model_sources", lambda: [each for each in real() if each[0] not in own])
    monkeypatch.setenv("DRAGOMAN_MODELS", str(directory.parent))
    assert find_model("tiny") == directory
    with raises(ModelNotFoundError, "model_not_found", str(directory.parent), "(did you mean 'tiny'?)"):
        find_model("tin")
    (directory.parent / "notes").mkdir()
    assert model_names() == ["tiny"]
    with raises(ModelNotFoundError, "model_not_found", "(available: tiny)"):
        find_model("other")
    monkeypatch.delenv("DRAGOMAN_MODELS")
    monkeypatch.setenv("XDG_DATA_HOME", str(directory.parent.parent))
    with raises(ModelNotFoundError, "model_not_found", str(directory.parent.parent)):
        find_model("tiny")
    with pytest.raises(FileNotFoundError):
        Translator.load("tiny")


def test_a_language_pair_without_a_model_gets_no_other_languages(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "model_sources", lambda: [("user folder", tmp_path)])
    monkeypatch.chdir(tmp_path)
    with raises(ModelNotFoundError, "model_not_found", "en-fr", "no models are installed"):
        find_model("en-fr")
    (tmp_path / "en-de").symlink_to(directory)
    with raises(ModelNotFoundError, "model_not_found", "en-fr", "installed: en-de", "`dragoman models`") as caught:
        find_model("en-fr")
    assert "did you mean" not in str(caught.value)
    with raises(ModelNotFoundError, "model_not_found", "did you mean 'en-de'?"):
        find_model("en-dd")  # a typo


def test_a_path_that_does_not_exist_gets_a_suggestion(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    for name in ("model", "second"):
        (runs / "demo" / name).mkdir(parents=True)
        for file in ("manifest.json", "recipe.toml"):
            (runs / "demo" / name / file).touch()
    (runs / "demo" / "modles").mkdir()  # nearer, but no model
    for path in ("demo/modle", "dem/model", "dmo/modle"):
        with raises(ModelNotFoundError, "model_not_found", str(runs / path), f"did you mean {runs}/demo/model?"):
            find_model(runs / path)
    with raises(ModelNotFoundError, "model_not_found", f"available in {runs}/demo: model, second"):
        find_model(runs / "demo" / "other")
    with raises(ModelNotFoundError, "model_not_found", str(tmp_path / "nothing")):
        find_model(tmp_path / "nothing" / "like" / "it")
    monkeypatch.chdir(runs / "demo")
    monkeypatch.setenv("DRAGOMAN_MODELS", str(directory.parent))
    with raises(ModelNotFoundError, "model_not_found", "(did you mean 'tiny'?); available here: model,"):
        find_model("tin")
    with raises(ModelNotFoundError, "model_not_found", "did you mean model?"):
        find_model("modle")


@pytest.mark.parametrize("find", [find_model, read_recipe])
def test_what_is_not_a_model(directory: Path, tmp_path: Path, find: object) -> None:
    assert callable(find)
    with raises(ModelNotFoundError, "not_a_model", f"did you mean {directory}?"):
        find(directory.parent)
    (tmp_path / "run" / "training").mkdir(parents=True)
    with raises(ModelNotFoundError, "model_unfinished", str(tmp_path / "run")):
        find(tmp_path / "run")
    with raises(ModelNotFoundError, "not_a_model", "recipe.toml"):
        find(directory / "recipe.toml")
    with raises(ModelNotFoundError, "not_a_model", "recipe.toml"):
        find(tmp_path)
    (tmp_path / "recipe.toml").touch()
    with raises(ModelNotFoundError, "not_a_model", "manifest.json"):
        find(tmp_path)
    (tmp_path / "broken").symlink_to("gone")
    with raises(ModelNotFoundError, "model_not_found", "gone"):
        find(tmp_path / "broken")


def test_links_to_models_are_followed(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    assert Translator.load(tmp_path / "link", device="cpu", engine="torch").translate("box", max_length=2).tokens


@pytest.mark.parametrize(
    "asked",
    [
        {"engine": "nativ"},
        {"engine": None},
        {"precision": "int4"},
        {"precision": 8},
        {"threads": 0},
        {"threads": "two"},
        {"threads": 1025},
        {"device": "nowhere"},
        {"device": None},
    ],
)
def test_what_cannot_be_loaded(directory: Path, asked: dict[str, object]) -> None:
    with pytest.raises(SearchError, match=str(next(iter(asked.values()))).replace("1025", "1,025")):
        Translator.load(directory, **({"engine": "torch"} | asked)).translate("a")  # type: ignore[arg-type]


def test_loading_needs_no_torch(directory: Path) -> None:
    code = (
        "import sys; from dragoman import Translator; from dragoman.engines.select import ENGINES\n"
        f"t = Translator.load({str(directory)!r}, device='cpu')\n"
        "assert t.engines.get('native') is None or t.translate('the box', max_length=5) is not None\n"
        "assert not {'torch', 'sacrebleu', 'rich', 'click', 'sentencex', 'tokenizers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
