"""Export to Hugging Face: a Marian directory for post-norm models, a Pegasus one for pre-norm models.

Both are the paper's model with sinusoidal positions; Pegasus has the norms before each sublayer. The tokenizer is
Marian's in both. `dragoman import` reads what is written, with the same weights.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from dragoman.config import ModelRecipe
from dragoman.conversion.exports.exported_model import Array, ExportedModel, unsupported
from dragoman.conversion.exports.sentencepiece_files import vocabulary_json
from dragoman.conversion.from_marian import MARIAN_DECODER, MARIAN_ENCODER
from dragoman.conversion.layer_names import LayerNames, interleave_sines
from dragoman.engines.base import unusual_part
from dragoman.engines.ctranslate2_conversion import position_table
from dragoman.errors import MissingExtraError
from dragoman.modeldir.weights import EMBEDDING_TABLES
from dragoman.text.special_tokens import BOS, EOS, PAD

TOOLKIT: Final = "Hugging Face's Marian"
EXTRA: Final = "huggingface"
Order = NDArray[np.intp]  # theirs[i] = ours[order[i]]
MIN_POSITIONS: Final = 1024
MODEL_TYPES: Final = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}


def unsupported_by_huggingface(recipe: ModelRecipe) -> str | None:
    """The first part of a model that neither Marian nor Pegasus has."""
    if part := unusual_part(recipe, ("sinusoidal",)):
        return part
    if {recipe.key_size, recipe.value_size} != {recipe.d_model // recipe.n_heads} or recipe.d_model % recipe.n_heads:
        return "heads whose width is not d_model / n_heads"
    if recipe.norm_epsilon != ModelRecipe().norm_epsilon:
        return f"model.norm_epsilon={recipe.norm_epsilon}"
    if recipe.norm_order == "pre" and recipe.tie != "all":
        return f"model.tie={recipe.tie!r} with model.norm_order='pre' (Pegasus shares all embeddings)"
    return None


def write_huggingface(model: ExportedModel, out: Path) -> None:
    """Write the files of a Hugging Face model into the directory `out`."""
    if part := unsupported_by_huggingface(model.model):
        raise unsupported(TOOLKIT, part)
    separate = model.model.tie != "all"
    tokenizers = model.tokenizers
    if separate and tokenizers.languages:
        raise unsupported(TOOLKIT, "target languages with separate embeddings: its tokenizer ignores them")
    config = model_config(model, separate)
    save_file(hugging_weights(model), out / "model.safetensors", {"format": "pt"})
    write_json(out / "config.json", config)
    write_json(out / "generation_config.json", generation_config(config))
    write_json(out / "tokenizer_config.json", tokenizer_config(model, separate))
    for side, content in zip(("source", "target"), tokenizers.models, strict=True):
        (out / f"{side}.spm").write_bytes(content)
    write_json(out / "vocab.json", vocabulary_json(tokenizers.names[0]))
    if separate:
        write_json(out / "target_vocab.json", vocabulary_json(tokenizers.names[1]))
    (out / "README.md").write_text(model.card, encoding="utf-8")


def model_config(model: ExportedModel, separate: bool) -> dict[str, Any]:
    """`config.json`."""
    recipe, (source, target) = model.model, model.info.vocabulary_sizes
    kind, architecture = MODEL_TYPES[recipe.norm_order]
    return {
        "model_type": kind,
        "architectures": [architecture],
        "is_encoder_decoder": True,
        "d_model": recipe.d_model,
        **{f"{side}_layers": n for side, n in zip(("encoder", "decoder"), layer_counts(recipe), strict=True)},
        **{f"{side}_attention_heads": recipe.n_heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": recipe.d_ff for side in ("encoder", "decoder")},
        "dropout": recipe.dropout,
        "attention_dropout": recipe.attention_dropout,
        "activation_dropout": recipe.feed_forward_dropout,
        "activation_function": recipe.activation,
        "scale_embedding": True,
        "max_position_embeddings": positions(model),
        "vocab_size": source,
        **({"decoder_vocab_size": target} if kind == "marian" else {}),
        **({"share_encoder_decoder_embeddings": not separate} if kind == "marian" else {}),
        "tie_word_embeddings": recipe.tie != "none",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def layer_counts(recipe: ModelRecipe) -> tuple[int, int]:
    """The number of encoder and decoder layers."""
    return recipe.encoder_layers, recipe.decoder_layers


def positions(model: ExportedModel) -> int:
    """The number of positions: at least that of the longest training sentence and its EOS."""
    return max(MIN_POSITIONS, model.recipe.data.max_tokens + 1)


def generation_config(config: dict[str, Any]) -> dict[str, Any]:
    """`generation_config.json`: padding and BOS are never generated, as in our searches."""
    special = {key: config[key] for key in config if key.endswith("_token_id")}
    return {**special, "suppress_tokens": [PAD, BOS], "max_length": 512, "num_beams": 4}


def tokenizer_config(model: ExportedModel, separate: bool) -> dict[str, Any]:
    """`tokenizer_config.json`; BOS is declared, or `decode` would write it."""
    pair = model.info.language_pair
    languages = {"source_lang": pair[0], "target_lang": pair[1]} if pair else {}
    return {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        **({"target_vocab_file": "target_vocab.json"} if separate else {}),
        **languages,
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": positions(model),
        "clean_up_tokenization_spaces": False,
    }


def hugging_weights(model: ExportedModel) -> dict[str, Array]:
    """The tensors under Hugging Face's names, with all sines before all cosines."""
    recipe, weights = model.model, model.weights
    order = np.argsort(interleave_sines(recipe.d_model))
    found: dict[str, Array] = {}
    tables = [weights[f"embeddings.tables.{name}"][:, order] for name in EMBEDDING_TABLES[recipe.tie]]
    if recipe.tie == "all":
        found["model.shared.weight"] = tables[0]
    else:
        found |= {f"model.{side}.embed_tokens.weight": tables[i] for i, side in enumerate(("encoder", "decoder"))}
        found |= {"lm_head.weight": tables[2]} if recipe.tie == "none" else {}
    if recipe.output_bias:
        found["final_logits_bias"] = weights["embeddings.output_bias"][None]
    keys = recipe.n_heads * recipe.key_size
    for side, names, count in zip(
        ("encoder", "decoder"), (MARIAN_ENCODER, MARIAN_DECODER), layer_counts(recipe), strict=True
    ):
        for i in range(count):
            found |= hugging_layer(weights, f"{side}.{i}", f"model.{side}.layers.{i}", names, order, keys)
        if recipe.norm_order == "pre":
            found |= norm_weights(weights, f"{side}_norm", f"model.{side}.layer_norm", order)
            # Marian computes its positions; Pegasus does too, but warns that they are missing
            found[f"model.{side}.embed_positions.weight"] = position_table(positions(model), recipe.d_model)[:, order]
    return {name: np.ascontiguousarray(w) for name, w in found.items()}


