"""The recipes of the paper's models train as its sections 5 and 6.1 say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import Recipe

RECIPES = Path(__file__).parents[2] / "recipes"
SECTION_5 = {
    "text.kind": "bpe",  # 5.1
    "text.vocabulary_size": 37_000,
    "text.shared": True,
    "data.batch_tokens": 25_000,
    "train.optimizer": "adam",  # 5.3
    "train.beta1": 0.9,
    "train.beta2": 0.98,
    "train.epsilon": 1e-9,
    "train.schedule": "inverse_sqrt",
    "train.warmup_steps": 4_000,
    "train.learning_rate": None,  # follows from d_model and warmup_steps
    "model.dropout": 0.1,  # 5.4
    "train.label_smoothing": 0.1,
}
OWN = {
    "base": {"train.steps": 100_000, "train.average": 5},  # 5.2, 6.1
    "big": {"train.steps": 300_000, "train.average": 20, "model.dropout": 0.3},  # 5.2, 6.1, Table 3
    "table3/D1": {"model.dropout": 0.0},
    "table3/D2": {"model.dropout": 0.2},
    "table3/D3": {"train.label_smoothing": 0.0},
    "table3/D4": {"train.label_smoothing": 0.2},
}
TABLE_3 = {"train.steps": 100_000, "train.average": 1}  # variations of base, without averaging
NAMES = ["base", "big", *(f"table3/{path.stem}" for path in sorted((RECIPES / "table3").glob("*.toml")))]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_the_papers(name: str) -> None:
    recipe = Recipe.load(RECIPES / f"{name}.toml")
    expected = SECTION_5 | (TABLE_3 if name.startswith("table3/") else {}) | OWN.get(name, {})
    for key, value in expected.items():
        section, _, entry = key.partition(".")
        assert getattr(getattr(recipe, section), entry) == value, key
