"""LoRA adapters in a training run: what they need, their base model, and what is written of them."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import Recipe
from dragoman.errors import TrainingError
from dragoman.files import sha256
from dragoman.modeldir.adapter import AdapterInfo
from dragoman.modeldir.layout import WEIGHTS
from dragoman.modeldir.locate import read_recipe
from dragoman.training.reporting.base_model import BaseModel
from dragoman.training.run_record import RunRecord


def check_adapter_settings(recipe: Recipe, start_from: Path | None) -> None:
    """Reject adapters without a base model, and target languages that the base model lacks."""
    if not recipe.train.lora:
        return
    if start_from is None:
        raise TrainingError(
            f"train.lora={recipe.train.lora} adapts a model that exists; give it with --from, or leave out train.lora",
            code="missing_option",
        )
    known = read_recipe(start_from).text.targets
    if added := [code for code in recipe.text.targets if code not in known]:
        raise TrainingError(
            f"an adapter cannot add the target languages {', '.join(added)}, which need new tokens; leave out "
            "train.lora to fine-tune the whole model",
            code="conflicting_options",
        )


def find_recorded_base(record: RunRecord) -> Path:
    """The base model of a run that trains adapters, which must be where it was, and the same."""
    path = Path(record.base_path)
    if not (path / WEIGHTS).is_file() or sha256(path / WEIGHTS) != record.start_from:
        raise TrainingError(
            f"the base model of this run is not in {path} any more, and its checkpoints have only adapters; restore "
            f"the model whose weights have the SHA-256 {record.start_from[:12]}..., or run the same `dragoman train` "
            "with --from its new place",
            code="model_not_found",
        )
    return path


def adapter_info(recipe: Recipe, base: BaseModel | None) -> AdapterInfo | None:
    """What `adapter.json` says of the result of a run; None if it trains a whole model."""
    if not recipe.train.lora or base is None:
        return None
    return AdapterInfo(recipe.train.lora, recipe.train.lora_scale, base.name, base.weights)
