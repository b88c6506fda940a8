"""Installed models: found by name in data packages and folders, listed, and served without arguments."""

from __future__ import annotations

import json
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from command_line import leave
from dragoman.cli.commands.serve import installed_names
from dragoman.modeldir import locate
from dragoman.modeldir.installed import card_bleu, installed_models
from dragoman.modeldir.locate import find_model
from dragoman.modeldir.save import set_license
from tiny_model import write_tiny_model

ROOT = Path(__file__).parents[3]


def build_wheel(model: Path, version: str, out: Path) -> Path:
    """What packaging/model_wheel.py builds."""
    spec = spec_from_file_location("model_wheel", ROOT / "packaging" / "model_wheel.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    wheel: Path = module.build_wheel(model, version, out)
    return wheel


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, with the data package of a model."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("DRAGOMAN_MODELS", raising=False)
    model = write_tiny_model(tmp_path / "en-de", languages=(("en",), ("de",)))
    set_license(model, "CC-BY-4.0")
    (model / "card.md").write_text("# tiny\n\n| figure | value |\n|---|---|\n| bleu | 27.1234 |\n", encoding="utf-8")
    (model / "training").mkdir()
    (model / "training" / "run.json").write_text("{}")
    wheel = build_wheel(model, "0.1.0", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def test_a_data_package_is_found_by_its_name(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = site / "dragoman_models" / "en-de"
    assert find_model("en-de") == place and not (place / "training").exists()
    assert "Name: dragoman-en-de\n" in next(site.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert find_model("en-de") == Path("en-de")  # a path wins
    own = write_tiny_model(tmp_path / "listed" / "en-de", seed=5)
    monkeypatch.chdir(site)
    monkeypatch.setenv("DRAGOMAN_MODELS", str(own.parent))
    assert find_model("en-de") == own


def test_models_are_listed(site: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "user/dragoman/models/de-fr", languages=(("de",), ("fr",)))
    (tmp_path / "user/dragoman/models/broken").mkdir()
    (tmp_path / "user/dragoman/models/broken/manifest.json").write_text("x")
    code, out, _ = leave(capsys, "models", "--json")
    found = {model["name"]: model for model in json.loads(out)}
    assert code == 0 and found.keys() >= {"en-de", "de-fr"} and "broken" not in found
    assert (found["en-de"]["bleu"], found["en-de"]["license"]) == (27.1234, "CC-BY-4.0")
    assert (found["en-de"]["origin"], found["de-fr"]["origin"]) == ("data package", "user folder")
    files = [
        path for path in (site / "dragoman_models/en-de").iterdir() if path.name not in ("card.md", "manifest.json")
    ]
    assert found["en-de"]["bytes"] == sum(path.stat().st_size for path in files)
    code, out, _ = leave(capsys, "models")
    assert code == 0 and "en to de" in out and "27.1" in out
    assert set(installed_names()) == {model.name for model in installed_models()}
    assert card_bleu(tmp_path) is None


def test_the_repository_is_searched_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "__file__", str(tmp_path / "src/dragoman/modeldir/locate.py"))
    (tmp_path / "pyproject.toml").touch()
    model = write_tiny_model(tmp_path / "models" / "aa-bb")
    assert find_model("aa-bb") == model


def test_without_models_there_is_nothing_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "model_sources", lambda: [("user folder", tmp_path)])
    monkeypatch.setattr("dragoman.modeldir.installed.model_sources", lambda: [("user folder", tmp_path)])
    assert leave(capsys, "serve")[0] == 2
    assert leave(capsys, "models")[0] == 0
