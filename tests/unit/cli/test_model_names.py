"""Pages, pictures and reports name a model by its directory's name; they can be shown to others without its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import leave
from dragoman.modeldir.locate import model_name
from tiny_model import LINES, write_tiny_model


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory whose path must not be shown, with a model, a second one and two files in it."""
    place = tmp_path / "private"
    for seed, name in enumerate(("first-model", "second-model"), 3):
        write_tiny_model(place / name, seed=seed)
    for side, lines in (("en", LINES[:2]), ("de", LINES[2:4])):
        (place / f"test.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def test_a_report_and_its_notes_have_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--source", str(place / "test.en"), "--reference", str(place / "test.de")]
    models = [
        str(place / "first-model"),
        "--ensemble",
        str(place / "second-model"),
        "--against",
        str(place / "second-model"),
    ]
    code, out, _ = leave(capsys, "evaluate", *models, *sides, "--report", str(place / "report"))
    report = "".join((place / "report" / name).read_text(encoding="utf-8") for name in ("report.md", "report.json"))
    assert code == 0
    assert "model: first-model + second-model\n" in report
    assert "## Against second-model\n" in report
    assert '"against": "second-model"' in report
    assert "private" not in report + out


def test_pages_and_pictures_have_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--source", str(place / "test.en"), "--target", str(place / "test.de")]
    model = str(place / "first-model")
    for name in ("heads.html", "heads.svg", "heads.json"):
        assert leave(capsys, "inspect", "heads", model, *sides, "--out", str(place / name))[0] == 0
    assert leave(capsys, "inspect", "attention", model, *sides, "--out", str(place / "attention.html"))[0] == 0
    shown = {
        path.name: path.read_text(encoding="utf-8") for path in place.glob("*.*") if path.suffix not in (".en", ".de")
    }
    assert len(shown) == 4
    assert "first-model: what each head" in shown["heads.html"]
    assert not [name for name, text in shown.items() if "private" in text]


def test_the_engines_are_those_of_a_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "engines", str(place / "first-model"), "--device", "cpu")
    assert (code, "for first-model:\n" in out, "private" in out) == (0, True, False)


def test_a_name_is_found_from_inside_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place / "first-model")
    assert [model_name(Path(path)) for path in (".", "../second-model", "..")] == [
        "first-model",
        "second-model",
        "private",
    ]


def test_models_are_averaged_and_fine_tuned_by_name(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_MODELS", str(place))
    monkeypatch.chdir(place.parent)
    assert leave(capsys, "average", "first-model", "second-model", "--out", "both")[0] == 0
    sides = ("--source", str(place / "test.en"), "--target", str(place / "test.de"))
    code, _, err = leave(capsys, "train", "--from", "first-model", *sides, "--out", "new", "--device", "cpu")
    assert (code, "those of first-model" in err) == (2, True), err  # the model was found, but there are too few pairs
    code, _, err = leave(capsys, "train", "--from", "no-model", *sides, "--out", "new", "--device", "cpu")
    assert (code, "there is no model no-model" in err) == (2, True), err
