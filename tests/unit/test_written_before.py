"""Models and runs written by earlier versions still load, with the same results."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line import leave
from dragoman.config import Recipe
from dragoman.translation.translator import Translator

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
CHANGES = (
    "model.d_model=16 model.n_heads=2 model.d_ff=16 model.encoder_layers=1 model.decoder_layers=1 model.dropout=0.0 "
    "text.vocabulary_size=300 train.optimiser=adamw train.steps=400 train.warmup_steps=50 train.learning_rate=0.01 "
    "train.save_every=200 train.evaluate_every=200 data.batch_tokens=300 train.log_every=100"
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("trained", ["eins Katze", "Hund und sechs fünf"]), ("averaged", ["eins", "Hund fünf"])],
)
def test_a_model_translates_as_it_did(model: str, expected: list[str]) -> None:
    translator = Translator.load(BEFORE / model, device="cpu", engine="torch")
    assert [one.text for one in translator.translate(["one two cat", "dog and six five"])] == expected


def test_an_imported_model_scores_as_it_did() -> None:
    translator = Translator.load(BEFORE / "imported", device="cpu", engine="torch")
    (scored,) = translator.score([("the lower tower", "der neue Turm ist alt")])
    assert scored.log_probability == pytest.approx(-65.0597, abs=1e-3)


def test_a_recipe_has_the_present_names() -> None:
    path = BEFORE / "trained" / "recipe.toml"
    assert tomllib.loads(path.read_text(encoding="utf-8"))["train"]["optimiser"] == "adamw"
    recipe = Recipe.load(path)
    assert recipe.train.optimizer == "adamw"
    assert "optimizer" in recipe.to_toml() and "optimiser" not in recipe.to_toml()


def test_a_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(BEFORE / "stopped", tmp_path / "run")
    files = ["--source", str(BEFORE / "t.en"), "--target", str(BEFORE / "t.de"), "--recipe", "tiny"]
    changes = [word for change in CHANGES.split() for word in ("--set", change)]
    code, _, said = leave(capsys, "train", *files, *changes, "--out", str(tmp_path / "run"))
    assert code == 0, said
    ended, expected = (load_file(place / "model.safetensors") for place in (tmp_path / "run", BEFORE / "trained"))
    for name, weight in expected.items():
        torch.testing.assert_close(ended[name], weight, atol=1e-3, rtol=1e-3)
