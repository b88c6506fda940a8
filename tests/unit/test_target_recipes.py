"""`text.targets`: valid language codes, incompatible settings, and unchanged recipes without it."""

from __future__ import annotations

import pytest

from command_line import leave
from dragoman.config import Recipe, TextRecipe
from dragoman.errors import RecipeError
from raising import raises


def test_a_recipe_without_target_languages_does_not_speak_of_them() -> None:
    assert "targets" not in Recipe.load("base").to_toml()
    assert Recipe.load("base").text == TextRecipe(targets=())


def test_a_recipe_with_them_comes_back_from_its_file(tmp_path, capsys) -> None:
    recipe = Recipe.load("tiny", ['text.targets=["de", "zh-Hans"]'])
    (tmp_path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert Recipe.load(tmp_path / "recipe.toml") == recipe and recipe.text.targets == ("de", "zh-Hans")
    code, out, _ = leave(capsys, "recipe", "tiny", "--set", 'text.targets=["de", "zh-Hans"]')
    assert (code, 'targets = ["de", "zh-Hans"]' in out) == (0, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (['text.targets=["de", "de"]'], ("duplicate_language",)),
        (['text.targets=["German!"]'], ("invalid_language_code", "'German!'")),
        (["text.targets=de"], ("wrong_type", "text.targets")),
        (['text.targets=["de", "fr"]', "text.vocabulary_size=301"], ("out_of_range", "at least 302")),
        (['text.targets=["de"]', "model.positions=syntax"], ("conflicting_settings", "model.positions='syntax'")),
    ],
)
def test_what_is_rejected(changes, expected) -> None:
    with raises(RecipeError, *expected):
        Recipe.load("tiny", changes)
