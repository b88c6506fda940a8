"""The `model.json` and `card.md` of a trained model: languages, license, data, size, training and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from dragoman import __version__
from dragoman.config import ModelRecipe, Recipe
from dragoman.data.prepared import Prepared
from dragoman.modeldir.info import ModelInfo, language_codes, license_section
from dragoman.text import vocabulary_sizes
from dragoman.text.languages.names import language_name
from dragoman.text.line_lengths import LineLengths
from dragoman.text.sentences import sentence_spans
from dragoman.training.checkpoints.checkpoint import TrainingState
from dragoman.training.reporting.base_model import BaseModel
from dragoman.values import plural

MEASURED_LINES: Final = 20_000  # lines whose sentences are counted


def language_names(prepared: Prepared) -> tuple[list[str], list[str]]:
    """The file names, or keys of JSON lines and TMX, that indicate the source and target languages of prepared data.

    With one target language, those of the first corpus; with several, all sources and the codes of the targets.
    """
    corpora = prepared.manifest["inputs"]["corpora"]
    if targets := prepared.tokenizers[0].targets:
        names = (c["source_key"] if c["form"] in ("jsonl", "tmx") else c["files"][0]["name"] for c in corpora)
        return list(dict.fromkeys(names)), list(targets)
    first = corpora[0]
    if first["form"] == "plain":
        return [first["files"][0]["name"]], [first["files"][1]["name"]]
    return [first["source_key"] or "source"], [first["target_key"] or "target"]


def trained_model_info(prepared: Prepared, base: BaseModel | None = None) -> ModelInfo:
    """The content of `model.json` for a model trained on prepared data, possibly from a `base` model.

    If the data do not indicate both languages, the base model's are used.
    """
    sources, targets = map(language_codes, language_names(prepared))
    if several := prepared.tokenizers[0].targets:  # it still translates from the languages of the base model
        sources = tuple(dict.fromkeys((*(base.source_languages if base else ()), *sources)))
        targets = several
    elif base is not None and not (sources and targets):
        sources, targets = base.source_languages, base.target_languages
    lengths = measure_lengths(prepared, sources[0] if len(sources) == 1 else "en")
    if base is not None:
        lengths = replace(lengths, longest=max(lengths.longest, base.longest_line))
    return ModelInfo(vocabulary_sizes(*prepared.tokenizers), sources, targets, base.license if base else "", lengths)


def measure_lengths(prepared: Prepared, language: str) -> LineLengths:
    """The lengths of the training lines, in tokens and in sentences; the latter from evenly spaced lines."""
    split, tokenizer = prepared.split("train"), prepared.tokenizers[0]
    lines = np.unique(np.linspace(0, len(split) - 1, min(len(split), MEASURED_LINES)).astype(int))
    texts = (tokenizer.decode(split.source[line].tolist()) for line in lines)
    sentences = [len(sentence_spans(text, language)) for text in texts]
    source, target = (side.lengths[lines] for side in (split.source, split.target))
    return LineLengths.measure(sentences, source, target, int(split.source.lengths.max()))


def layer_details(model: ModelRecipe) -> str:
    """The sizes of the layers, by architecture."""
    match model.architecture:
        case "transformer":
            return f"{model.n_heads} heads, d_ff {model.d_ff}"
        case "recurrent":
            attention = "no attention" if model.attention == "none" else f"{model.attention} attention"
            return f"{model.cell.upper()} cells, {attention}"
        case "convolutional":
            return f"windows of {model.kernel_width}"


def tree_usage(model: ModelRecipe) -> str:
    """Usage of source trees, for a model that reads them."""
    if not model.reads_trees:
        return ""
    return "\nIt reads each source sentence with its dependency tree: `dragoman translate --source-trees FILE.conllu`."


def target_language_usage(targets: Sequence[str], splits: Mapping[str, Any]) -> str:
    """How to choose among several target languages, and the number of training pairs of each."""
    if not targets:
        return ""
    pairs = ", ".join(f"{code} ({plural(splits['train']['to'][code], 'pair')})" for code in targets)
    return f"\nIt translates into {pairs}: `dragoman translate --to {targets[0]}`."


def adapter_usage(recipe: Recipe, base: BaseModel | None) -> str:
    """How to use an adapter; nothing for a whole model."""
    if not recipe.train.lora or base is None:
        return ""
    return (
        f"\nThis is a LoRA adapter of rank {recipe.train.lora}: use it with its base model, as in\n"
        f"`dragoman translate {base.name} --adapter ...`."
    )


def training_card(
    recipe: Recipe,
    prepared: Prepared,
    weights: str,
    scores: Mapping[str, float],
    state: TrainingState,
    info: ModelInfo,
    base: BaseModel | None = None,
) -> str:
    """The card of a trained model; `weights` names the selected weights of the run, and `scores` are theirs."""
    manifest = prepared.manifest
    corpora = manifest["inputs"]["corpora"]
    rows = (f"| {file['name']} | {file['bytes']:,} | `{file['sha256'][:16]}` |" for c in corpora for file in c["files"])
    files = "\n".join(dict.fromkeys(rows))  # corpora of several target languages may share files
    splits = ", ".join(f"{name} {split['pairs']:,}" for name, split in manifest["splits"].items())
    figures = "\n".join(f"| {name} | {value:.4f} |" for name, value in scores.items())
    model = recipe.model
    origin, base_data = ("", "") if base is None else (base.section() + "\n", base.data_part() + "\n")
    known = [[*map(language_name, codes)] for codes in (info.source_languages, info.target_languages)]
    heading = " to ".join(", ".join(names) for names in (known if all(known) else language_names(prepared)))
    text = f"""# {heading}

Trained with Dragoman {__version__} (torch {version("torch")}) for {state.step:,} steps, over
{state.target_tokens:,.0f} target tokens.

{origin}## Data

Pairs: {splits}.

| file | bytes | SHA-256 begins |
|---|---|---|
{files}

{base_data}{license_section(info)}
## Model

{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model},
{layer_details(model)}, dropout {model.dropout}; {recipe.text.kind} tokens.
All settings are in recipe.toml.{tree_usage(model)}{target_language_usage(recipe.text.targets, manifest["splits"])}
The weights are {weights}.{adapter_usage(recipe, base)}

## Scores on the validation set

| figure | value |
|---|---|
{figures}

loss: mean cross-entropy per target token. bleu: sacreBLEU {version("sacrebleu")}, cased, greedy search, on at most
1,000 sentences. exact: percentage of these sentences that equal the reference exactly.
"""
    if recipe.text.targets:
        text += "bleu is the mean over the target languages; bleu_CODE is the score of one language.\n"
    return text
