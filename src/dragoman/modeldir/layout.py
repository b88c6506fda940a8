"""The names of the files in a model directory.

    my-model/           model.safetensors, recipe.toml, model.json, the tokenizers, card.md, manifest.json
    my-model/training/  the run that trained it: metrics, checkpoints, prepared data; models work without it

The manifest has the SHA-256 of every file that is loaded. People may edit the card, so it is not hashed.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final = "model.safetensors"
RECIPE: Final = "recipe.toml"
INFO: Final = "model.json"
CARD: Final = "card.md"
TRAINING: Final = "training"
REQUIRED: Final = (WEIGHTS, RECIPE, INFO)  # beside the tokenizers' files and the manifest
EDITABLE: Final = (CARD,)
