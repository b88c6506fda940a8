"""Import Marian models in Hugging Face format, such as Opus-MT: a directory with config.json and source.spm.

Pegasus is the same model with pre-norm, as which `dragoman export` writes such models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.config import ModelRecipe
from dragoman.config.sections import LANGUAGE_CODE
from dragoman.conversion.files.torch_file import TorchFile
from dragoman.conversion.imported_model import ImportedModel, Importer, ImportOptions, language_pair, model_recipe
from dragoman.conversion.layer_names import (
    ACTIVATION_NAMES,
    EmbeddingTables,
    FeatureOrder,
    LayerConverter,
    LayerNames,
    interleave_sines,
)
from dragoman.conversion.source_checkpoint import (
    DamagedSourceError,
    SourceCheckpoint,
    SourceSettings,
    UnsupportedSettingError,
    read_bytes,
    read_json,
    read_safetensors,
)
from dragoman.conversion.vocabulary import SpecialIds, VocabularyMapping, map_vocabulary
from dragoman.errors import ConversionError
from dragoman.nn import sinusoid
from dragoman.text.imported.segmentation import encode_model, load_segmenter
from dragoman.text.token_table import is_language_code
from dragoman.values import plural, render_value

TOOLKIT: Final = "Marian (Hugging Face)"
NORM_ORDERS: Final = {"marian": "post", "pegasus": "pre"}
MAX_EXTRA_ROWS: Final = 10_000  # of an embedding table, beyond the vocabulary
WEIGHT_FILES: Final = ("model.safetensors", "pytorch_model.bin")
MARIAN_ENCODER: Final = LayerNames(
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.out_proj",
    attention_norm="self_attn_layer_norm",
    inner="fc1",
    outer="fc2",
    feed_forward_norm="final_layer_norm",
)
MARIAN_DECODER: Final = replace(
    MARIAN_ENCODER,
    cross_query="encoder_attn.q_proj",
    cross_key_value=("encoder_attn.k_proj", "encoder_attn.v_proj"),
    cross_output="encoder_attn.out_proj",
    cross_norm="encoder_attn_layer_norm",
)
# Settings that older converters wrote; only the value that Hugging Face's model implements is accepted.
MARIAN_REQUIRED_SETTINGS: Final = {
    "normalize_before": (False, "pre-norm"),
    "normalize_embedding": (False, "a layer norm after the embeddings"),
    "add_final_layer_norm": (False, "a final layer norm"),
    "static_position_embeddings": (True, "learned positions"),
    "is_encoder_decoder": (True, "a decoder without an encoder"),
}


def read_marian(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a Hugging Face model directory."""
    config = SourceSettings(read_json(path / "config.json"), path / "config.json")
    if (kind := config.values.get("model_type")) not in (*NORM_ORDERS,):  # it may be a list
        raise ConversionError(
            f"{config.where} has model_type={render_value(kind)}; of Hugging Face's models, only "
            "Marian (Opus-MT, model_type 'marian') and its pre-norm variant 'pegasus' can be imported"
        )
    for name, (usual, what) in MARIAN_REQUIRED_SETTINGS.items():
        config.require(name, usual, what)
    weights = next((path / name for name in WEIGHT_FILES if (path / name).is_file()), None)
    if weights is None:
        raise ConversionError(
            f"{path} has neither {' nor '.join(WEIGHT_FILES)}; copy the whole model", code="file_missing"
        )
    text = MarianText(path, config, options.one_target)
    tensors = read_safetensors(weights) if weights.suffix == ".safetensors" else read_torch_tensors(weights)
    stored = SourceCheckpoint(tensors, weights, "save_pretrained writes")
    d, positions = config.integer("d_model"), config.integer("max_position_embeddings", 1024, 2)
    sizes = [config.integer(f"{side}_ffn_dim") for side in ("encoder", "decoder")]
    bias = stored.take("final_logits_bias", (1, text.sizes[1]))[0] if "final_logits_bias" in stored else None
    tables = EmbeddingTables(*marian_embeddings(stored, config, text.sizes, d), config.boolean("scale_embedding"), bias)
    stream = FeatureOrder(interleave_sines(d))  # only now is d known to be the width of the tables
    embedding_weights, embedding_settings = tables.convert(text.source, text.target, stream)
    recipe = model_recipe(
        config.where,
        d_model=d,
        n_heads=config.shared_integer("encoder_attention_heads", "decoder_attention_heads"),
        d_ff=max(sizes),
        encoder_layers=config.integer("encoder_layers"),
        decoder_layers=config.integer("decoder_layers"),
        dropout=config.probability("dropout", 0.1),
        attention_dropout=config.probability("attention_dropout"),
        feed_forward_dropout=config.probability("activation_dropout"),
        activation=config.choice("activation_function", ACTIVATION_NAMES, "gelu"),
        attention_bias=True,
        norm_order=NORM_ORDERS[str(kind)],
        **embedding_settings,
    )
    layers = LayerConverter(stored, recipe, stream)
    layers.take_layers("model.", MARIAN_ENCODER, MARIAN_DECODER, sizes)
    recipe = drop_zero_biases(recipe, layers.weights)
    for side in ("encoder", "decoder"):
        check_positions(stored, f"model.{side}.embed_positions.weight", positions, d)
    stored.check_all_taken()
    return ImportedModel(
        TOOLKIT,
        recipe,
        text.source.tokenizer(TOOLKIT, "sentencepiece", text.models[0]),
        text.target.tokenizer(TOOLKIT, "sentencepiece", text.models[1]),
        {**embedding_weights, **layers.weights},
        [weights, path / "config.json", *text.files],
        longest=positions - 1,  # EOS takes a position
        languages=text.languages,
    )


