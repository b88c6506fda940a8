"""reference/model-directory.md: the files of a model, model.json, and the tensors, from modeldir/."""

from __future__ import annotations

from dataclasses import MISSING, fields

from dragoman.config import ModelRecipe
from dragoman.files import MANIFEST
from dragoman.modeldir.adapter import ADAPTER_FORMAT, AdapterInfo
from dragoman.modeldir.forecast_info import ForecastInfo
from dragoman.modeldir.info import MODEL_FORMAT, ModelInfo
from dragoman.modeldir.layout import (
    ADAPTER_INFO,
    ADAPTER_WEIGHTS,
    CARD,
    EDITABLE,
    INFO,
    RECIPE,
    REQUIRED,
    TRAINING,
    WEIGHTS,
)
from dragoman.modeldir.probe_file import PROBES
from dragoman.modeldir.weights import tensor_layout
from dragoman.text.store import TOKENIZER_SUFFIXES
from reference_pages.markdown import table, wrap

FILES = {
    WEIGHTS: "the weights: float32 or int8 tensors in the safetensors format; `model-2.safetensors` and so on if there "
    "are several files",
    RECIPE: "the [recipe](recipe.md) in full, so that later defaults cannot change the model",
    INFO: "vocabulary sizes, languages, license, lengths of training lines",
    CARD: "a page about the model, for people",
    MANIFEST: "size and SHA-256 of every file that is loaded",
}
INFO_FIELDS = {
    "vocabulary": "number of tokens of the shared vocabulary, or a list with the source's and the target's",
    "source_languages": "language codes of the source; empty if unknown",
    "target_languages": "language codes of the target; empty if unknown",
    "license": "license of the model; empty if unknown",
    "line_lengths": "lengths of the training lines in sentences and tokens; null if unknown",
}

FORECAST_FIELDS = {
    "columns": "names of the columns that it forecasts",
    "mean": "mean of each column over the training part",
    "scale": "standard deviation of each column over the training part",
    "time_column": "name of the column of time stamps; empty without one",
    "step": "time between two rows, such as `1 hour`",
    "season": "rows per season of the seasonal-naive baseline",
    "license": "license of the model; empty if unknown",
}
ADAPTER_FIELDS = {
    "rank": "number of rows of each `lora_a`",
    "scale": "factor of the products",
    "base": "name of the base model",
    "base_weights": f"SHA-256 of the base model's `{WEIGHTS}`",
}


def page() -> list[str]:
    """The title and the blocks of the page."""
    rows = [[f"`{name}`", what, _loaded(name)] for name, what in FILES.items()]
    for kind, suffix in TOKENIZER_SUFFIXES.items():
        rows.append([f"`NAME{suffix}`", f"a tokenizer of the kind `{kind}`", "yes, verified"])
    rows.append(["`NAME.json`", "kind, version, size and SHA-256 of the tokenizer `NAME`", "yes, verified"])
    rows.append([f"`{PROBES}`", "probe sentences with their results, for `dragoman verify`", "yes, verified"])
    rows.append([f"`{TRAINING}/`", "the run that trained the model: metrics, checkpoints, prepared data", "no"])
    return [
        "Model directory",
        wrap(
            "A model is one directory with everything that translation needs. It holds no pickle, and loading it runs "
            "no code from it."
        ),
        "## Files",
        table(["file", "content", "loaded"], rows),
        wrap(
            "The tokenizers are named `shared`, or `source` and `target`. Every file that is loaded must match its "
            f"SHA-256 in `{MANIFEST}`. A matrix `NAME` in int8 has a scale for each row in `NAME.row_scales`; a "
            "tensor too large for a file is stored as `NAME@ROW`, by the first row of each part. "
            f"`{CARD}` may be edited or removed. `{TRAINING}/` may be deleted once "
            "training has finished; it is needed to resume a run and to average its checkpoints. New directories "
            "appear complete: they are written next to their place and renamed."
        ),
        f"## `{INFO}`",
        wrap(
            f"A JSON object. `format` is {MODEL_FORMAT}; files of format 1, which had only the vocabulary, still load."
        ),
        table(["key", "meaning", "default"], [_info_row(each.name, each.default) for each in fields(ModelInfo)]),
        f"## `{INFO}` of a forecaster",
        wrap(
            'A [forecaster](../howto/forecasting.md) has `"kind": "forecast"`, no tokenizers and no vocabulary. '
            "Commands for translation reject it, and `dragoman forecast` rejects translators."
        ),
        table(["key", "meaning"], [[f"`{each.name}`", FORECAST_FIELDS[each.name]] for each in fields(ForecastInfo)]),
        "## Adapters",
        wrap(
            f"An [adapter](../howto/fine-tuning.md#adapters) has `{ADAPTER_WEIGHTS}` and `{ADAPTER_INFO}` instead of "
            f"`{WEIGHTS}` and tokenizers; the other files and the rules are the same. For each adapted matrix "
            "`NAME.weight` there are `NAME.lora_a` and `NAME.lora_b`; the matrix becomes weight + scale lora_b lora_a. "
            f"`{ADAPTER_INFO}` is a JSON object. `format` is {ADAPTER_FORMAT}."
        ),
        table(["key", "meaning"], [[f"`{each.name}`", ADAPTER_FIELDS[each.name]] for each in fields(AdapterInfo)]),
        "## Tensors",
        wrap(
            f"The names and shapes in `{WEIGHTS}`, for the Transformer of the preset `base` with a shared "
            "vocabulary of 37,000 tokens. The layers of a stack have the same tensors, numbered from 0; "
            "other recipes add or leave out tensors (biases, position tables, separate embeddings)."
        ),
        table(["tensor", "shape"], _tensors()),
    ]


def _loaded(name: str) -> str:
    if name in EDITABLE:
        return "no; may be edited"
    return "yes, verified" if name in REQUIRED else "yes"


def _info_row(name: str, default: object) -> list[str]:
    shown = {MISSING: "required", None: "null", "": '`""`', (): "`[]`"}[default]
    return [f"`{name}`", INFO_FIELDS[name], shown]


def _tensors() -> list[list[str]]:
    found = [tensor for tensor in tensor_layout(ModelRecipe(), (37_000, 37_000)) if tensor is not None]
    shown: dict[str, str] = {}
    for name, shape in found:
        stack, *rest = name.split(".")
        if stack in ("encoder", "decoder") and rest[0] != "0":
            continue
        shown[name.replace(".0.", ".N.")] = " × ".join(f"{size:,}" for size in shape)
    return [[f"`{name}`", shape] for name, shape in shown.items()]
