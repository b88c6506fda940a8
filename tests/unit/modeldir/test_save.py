"""Model directories: written completely or not at all, with an editable card and a license."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dragoman.modeldir.save
from dragoman import Translator
from dragoman.errors import OutputError
from dragoman.files import MANIFEST
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import CARD, INFO, verify_model
from dragoman.modeldir.save import set_license
from raising import raises
from tiny_model import write_tiny_model


def test_every_file_but_the_card_is_hashed(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model", shared=False)
    files = {path.name for path in model.iterdir()}
    assert {"source.spm", "target.json", "recipe.toml", "model.json", "card.md"} < files
    assert set(json.loads((model / MANIFEST).read_text())["files"]) == files - {CARD, MANIFEST}
    assert len({path.stat().st_mode for path in model.iterdir()}) == 1


@pytest.mark.parametrize("what", ["write_model_files", "save_tokenizers", "write_manifest"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(dragoman.modeldir.save, what, full)
        with raises(OutputError, "cannot_write", str(tmp_path / "model"), "No space left on device"):
            write_tiny_model(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    verify_model(write_tiny_model(tmp_path / "model"))


def test_a_license_is_recorded(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model", languages=(("en",), ("de",)))
    before = read_info(model)
    set_license(str(model), "CC-BY-4.0")
    verify_model(model)
    assert read_info(model) == ModelInfo(before.vocabulary, ("en",), ("de",), "CC-BY-4.0")
    assert Translator.load(model, device="cpu", engine="torch").translate("box", max_length=2)
    assert json.loads((model / INFO).read_text())["format"] == 2


def test_no_module_of_the_package_imports_torch() -> None:
    modules = [f"dragoman.modeldir.{path.stem}" for path in Path(dragoman.modeldir.save.__file__).parent.glob("*.py")]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
