"""A model whose card was edited or removed still translates and is served with its languages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.cli import main
from dragoman.modeldir.info import ModelInfo, data_section, license_section, read_info
from dragoman.modeldir.layout import CARD
from dragoman.modeldir.locate import find_model
from dragoman.training.checkpoints.averaging import parts_of_run, write_average
from opus_model import write_opus
from tiny_run import prepare_tiny, tiny_run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    prepare_tiny(folder)
    tiny_run(folder, folder / "trained", "train.steps=8")
    write_average(parts_of_run(folder / "trained", 2), folder / "averaged")
    main(["import", str(write_opus(folder / "opus")), "--out", str(folder / "imported")])
    return folder


@pytest.mark.parametrize("kind", ["trained", "averaged", "imported"])
def test_an_edited_card_changes_nothing(models: Path, tmp_path: Path, kind: str) -> None:
    model = tmp_path / "renamed"
    shutil.copytree(models / kind, model)
    assert "set_license(" in (model / CARD).read_text(encoding="utf-8")
    expected = Translator.load(model, device="cpu", engine="torch").translate("one two three", max_length=5)
    for change in (lambda: (model / CARD).write_text("# fr to it\n\nLicense: CC0-1.0\n"), (model / CARD).unlink):
        change()
        translator = Translator.load(find_model(model), device="cpu", engine="torch")
        assert translator.translate("one two three", max_length=5, to="de") == expected
        assert read_info(model).language_pair == ("en", "de")


@pytest.mark.parametrize("kind", ["trained", "averaged", "imported"])
def test_a_model_without_its_card_is_served_with_its_languages(models: Path, tmp_path: Path, kind: str) -> None:
    loading = pytest.importorskip("dragoman.serve.models.loading", reason="needs fastapi", exc_type=ImportError)
    model = tmp_path / "renamed"
    shutil.copytree(models / kind, model, ignore=shutil.ignore_patterns(CARD))
    served = loading.load_served_model("mine", model, 1, device="cpu", engine="torch")
    assert (served.languages, served.translator.language) == (("en", "de"), "en")


def test_sections(tmp_path: Path) -> None:
    assert "CC0-1.0" in license_section(ModelInfo(3, license="CC0-1.0"))
    assert "set_license(" in license_section(ModelInfo(3))
    assert "Unknown" in data_section(tmp_path)
    (tmp_path / CARD).write_text("# a to b\n\n## Data\n\nMine.\n\n## Model\n\nLarge.\n")
    assert data_section(tmp_path) == "## Data\n\nMine.\n"
