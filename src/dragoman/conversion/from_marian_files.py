"""Import models in Marian's own formats: `.npz`, as in Opus-MT's archives, and `.bin`, as in Firefox and Bergamot."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.config.model import MAX_LAYERS
from dragoman.conversion.files.marian_weights import SETTINGS, is_marian_file, read_marian_file
from dragoman.conversion.files.yaml_file import parse_yaml
from dragoman.conversion.imported_model import ImportedModel, Importer, ImportOptions, model_recipe
from dragoman.conversion.layer_names import EmbeddingTables, FeatureOrder, LayerConverter, LayerNames
from dragoman.conversion.marian_text import TOOLKIT, MarianVocabulary, locate_files, read_vocabulary
from dragoman.conversion.source_checkpoint import SourceCheckpoint, SourceSettings, UnsupportedSettingError
from dragoman.conversion.subword_model import tokenization_notes
from dragoman.errors import ConversionError
from dragoman.values import render_value

EPSILON: Final = 1e-6  # of Marian's layer norms
POSITIONS: Final = 1024  # rows of a table of sinusoids
NO_POSITIONS: Final = "transformer-disable-position-embeddings"
BLOCKED_LOGIT: Final = -100.0  # of padding and BOS, which Marian's softmax does not have
ACTIVATIONS: Final = {"relu": "relu", "swish": "silu"}  # GELU was another function before Marian 1.11
REQUIRED_SETTINGS: Final = {
    "type": ("transformer", "another kind of model"),
    "transformer-ffn-depth": (2, "a deeper feed-forward network"),
    "transformer-no-projection": (False, "attention without an output projection"),
    "transformer-rnn-projection": (False, "an output projection of recurrent layers"),
    "transformer-pool": (False, "pooling instead of attention to the source"),
    "transformer-attention-mask": ("default", "another attention mask"),
    "transformer-no-bias": (False, "projections without biases"),
    "transformer-no-affine": (False, "layer norms without weights"),
    "transformer-postprocess-emb": ("", "a layer norm after the embeddings"),
    "lemma-dim-emb": (0, "factors"),
    "lemma-dependency": ("", "factors"),
    "right-left": (False, "translation from right to left"),
    "ulr": (False, "a universal lexical representation"),
}
# After "d" (dropout) is removed: preprocess, postprocess and postprocess-top.
NORM_ORDERS: Final = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
LAYER: Final = re.compile(r"(encoder|decoder)_l(\d+)_(self|context|ffn|rnn)_(\w+)")
# Marian's names of the parts of a sublayer, and the names and kinds that `rename_tensors` gives them.
PARTS: Final = {
    **{f"{kind}{of}": (of, part) for of in "qkvo12f" for kind, part in (("W", "weight"), ("b", "bias"))},
    "W": ("value", "weight"),
}
NORM: Final = re.compile(r"(?:Wo_|ffn_)?ln_(scale|bias)(_pre)?")
ENCODER: Final = LayerNames(
    qkv=("self.q", "self.k", "self.v"),
    output="self.o",
    attention_norm="self.norm",
    inner="ffn.1",
    outer="ffn.2",
    feed_forward_norm="ffn.norm",
)
DECODER: Final = replace(
    ENCODER,
    cross_query="context.q",
    cross_key_value=("context.k", "context.v"),
    cross_output="context.o",
    cross_norm="context.norm",
)
RECURRENT_DECODER: Final = replace(DECODER, ssru=("rnn.value", "rnn.f"), attention_norm="rnn.norm")


def read_marian_model(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a model file, or the one of a directory, with its vocabularies."""
    files = locate_files(path, options)
    stored_file = read_marian_file(files.weights)
    where = f"{files.weights}, {SETTINGS}:"
    config = SourceSettings(parse_yaml(stored_file.settings, where, TOOLKIT), where)
    config = SourceSettings(
        {**config.values, "transformer-postprocess-emb": processing_letters(config, "postprocess-emb")}, where
    )
    for name, (usual, what) in REQUIRED_SETTINGS.items():
        config.require(name, usual, what)
    order, recurrent = norm_order(config), is_recurrent(config)
    d, decoder_layers = config.integer("dim-emb"), config.integer("dec-depth")
    sizes = [config.integer("transformer-dim-ffn"), config.integer("transformer-decoder-dim-ffn", 0, 0)]
    sizes[1] = sizes[1] or sizes[0]
    if config.integer("transformer-decoder-ffn-depth", 0, 0) not in (0, 2):
        config.require("transformer-decoder-ffn-depth", 2, "a deeper feed-forward network")
    tensors = rename_tensors(stored_file.tensors, order == "pre", tied_layers(config, decoder_layers))
    stored = SourceCheckpoint(tensors, files.weights, "Marian writes")
    stored.ignore(*(name for name in tensors if name.endswith("_QuantMultA")))  # scales of activations in int8
    rows = vocabulary_rows(config)
    sides = read_sides(files.vocabularies, rows, options)
    source = sides[0].mapping(not options.one_target)
    shared = sides[0].names == sides[1].names
    target = source if shared else sides[1].mapping(False)
    tables = marian_tables(stored, config, rows, d, shared)  # before anything of this width is made
    embedding_weights, embedding_settings = tables.convert(source, target, FeatureOrder())
    positions, longest, position_settings = position_tables(stored, config, d)
    recipe = model_recipe(
        where,
        d_model=d,
        n_heads=config.integer("transformer-heads"),
        d_ff=max(sizes),
        encoder_layers=config.integer("enc-depth"),
        decoder_layers=decoder_layers,
        activation=config.choice("transformer-ffn-activation", ACTIVATIONS, "swish"),
        attention_bias=True,
        autoregression="ssru" if recurrent else "self_attention",
        norm_order=order,
        norm_epsilon=EPSILON,
        **position_settings,
        **embedding_settings,
    )
    layers = LayerConverter(stored, recipe, FeatureOrder())
    layers.take_layers("", ENCODER, RECURRENT_DECODER if recurrent else DECODER, sizes)
    stored.check_all_taken()
    used = [files.weights, files.config, *(side.file for side in sides), *(side.subword.file for side in sides)]
    return ImportedModel(
        TOOLKIT,
        recipe,
        source.tokenizer(TOOLKIT, sides[0].subword.kind, sides[0].subword.model),
        target.tokenizer(TOOLKIT, sides[1].subword.kind, sides[1].subword.model),
        {**embedding_weights, **positions, **layers.weights},
        [*dict.fromkeys(file for file in used if file is not None)],
        longest=longest,
        notes=tokenization_notes(*(side.subword for side in sides)),
    )


