"""`text.targets`: what may name a language, what it cannot be together with, and recipes without it as they were."""

from __future__ import annotations

import pytest

from command_line import leave
from dragoman.config import Recipe, TextRecipe
from dragoman.errors import RecipeError


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
    ("changes", "words"),
    [
        (['text.targets=["de", "de"]'], "names a language twice"),
        (['text.targets=["German!"]'], "names 'German!'; a target language is named by a code"),
        (["text.targets=de"], "text.targets must be a list"),
        (['text.targets=["de", "fr"]', "text.vocabulary_size=301"], "use at least 302"),
        (['text.targets=["de"]', "model.positions=syntax"], "cannot be together with model.positions='syntax'"),
    ],
)
def test_what_is_refused(changes, words) -> None:
    with pytest.raises(RecipeError) as error:
        Recipe.load("tiny", changes)
    assert words in str(error.value)
