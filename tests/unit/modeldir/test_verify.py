"""Loaded files are verified once until they change; editable files are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.errors import DamagedError, ModelNotFoundError
from dragoman.files import MANIFEST, verify_manifest
from dragoman.modeldir.layout import verify_model, verify_model_cached
from dragoman.models.loading import load_model
from dragoman.text.special_tokens import PAD
from raising import raises
from tiny_model import write_tiny_model

BEFORE = Path(__file__).parents[2] / "fixtures" / "before"


def test_files_are_hashed_once_and_again_when_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "model")
    read: list[Path] = []

    def counted(path: Path, **options: tuple[str, ...]) -> None:
        read.append(path)
        verify_manifest(path, **options)

    monkeypatch.setattr("dragoman.modeldir.layout.verify_manifest", counted)
    verify_model_cached(model)
    (model / "card.md").write_text("# edited\n")
    verify_model_cached(model)
    assert len(read) == 1
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (model / "model.safetensors").write_bytes(content)
    for _ in range(2):
        with raises(DamagedError, "file_damaged", "model.safetensors"):
            verify_model_cached(model)
    assert len(read) == 3


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "recipe.toml", "shared.json", "shared.spm"])
def test_the_manifest_lists_everything_that_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "model")
    manifest = json.loads((model / MANIFEST).read_text())
    Translator.load(model)  # what was verified before must not hide it
    (model / "notes.txt").write_text("mine")
    Translator.load(model)  # people may put files there
    (model / "more.spm").write_text("foreign")
    with raises(DamagedError, "manifest_incomplete", "more.spm"):
        Translator.load(model)
    (model / "more.spm").unlink()
    del manifest["files"][name]
    (model / MANIFEST).write_text(json.dumps(manifest))
    with raises(DamagedError, "manifest_incomplete", name):
        Translator.load(model)
    (model / name).unlink()
    kind, code = (ModelNotFoundError, "not_a_model") if name == "recipe.toml" else (DamagedError, "manifest_incomplete")
    with raises(kind, code):
        Translator.load(model)
    if not name.startswith("shared"):
        with raises(kind, code):
            load_model(model, PAD)


@pytest.mark.parametrize("name", ["trained", "averaged", "imported"])
def test_cards_in_manifests_written_before_may_change(tmp_path: Path, name: str) -> None:
    shutil.copytree(BEFORE / name, tmp_path / "model")
    assert "card.md" in json.loads((tmp_path / "model" / MANIFEST).read_text())["files"]
    card = tmp_path / "model" / "card.md"
    for change in (lambda: card.write_text("# mine\n"), card.unlink):
        change()
        verify_model(tmp_path / "model")
        verify_model_cached(tmp_path / "model")
        assert Translator.load(tmp_path / "model", device="cpu", engine="torch").translate("one two", max_length=3)
