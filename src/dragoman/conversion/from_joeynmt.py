"""Import JoeyNMT Transformers: a directory with config.yaml, a checkpoint, vocabularies and tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from dragoman.conversion.files.torch_file import TorchFile
from dragoman.conversion.files.yaml_file import read_yaml
from dragoman.conversion.imported_model import ImportedModel, Importer, ImportOptions, language_pair, model_recipe
from dragoman.conversion.layer_names import ACTIVATION_NAMES, EmbeddingTables, FeatureOrder, LayerConverter, LayerNames
from dragoman.conversion.source_checkpoint import (
    DamagedSourceError,
    SourceCheckpoint,
    SourceSettings,
    UnsupportedSettingError,
    choose_checkpoint,
    read_bytes,
)
from dragoman.conversion.subword_model import SubwordModel, read_subword_model, restrict_vocabulary, tokenization_notes
from dragoman.conversion.vocabulary import SpecialIds, VocabularyMapping, map_vocabulary
from dragoman.errors import ConversionError
from dragoman.text.imported.segmentation import SUBWORD_NMT_RESTRICTED, encode_model
from dragoman.text.imported.tokenizer import ImportedTokenizer
from dragoman.values import render_value

TOOLKIT: Final = "JoeyNMT"
CONFIG: Final = "config.yaml"
JOEYNMT_CHECKPOINTS: Final = ("best.ckpt", "avg.ckpt", "latest.ckpt")
ORDERS: Final = {"pre": "pre", "post": "post"}
EPSILON: Final = 1e-6  # of JoeyNMT's layer norms
JOEYNMT_POSITIONS: Final = 5000
JOEYNMT_ENCODER: Final = LayerNames(
    qkv=("src_src_att.q_layer", "src_src_att.k_layer", "src_src_att.v_layer"),
    output="src_src_att.output_layer",
    attention_norm="layer_norm",
    inner="feed_forward.pwff_layer.0",
    outer="feed_forward.pwff_layer.3",
    feed_forward_norm="feed_forward.layer_norm",
)
JOEYNMT_DECODER: Final = replace(
    JOEYNMT_ENCODER,
    qkv=("trg_trg_att.q_layer", "trg_trg_att.k_layer", "trg_trg_att.v_layer"),
    output="trg_trg_att.output_layer",
    attention_norm="x_layer_norm",
    cross_query="src_trg_att.q_layer",
    cross_key_value=("src_trg_att.k_layer", "src_trg_att.v_layer"),
    cross_output="src_trg_att.output_layer",
    cross_norm="dec_layer_norm",
)


def read_joeynmt(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a JoeyNMT model directory."""
    config = read_yaml(path / CONFIG)
    model, data = (config_section(config, name, path / CONFIG) for name in ("model", "data"))
    encoder, decoder = (config_section(model, name, path / CONFIG) for name in ("encoder", "decoder"))
    model_settings = SourceSettings(model, path / CONFIG)
    sides = {
        name: SourceSettings(own, f"{path / CONFIG}, {name}:")
        for name, own in (("encoder", encoder), ("decoder", decoder))
    }
    for settings, usual in zip(sides.values(), ("recurrent", "transformer"), strict=True):
        kind = settings.values.get("type", usual)
        if kind != "transformer":
            raise ConversionError(f"{settings.where} type is {render_value(kind)}; only 'transformer' can be imported")
        settings.require("alpha", 1.0, "weighted residual connections")
    text = JoeyNMTText(path, data, options)
    checkpoint = choose_checkpoint(path, "*.ckpt", JOEYNMT_CHECKPOINTS)
    file = TorchFile(checkpoint)
    tensors = file.tensors(file.content.get("model_state")) if isinstance(file.content, Mapping) else None
    stored = SourceCheckpoint(tensors, checkpoint, "JoeyNMT checkpoints have in 'model_state'")
    stored.ignore("encoder.pe.pe", "decoder.pe.pe")
    d = shared_integer(sides, "hidden_size")
    tables = [config_section(side, "embeddings", path / CONFIG) for side in (encoder, decoder)]
    scaled = [SourceSettings(own, path / CONFIG).boolean("scale") for own in tables]
    embedding_weights, tied = joeynmt_embeddings(stored, model_settings, scaled, text, d)
    sizes = [settings.integer("ff_size", 2048) for settings in sides.values()]
    recipe = model_recipe(
        path / CONFIG,
        d_model=d,
        n_heads=shared_integer(sides, "num_heads"),
        d_ff=max(sizes),
        encoder_layers=sides["encoder"].integer("num_layers", 8),
        decoder_layers=sides["decoder"].integer("num_layers", 4),
        dropout=sides["encoder"].probability("dropout", 0.1),
        activation=shared_choice(sides, "activation", ACTIVATION_NAMES, ("relu", "relu")),
        attention_bias=True,
        norm_order=shared_choice(sides, "layer_norm", ORDERS, ("pre", "post")),
        norm_epsilon=EPSILON,
        **tied,
    )
    layers = LayerConverter(stored, recipe, FeatureOrder())
    layers.take_layers("", JOEYNMT_ENCODER, JOEYNMT_DECODER, sizes)
    stored.check_all_taken()
    return ImportedModel(
        TOOLKIT,
        recipe,
        text.tokenizers[0],
        text.tokenizers[1],
        {**embedding_weights, **layers.weights},
        [checkpoint, path / CONFIG, *text.files],
        longest=JOEYNMT_POSITIONS - 1,
        languages=text.languages,
        notes=tokenization_notes(*text.subword_models) if text.level == "bpe" else (),
    )


