"""`card.md`: what a person should know of a model before using it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dragoman import __version__
from dragoman.config import ModelRecipe, Recipe
from dragoman.data.prepared import Prepared
from dragoman.training.reporting.progress import Progress


def inside(model: ModelRecipe) -> str:
    """What the layers of an architecture are made of."""
    match model.architecture:
        case "transformer":
            return f"{model.n_heads} heads, d_ff {model.d_ff}"
        case "recurrent":
            return f"{model.cell.upper()} cells, {model.attention} attention"
        case "convolutional":
            return f"windows of {model.kernel_width}"


def reading(model: ModelRecipe) -> str:
    """What a sentence must come with, if anything."""
    if not model.reads_trees:
        return ""
    return "\nIt reads each source sentence with its dependency tree: `dragoman translate --source-trees FILE.conllu`."


def title(recipe: Recipe, corpora: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> str:
    """What it translates from and to: the first files, or with several target languages all sources and the codes."""
    if not recipe.text.targets:
        return f"{names[0]} to {names[1]}"
    sources = dict.fromkeys(c["source_key"] if c["form"] == "jsonl" else c["files"][0]["name"] for c in corpora)
    return f"{', '.join(sources)} to {', '.join(recipe.text.targets)}"


def languages(targets: Sequence[str], splits: Mapping[str, Any]) -> str:
    """How to ask for a language, and how many pairs it was learned from, where there are several."""
    if not targets:
        return ""
    pairs = ", ".join(f"{code} ({splits['train']['to'][code]:,} pairs)" for code in targets)
    return f"\nIt translates into {pairs}: `dragoman translate --to {targets[0]}`."


def write_card(
    directory: Path,
    recipe: Recipe,
    prepared: Prepared,
    told: Mapping[str, Any],
    progress: Progress,
    names: tuple[str, str],
) -> None:
    """Data, size, training and scores, each with where it comes from."""
    manifest = prepared.manifest
    corpora = manifest["inputs"]["corpora"]
    rows = (f"| {file['name']} | {file['bytes']:,} | `{file['sha256'][:16]}` |" for c in corpora for file in c["files"])
    files = "\n".join(dict.fromkeys(rows))  # corpora of several target languages may share files
    splits = ", ".join(f"{name} {split['pairs']:,}" for name, split in manifest["splits"].items())
    figures = "\n".join(f"| {name} | {value:.4f} |" for name, value in told["valid"].items())
    model = recipe.model
    text = f"""# {title(recipe, corpora, names)}

Trained with Dragoman {__version__} (torch {version("torch")}) for {progress.step:,} steps, over
{progress.target_tokens:,.0f} target tokens.

## Data

Pairs: {splits}. The data's license says what may be done with this model; Dragoman does not know it: write it here.

| file | bytes | SHA-256 begins |
|---|---|---|
{files}

## Model

{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model},
{inside(model)}, dropout {model.dropout}; {recipe.text.kind} tokens.
All settings are in recipe.toml.{reading(model)}{languages(recipe.text.targets, manifest["splits"])}
The weights are {told["weights"]}.

## Scores on the validation set

| figure | value |
|---|---|
{figures}

loss: mean cross-entropy of a target token. bleu: sacreBLEU {version("sacrebleu")}, cased, greedy search, at most 1,000
sentences. exact: percentage of sentences that equal the reference to the letter.
"""
    if recipe.text.targets:
        text += "bleu is the mean of the target languages'; bleu_CODE is that of one of them.\n"
    (directory / "card.md").write_text(text, encoding="utf-8")
