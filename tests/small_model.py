"""Model directories that are made in a moment: random weights, a vocabulary learned from a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dragoman.config import Recipe
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model
from dragoman.text.learn import learn
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
    model = build_model(recipe.model, tokenizer.vocabulary_size, PAD)
    info, weights = ModelInfo(tokenizer.vocabulary_size), as_arrays(model.state_dict())
    save_model(place, recipe=recipe, info=info, weights=weights, tokenizers=(tokenizer, tokenizer), card="# small\n")
    return place
