"""Model directories that are made in a moment: random weights, a vocabulary learned from a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dragoman.config import Recipe
from dragoman.files import write_manifest
from dragoman.models.directory import build, write_model
from dragoman.text import learn
from dragoman.text.special_tokens import PAD

WORDS = "one two three four five six seven eight nine ten eins zwei drei vier fünf sechs sieben acht neun zehn"


def model_at(place: Path, seed: int = 1, words: str = WORDS, **changes: Any) -> Path:
    """A whole model directory; `changes` are keys of the recipe's model section."""
    torch.manual_seed(seed)
    sizes = {"d_model": 6, "encoder_layers": 1, "decoder_layers": 2, **changes}
    if "architecture" not in changes:
        sizes = {"n_heads": 3, "d_ff": 10, **sizes}
    recipe = Recipe.from_changes([f"model.{key}={value}" for key, value in sizes.items()])
    tokenizer = learn("bpe", [words] * 3, 330)
    place.mkdir(parents=True)
    model = build(recipe.model, tokenizer.vocabulary_size, PAD)
    write_model(place, recipe, tokenizer.vocabulary_size, model.state_dict())
    tokenizer.save(place, "shared")
    write_manifest(place)
    return place