def drop_zero_biases(recipe: ModelRecipe, weights: dict[str, Tensor]) -> ModelRecipe:
    """Drop the biases of attention if all are zero, as in models without them that `dragoman export` wrote."""
    biases = [name for name in weights if name.endswith(".bias") and (".attention." in name or ".cross." in name)]
    if any(weights[name].count_nonzero() for name in biases):
        return recipe
    for name in biases:
        del weights[name]
    return replace(recipe, attention_bias=False)


def read_torch_tensors(path: Path) -> dict[str, Tensor] | None:
    """Read the tensors of pytorch_model.bin."""
    file = TorchFile(path)
    return file.tensors(file.content)


def marian_embeddings(
    stored: SourceCheckpoint, config: SourceSettings, sizes: Sequence[int], d: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Read the source, target and output tables; tied tables may be stored under any of their names."""
    shared = config.boolean("share_encoder_decoder_embeddings", True)
    both = ("model.shared.weight",) if shared else ()
    source, target = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    if shared and sizes[0] != sizes[1]:
        raise ConversionError(
            f"{config.where} shares the embeddings of source and target, but the source has {sizes[0]} tokens and the "
            f"target {sizes[1]}",
            code="vocabulary_mismatch",
        )
    tied = config.boolean("tie_word_embeddings", True)
    of_source = stored.take_first((source, *both), (sizes[0], d))
    of_target = stored.take_first((target, *both, *(("lm_head.weight",) if tied else ())), (sizes[1], d))
    return of_source, of_target, of_target if tied else stored.take("lm_head.weight", (sizes[1], d))


def check_positions(stored: SourceCheckpoint, name: str, positions: int, d: int) -> None:
    """Reject stored position tables that are not sinusoidal; older files store them, possibly rounded."""
    if name not in stored:
        return
    found, order = stored.take(name, (positions, d)), torch.tensor(interleave_sines(d))
    if not torch.allclose(found[:, order], sinusoid(torch.arange(positions), d), atol=5e-3):
        raise UnsupportedSettingError(
            f"{stored.where} has positions in {name} that are not Marian's sinusoids; learned positions cannot be "
            "imported from Marian models"
        )


class MarianText:
    """The text files of a Marian directory: two sentencepiece models, and one or two vocabularies."""

    def __init__(self, path: Path, config: SourceSettings, one_target: bool) -> None:
        about = path / "tokenizer_config.json"
        tokenizer_config = read_json(about) if about.is_file() else {}
        separate = bool(tokenizer_config.get("separate_vocabs", False))
        self.files = [path / "source.spm", path / "target.spm", path / "vocab.json"]
        self.files += [path / "target_vocab.json"] if separate else []
        self.models = [encode_model(read_bytes(file)) for file in self.files[:2]]
        for file, model in zip(self.files, self.models, strict=False):
            try:
                load_segmenter("sentencepiece", model)
            except ValueError as error:
                raise ConversionError(f"{file}: {error}; copy it again", code="not_a_tokenizer") from None
        rows = config.integer("vocab_size"), config.integer("decoder_vocab_size", config.integer("vocab_size"))
        self.sizes = (
            rows if separate or not config.boolean("share_encoder_decoder_embeddings", True) else (rows[0],) * 2
        )
        vocabularies = [read_vocabulary(file, size) for file, size in zip(self.files[2:], self.sizes, strict=False)]
        words = [special_token(tokenizer_config, f"{name}_token", usual) for name, usual in
                 (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))]  # fmt: skip
        of_config = [single_id(config, f"{name}_token_id") for name in ("pad", "eos")]
        start = config.integer("decoder_start_token_id", of_config[0], 0)
        name_of_start = vocabularies[-1][start] if start < len(vocabularies[-1]) else ""
        sides: list[VocabularyMapping] = []
        for file, names, size in zip(self.files[2:], vocabularies, self.sizes, strict=False):
            pad, eos, unk = (token_id(file, names, word) for word in words)
            if file is self.files[-1] and (pad, eos) != tuple(of_config):
                raise ConversionError(
                    f"{render_value(words[0])} and {render_value(words[1])} are tokens {pad} and {eos} in {file}, but "
                    f"{of_config[0]} and {of_config[1]} in {config.where}; the files belong to different models",
                    code="vocabulary_mismatch",
                )
            first = start if file is self.files[-1] else source_start(names, name_of_start, (pad, eos, unk))
            if first >= size:
                raise ConversionError(
                    f"{config.where} has decoder_start_token_id={first}, but only {size} tokens",
                    code="vocabulary_mismatch",
                )
            languages = marian_language_tokens(names) if file is self.files[2] and not one_target else {}
            sides.append(
                map_vocabulary(
                    name_all_rows(names, size), SpecialIds(pad, first, eos, unk), languages, range(len(names), size)
                )
            )
        self.source, self.target = sides[0], sides[-1]
        codes_here = ", ".join(self.source.languages)
        pair = [tokenizer_config.get("source_lang"), codes_here or tokenizer_config.get("target_lang")]
        known = all(re.fullmatch(rf"{LANGUAGE_CODE}(, {LANGUAGE_CODE})*", str(code)) for code in pair)
        self.languages = language_pair(*pair) if known else None


def source_start(source: list[str], start: str, special: Sequence[int]) -> int:
    """The decoder's first token in a separate source vocabulary, which never uses it: by name, or else padding."""
    found = source.index(start) if start in source else special[0]
    return special[0] if found in special else found


def read_vocabulary(file: Path, size: int) -> list[str]:
    """Read the tokens of a vocabulary in the order of their ids; each needs a row in the tables."""
    table = read_json(file)
    if not all(type(number) is int for number in table.values()):
        raise DamagedSourceError(file, "does not map each token to an integer")
    names = sorted(table, key=table.__getitem__)
    if [table[name] for name in names] != list(range(len(names))):
        raise DamagedSourceError(file, "does not number its tokens 0, 1, 2, ...")
    if not len(names) <= size <= len(names) + MAX_EXTRA_ROWS:
        raise ConversionError(
            f"{file} has {plural(len(names), 'token')}, but config.json says {size:,}; the files belong to "
            "different models",
            code="vocabulary_mismatch",
        )
    return names


def name_all_rows(names: Sequence[str], size: int) -> list[str]:
    """Name each row of the table; rows beyond the vocabulary are named by number."""
    return [*names, *(f"<row {number}>" for number in range(len(names), size))]


def special_token(tokenizer_config: dict[str, Any], key: str, usual: str) -> str:
    """Return a special token, which newer files wrap in a table."""
    found = tokenizer_config.get(key, usual)
    found = found.get("content", usual) if isinstance(found, dict) else found
    return found if isinstance(found, str) else usual


def token_id(file: Path, names: list[str], word: str) -> int:
    """Return the id of a special token."""
    if word not in names:
        message = f"{file} has no token {render_value(word)}; copy the whole model"
        raise ConversionError(message, code="vocabulary_mismatch")
    return names.index(word)


def single_id(config: SourceSettings, name: str) -> int:
    """Return an id that is stored as a number or as a list of one."""
    found = config.values.get(name)
    value = found[0] if isinstance(found, list) and len(found) == 1 else found
    return SourceSettings({name: value}, config.where).integer(name, None, 0)


def marian_language_tokens(names: Sequence[str]) -> dict[str, int]:
    """Return the ids of target-language tokens such as >>fra<<, by language code."""
    found = {name[2:-2]: i for i, name in enumerate(names) if name.startswith(">>") and name.endswith("<<")}
    return {code: i for code, i in found.items() if is_language_code(code)}


MARIAN: Final = Importer(
    "Opus-MT",
    "an Opus-MT directory (config.json, source.spm, ...)",
    options=("one_target",),
    recognizes=lambda path: (path / "config.json").is_file(),
    read=read_marian,
)