def config_section(config: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return a required section of the config."""
    found = config.get(name)
    if not isinstance(found, dict):
        raise DamagedSourceError(path, f"has no section {name!r}, which JoeyNMT 2 writes")
    return found


def shared_integer(sides: Mapping[str, SourceSettings], name: str) -> int:
    """Return an integer setting that must be the same in encoder and decoder."""
    pair = {f"{side} {name}": settings.values.get(name) for side, settings in sides.items()}
    first, second = pair
    return SourceSettings(pair, str(sides["encoder"].where).removesuffix(", encoder:")).shared_integer(first, second)


def shared_choice(
    sides: Mapping[str, SourceSettings], name: str, choices: Mapping[str, str], usual: Sequence[str]
) -> str:
    """Return a choice that must be the same in encoder and decoder; their defaults differ."""
    found = [settings.choice(name, choices, default) for settings, default in zip(sides.values(), usual, strict=True)]
    if found[0] != found[1]:
        raise UnsupportedSettingError(
            f"{sides['encoder'].where} {name} is {found[0]!r}, but the decoder's is {found[1]!r}; only models with "
            "equal values can be imported"
        )
    return found[0]


def joeynmt_embeddings(
    stored: SourceCheckpoint, model: SourceSettings, scaled: Sequence[bool], text: JoeyNMTText, d: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Convert the embeddings; return their weights and recipe settings."""
    sizes = [len(side.rows) for side in text.sides]
    source = stored.take("src_embed.lut.weight", (sizes[0], d))
    target = stored.take_first(("trg_embed.lut.weight", "src_embed.lut.weight"), (sizes[1], d))
    output = stored.take_first(("decoder.output_layer.weight", "trg_embed.lut.weight"), (sizes[1], d))
    if scaled[0] != scaled[1] and not model.boolean("tied_embeddings"):  # if tied, the source's counts
        raise UnsupportedSettingError(f"{model.where} scales the embeddings of one side only; expected both or neither")
    return EmbeddingTables(source, target, output, scaled[0]).convert(text.sides[0], text.sides[1], FeatureOrder())


class JoeyNMTText:
    """The vocabularies, special tokens and tokenizers of a JoeyNMT model."""

    def __init__(self, path: Path, data: Mapping[str, Any], options: ImportOptions) -> None:
        where = path / CONFIG
        side_settings = [config_section(data, side, where) for side in ("src", "trg")]
        special = data.get("special_symbols") or {}
        if not isinstance(special, dict):
            raise SourceSettings(data, where).invalid("special_symbols", special, "a table of names and tokens")
        symbols = SourceSettings(special, f"{where}, special_symbols:")
        for name, usual, what in (("sep_token", None, "prompts before the text"), ("lang_tags", [], "language tags")):
            symbols.require(name, usual, what)
        self.level = " and ".join(dict.fromkeys(render_value(side.get("level")).strip("'") for side in side_settings))
        self.files: list[Path] = []
        self.sides: list[VocabularyMapping] = []
        self.subword_models: list[SubwordModel] = []
        for side, own in zip(("src", "trg"), side_settings, strict=True):
            settings = SourceSettings(own, f"{where}, {side}:")
            check_text_settings(settings)
            vocabulary = path / f"{side}_vocab.txt"
            if not vocabulary.is_file() and isinstance(own.get("voc_file"), str):
                vocabulary = path / Path(own["voc_file"]).name
            self.files.append(vocabulary)
            self.sides.append(self.side(vocabulary, symbols))
            file = options.target_tokenizer if side == "trg" and options.target_tokenizer else options.tokenizer
            self.subword_models.append(self.subword_model(path, settings, file))
        self.files += dict.fromkeys(subword.file for subword in self.subword_models if subword.file is not None)
        self.tokenizers = [
            restricted_tokenizer(side, subword) for side, subword in zip(self.sides, self.subword_models, strict=True)
        ]
        self.languages = language_pair(*(side.get("lang") for side in side_settings))

    def side(self, file: Path, symbols: SourceSettings) -> VocabularyMapping:
        """Read a vocabulary and map it to our order."""
        try:
            names = read_bytes(file).decode("utf-8").rstrip("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ConversionError(f"{file} is not UTF-8 ({error}); copy it again", code="not_utf8") from None
        if len({*names}) != len(names):
            raise ConversionError(f"{file} has a duplicate token; copy it again", code="duplicate_token")
        ids = [
            symbols.integer(f"{name}_id", usual, 0) for name, usual in (("pad", 1), ("bos", 2), ("eos", 3), ("unk", 0))
        ]
        words = [symbols.values.get(f"{name}_token", usual) for name, usual in
                 (("pad", "<pad>"), ("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"))]  # fmt: skip
        for number, word in zip(ids, words, strict=True):
            if number >= len(names) or names[number] != word:
                raise ConversionError(
                    f"token {number} of {file} is not {render_value(word)}, as {symbols.where} requires; copy the "
                    "whole model",
                    code="vocabulary_mismatch",
                )
        return map_vocabulary(names, SpecialIds(*ids))

    def subword_model(self, path: Path, settings: SourceSettings, file: Path | None) -> SubwordModel:
        """Read the subword model of one side: `file`, or the file named in the config."""
        if settings.values.get("level") == "word":
            return SubwordModel()
        own = settings.values.get("tokenizer_cfg") or {}
        kind = settings.values.get("tokenizer_type", settings.values.get("bpe_type", "sentencepiece"))
        named = own.get("model_file" if kind == "sentencepiece" else "codes") if isinstance(own, dict) else None
        if file is None and isinstance(named, str):
            expected = path / Path(named).name
            if not expected.is_file():
                raise ConversionError(
                    f"the tokenizer {expected} of {settings.where} is missing; copy it there or give it as `tokenizer`",
                    code="file_missing",
                )
            file = expected
        return read_subword_model(file)


def restricted_tokenizer(side: VocabularyMapping, subword: SubwordModel) -> ImportedTokenizer:
    """Make the tokenizer of one side; like JoeyNMT, it only uses tokens of the vocabulary."""
    kind, model = subword.kind, subword.model
    if kind == "subword-nmt":
        kind = SUBWORD_NMT_RESTRICTED
    elif kind == "sentencepiece" and subword.file is not None:
        model = encode_model(restrict_vocabulary(read_bytes(subword.file), {*side.tokens}))
    return side.tokenizer(TOOLKIT, kind, model, "<unk>")


def check_text_settings(settings: SourceSettings) -> None:
    """Reject preprocessing that Dragoman does not support."""
    level = settings.values.get("level")
    if level not in ("bpe", "word"):
        raise UnsupportedSettingError(
            f"{settings.where} level is {render_value(level)}; only 'bpe' and 'word' can be imported"
        )
    settings.require("lowercase", False, "lowercased text")
    settings.require("normalize", False, "normalized text")
    settings.require("has_prompt", False, "prompts before the text")
    own = settings.values.get("tokenizer_cfg")
    for name, usual, what in (("pretokenizer", "none", "Moses pretokenization"),
                              ("separator", "@@", "a separator other than '@@'")):  # fmt: skip
        SourceSettings(own if isinstance(own, dict) else {}, settings.where).require(name, usual, what)


JOEYNMT: Final = Importer(
    TOOLKIT,
    f"a JoeyNMT directory ({CONFIG}, *.ckpt)",
    options=("tokenizer", "target_tokenizer"),
    recognizes=lambda path: (path / CONFIG).is_file(),
    read=read_joeynmt,
)
