"""The weights of the model that fine-tuning starts from, loaded into the model of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import TrainingError
from dragoman.modeldir.layout import verify_model
from dragoman.modeldir.locate import read_recipe
from dragoman.models.loading import load_weights


def load_starting_weights(model: nn.Module, start_from: Path, targets: Sequence[str] = ()) -> None:
    """Load the verified weights of a finished model into one of the same sizes, except for added target languages."""
    base_targets = read_recipe(start_from).text.targets
    verify_model(start_from)
    added = len(targets) - len(base_targets)
    weights = add_language_rows(load_weights(start_from), model.state_dict(), len(base_targets), added)
    found, expected = ({name: tuple(w.shape) for name, w in of.items()} for of in (weights, model.state_dict()))
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            raise TrainingError(
                f"the weights of {start_from} do not fit the recipe: {name} has shape {found.get(name, 'none')} there, "
                f"but the recipe needs {expected.get(name, 'none')}; fine-tune with the model's own recipe: leave "
                "out --recipe and --set model...",
                code="weights_mismatch",
            )
    model.load_state_dict(weights)


def add_language_rows(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], languages: int, added: int
) -> dict[str, Tensor]:
    """The weights with a row for each of `added` target languages in every embedding that needs it.

    Language tokens are the last of the vocabulary. A new row is the mean of the `languages` rows that are there, or
    random otherwise.
    """
    extended = dict(weights)
    for name, weight in weights.items():
        shape = tuple(fresh[name].shape) if name in fresh else ()
        if added > 0 and name.startswith("embeddings.") and shape == (len(weight) + added, *weight.shape[1:]):
            rows = weight[-languages:].mean(0, keepdim=True).expand(added, *weight.shape[1:]) if languages else None
            extended[name] = torch.cat([weight, fresh[name][-added:].to(weight) if rows is None else rows])
    return extended