def processing_letters(config: SourceSettings, name: str) -> str:
    """The operations of a processing setting, a letter for each, without dropout."""
    value = config.values.get(f"transformer-{name}", "")
    if not isinstance(value, str):
        raise config.invalid(f"transformer-{name}", value, "letters such as 'dan'")
    return value.replace("d", "")


def norm_order(config: SourceSettings) -> str:
    """Whether the model is post-norm or pre-norm; other orders of adding and normalizing cannot be expressed."""
    names = ("preprocess", "postprocess", "postprocess-top")
    found = tuple(processing_letters(config, name) for name in names)
    if found not in NORM_ORDERS:
        values = (render_value(config.values.get(f"transformer-{name}")) for name in names)
        given = ", ".join(f"transformer-{name}={value}" for name, value in zip(names, values, strict=True))
        raise UnsupportedSettingError(
            f"{config.where} has {given}, which cannot be imported; supported are post-norm ('', 'dan', '') and "
            "pre-norm ('n', 'da', 'n')"
        )
    return NORM_ORDERS[found]


def is_recurrent(config: SourceSettings) -> bool:
    """Whether the decoder has SSRUs instead of self-attention."""
    choices = {"self-attention": "", "rnn": "rnn"}
    if not config.choice("transformer-decoder-autoreg", choices, "self-attention"):
        return False
    config.require("dec-cell", "ssru", "another recurrent cell")
    config.require("layer-normalization", False, "layer norms inside of recurrent cells")
    return True


def vocabulary_rows(config: SourceSettings) -> tuple[int, int]:
    """The numbers of rows of the source's and the target's tables."""
    kinds = config.values.get("input-types") or ["sequence"]
    sizes = config.values.get("dim-vocabs")
    if not isinstance(sizes, list) or len(sizes) != 2 or not all(type(n) is int and 2 <= n < 1 << 24 for n in sizes):
        raise config.invalid("dim-vocabs", sizes, "the vocabulary sizes of one source and one target")
    if not isinstance(kinds, list) or any(kind != "sequence" for kind in kinds[:2]):
        raise UnsupportedSettingError(
            f"{config.where} has input-types={render_value(kinds)}; only sequences of tokens can be imported"
        )
    return sizes[0], sizes[1]


def tied_layers(config: SourceSettings, count: int) -> list[int]:
    """The number of the layer whose weights each decoder layer uses, counted from 1."""
    if count > MAX_LAYERS:
        raise config.invalid("dec-depth", count, f"at most {MAX_LAYERS:,} layers")
    found = config.values.get("transformer-tied-layers") or [*range(1, count + 1)]
    if not isinstance(found, list) or len(found) != count or not all(type(n) is int and 1 <= n <= count for n in found):
        raise config.invalid("transformer-tied-layers", found, f"a layer for each of the {count}")
    return found


