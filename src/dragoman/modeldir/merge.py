"""Write a base model and its adapter as one model; no torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dragoman import __version__
from dragoman.errors import SearchError
from dragoman.files import check_new_directory
from dragoman.modeldir.adapter import find_adapter, read_adapter_info
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import CARD, load_tokenizers, verify_model
from dragoman.modeldir.locate import find_model, model_name, read_recipe
from dragoman.modeldir.save import save_model
from dragoman.modeldir.weights import read_weights


def merge_model(base: str | Path, adapter: str | Path, out: Path) -> None:
    """Write `base` with `adapter` merged into its weights to the new directory `out`."""
    check_new_directory(out)
    directory = find_model(base)
    verify_model(directory)
    changes = find_adapter(adapter, directory)
    weights = read_weights(directory, changes)
    if weights is None:
        raise SearchError(
            f"the weights of {directory} are not float32; adapt a model written by `dragoman train`",
            code="unsupported_precision",
        )
    recipe = read_recipe(changes, "adapter")
    whole = replace(recipe, train=replace(recipe.train, lora=0, lora_alpha=None, lora_projections=()))
    save_model(
        out,
        recipe=whole,
        info=read_info(changes),
        weights=weights,
        tokenizers=load_tokenizers(directory),
        card=merged_card(directory, changes),
    )


def merged_card(base: Path, adapter: Path) -> str:
    """The card of the adapter, with a line about the merge after its title."""
    path, info = adapter / CARD, read_adapter_info(adapter)
    card = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else f"# {model_name(adapter)}\n"
    title, _, rest = card.partition("\n")
    line = f"{model_name(base)} with the adapter {model_name(adapter)} (LoRA, rank {info.rank}), merged by Dragoman"
    return f"{title}\n\n{line} {__version__}.\n{rest}"