def hugging_layer(
    weights: dict[str, Array], ours: str, theirs: str, names: LayerNames, order: Order, width: int
) -> dict[str, Array]:
    """The tensors of one layer; fused projections are split into parts of `width` rows, absent biases are zero."""
    found: dict[str, Array] = {}

    def inputs(name: str, parts: Sequence[str], rows: int) -> None:
        weight = weights[f"{ours}.{name}.weight"][:, order]
        bias = weights.get(f"{ours}.{name}.bias", np.zeros(len(weight), np.float32))
        for i, part in enumerate(parts):
            found[f"{theirs}.{part}.weight"] = weight[i * rows : (i + 1) * rows]
            found[f"{theirs}.{part}.bias"] = bias[i * rows : (i + 1) * rows]

    def output(name: str, part: str) -> None:
        weight = weights[f"{ours}.{name}.weight"][order]
        found[f"{theirs}.{part}.weight"] = weight
        bias = weights.get(f"{ours}.{name}.bias")
        found[f"{theirs}.{part}.bias"] = np.zeros(len(weight), np.float32) if bias is None else bias[order]

    inputs("attention.qkv", names.qkv, width)
    output("attention.output", names.output)
    found |= norm_weights(weights, f"{ours}.around_attention.norm", f"{theirs}.{names.attention_norm}", order)
    if names.cross_query:
        inputs("cross.query", [names.cross_query], width)
        inputs("cross.key_value", names.cross_key_value, width)
        output("cross.output", names.cross_output)
        found |= norm_weights(weights, f"{ours}.around_cross.norm", f"{theirs}.{names.cross_norm}", order)
    inputs("feed_forward.inner", [names.inner], len(weights[f"{ours}.feed_forward.inner.bias"]))
    output("feed_forward.outer", names.outer)
    found |= norm_weights(weights, f"{ours}.around_feed_forward.norm", f"{theirs}.{names.feed_forward_norm}", order)
    return found


def norm_weights(weights: dict[str, Array], ours: str, theirs: str, order: Order) -> dict[str, Array]:
    """The gain and bias of a layer norm."""
    return {f"{theirs}.{part}": weights[f"{ours}.{part}"][order] for part in ("weight", "bias")}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def translate_huggingface(directory: Path, texts: Sequence[str], max_length: int) -> list[str]:
    """Translate with Transformers, greedily and in float32."""
    try:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    except ImportError:
        raise MissingExtraError("transformers", EXTRA, "verifying an export to Hugging Face") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses, which it does not use
        tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    found: list[str] = []
    for start in range(0, len(texts), 32):
        batch = tokenizer(list(texts[start : start + 32]), return_tensors="pt", padding=True)
        with torch.inference_mode():
            ids = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=max_length, max_length=None)
        found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found