def rename_tensors(tensors: Mapping[str, Tensor], pre: bool, tied: Sequence[int]) -> dict[str, Tensor]:
    """Give layers the names of `ENCODER` and `DECODER`, and matrices our order; all others keep their names."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        layer, top = LAYER.fullmatch(name), re.fullmatch(r"(encoder|decoder)_top_ln_(scale|bias)", name)
        if top is not None:
            found[f"{top[1]}.layer_norm.{'weight' if top[2] == 'scale' else 'bias'}"] = as_vector(tensor)
            continue
        part = None if layer is None else rename_part(layer[4], pre)
        if layer is None or part is None:
            found[name] = tensor
            continue
        number, is_matrix = int(layer[2]), part.endswith(".weight") and not part.startswith("norm")
        uses = [i for i, of in enumerate(tied) if of == number] if layer[1] == "decoder" else [number - 1]
        for i in uses:
            ours = f"{layer[1]}.layers.{i}.{layer[3]}.{part}"
            found[ours] = tensor.mT if is_matrix and tensor.ndim == 2 else as_vector(tensor)
        if not uses:
            found[name] = tensor
    return found


def rename_part(name: str, pre: bool) -> str | None:
    """The new name of a part of a sublayer; None if it is unknown, or a norm in the wrong place."""
    if norm := NORM.fullmatch(name):
        return f"norm.{'weight' if norm[1] == 'scale' else 'bias'}" if bool(norm[2]) == pre else None
    if name not in PARTS:
        return None
    of, kind = PARTS[name]
    return f"{of}.{kind}"


def as_vector(tensor: Tensor) -> Tensor:
    """A row vector `[1, n]` as `[n]`; anything else unchanged, to be rejected for its shape."""
    return tensor[0] if tensor.ndim == 2 and tensor.shape[0] == 1 else tensor


def read_sides(
    vocabularies: tuple[Path, Path], rows: tuple[int, int], options: ImportOptions
) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Read both vocabularies; for token lists, Opus-MT has the subword models in source.spm and target.spm."""
    given = (options.tokenizer, options.target_tokenizer or options.tokenizer)
    sides = []
    for file, size, name, tokenizer in zip(vocabularies, rows, ("source.spm", "target.spm"), given, strict=True):
        beside = file.with_name(name)
        usual = beside if file.suffix != ".spm" and beside.is_file() else None
        sides.append(read_vocabulary(file, size, tokenizer or usual))
    return sides[0], sides[1]


def position_tables(
    stored: SourceCheckpoint, config: SourceSettings, d: int
) -> tuple[dict[str, Tensor], int, dict[str, Any]]:
    """Positions as a table, the longest text, and settings; Marian's sinusoids have other frequencies than ours."""
    if config.boolean(NO_POSITIONS):
        return {}, POSITIONS - 1, {"positions": "none"}
    if "Wpos" in stored:
        table = stored.take("Wpos", (len(stored.tensors["Wpos"]), d))
    else:
        table = sinusoids(POSITIONS, d, config)
    weights = {f"{side}_positions.table": table for side in ("source", "target")}
    return weights, len(table) - 1, {"positions": "learned", "max_positions": len(table)}


def sinusoids(count: int, d: int, config: SourceSettings) -> Tensor:
    """Marian's sinusoids: sines, then cosines, with frequencies from 1 to 1/10000 inclusive."""
    half = d // 2
    if d % 2 or half < 2:
        raise config.invalid("dim-emb", d, "an even number of at least 4, for sinusoidal positions")
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / (half - 1)))
    angles = torch.arange(count, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def marian_tables(
    stored: SourceCheckpoint, config: SourceSettings, rows: tuple[int, int], d: int, one_vocabulary: bool
) -> EmbeddingTables:
    """Read embeddings and output layer, and add rows for padding and BOS: zeros, as Marian starts from no embedding."""
    everything = config.boolean("tied-embeddings-all")
    shared = everything or config.boolean("tied-embeddings-src")
    if shared and not one_vocabulary:
        raise ConversionError(
            f"{config.where} shares the embeddings of source and target, but their vocabularies differ; the files "
            "belong to different models",
            code="vocabulary_mismatch",
        )
    names = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    source, target = (stored.take(name, (size, d)) for name, size in zip(names, rows, strict=True))
    output = target
    if not (everything or config.boolean("tied-embeddings")):
        output = output_matrix(stored, rows[1], d)
    bias = torch.zeros(rows[1])
    if not config.boolean("output-omit-bias"):
        bias = stored.take("decoder_ff_logit_out_b", (1, rows[1]))[0]
    scaled = "Wpos" not in stored and not config.boolean(NO_POSITIONS)
    more = torch.zeros(2, d)
    source, target, output = (torch.cat([table, more]) for table in (source, target, output))
    return EmbeddingTables(source, target, output, scaled, torch.cat([bias, torch.full((2,), BLOCKED_LOGIT)]))


def output_matrix(stored: SourceCheckpoint, rows: int, d: int) -> Tensor:
    """The matrix of the output layer, which old versions of Marian did not transpose."""
    if "decoder_ff_logit_out_W" in stored:
        return stored.take("decoder_ff_logit_out_W", (d, rows)).T
    return stored.take("decoder_ff_logit_out_Wt", (rows, d))


def recognizes(path: Path) -> bool:
    """Whether a path is a model file of Marian, or a directory that has one."""
    return is_marian_file(path) or (path.is_dir() and any(map(is_marian_file, path.iterdir())))


MARIAN_FILES: Final = Importer(
    TOOLKIT,
    "a Marian model (*.npz, *.bin, with its vocabularies)",
    options=("tokenizer", "target_tokenizer", "vocabulary", "one_target"),
    recognizes=recognizes,
    read=read_marian_model,
)
