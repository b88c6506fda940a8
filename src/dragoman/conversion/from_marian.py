"""Marian models in Hugging Face's form, as Opus-MT publishes them: a directory with config.json and source.spm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.config.sections import LANGUAGE_CODE, MAX_LANGUAGE_CODE
from dragoman.conversion.checkpoint_files import read_pickle, read_safetensors
from dragoman.conversion.imported_model import Foreign, model_recipe
from dragoman.conversion.layer_names import ACTIVATIONS, LayerNames, Layers, Stream, Tables, sines_first
from dragoman.conversion.source_checkpoint import Settings, Theirs, read_bytes, read_json
from dragoman.conversion.vocabulary import Arranged, Marks, arranged
from dragoman.errors import ConversionError
from dragoman.nn import sinusoid
from dragoman.text.imported.segmentation import encode_model, load_segmenter

TOOLKIT: Final = "Marian (Hugging Face)"
MOST_MORE: Final = 10_000  # rows of a table beyond the vocabulary
WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")
ENCODER: Final = LayerNames(
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.out_proj",
    attention_norm="self_attn_layer_norm",
    inner="fc1",
    outer="fc2",
    feed_forward_norm="final_layer_norm",
)
DECODER: Final = LayerNames(
    qkv=ENCODER.qkv,
    output=ENCODER.output,
    attention_norm=ENCODER.attention_norm,
    inner=ENCODER.inner,
    outer=ENCODER.outer,
    feed_forward_norm=ENCODER.feed_forward_norm,
    cross_query="encoder_attn.q_proj",
    cross_key_value=("encoder_attn.k_proj", "encoder_attn.v_proj"),
    cross_output="encoder_attn.out_proj",
    cross_norm="encoder_attn_layer_norm",
)
OTHERWISE: Final = {  # settings that older converters wrote; the one value is what their model then computes
    "normalize_before": (False, "a norm before each sub-layer"),
    "normalize_embedding": (False, "a norm of the embeddings"),
    "add_final_layer_norm": (False, "a norm after the last layer"),
    "static_position_embeddings": (True, "learned positions"),
    "is_encoder_decoder": (True, "a decoder alone"),
}


def is_marian(path: Path) -> bool:
    """Whether a directory is one of Hugging Face's."""
    return path.is_dir() and (path / "config.json").is_file()


def read_marian(path: Path, one_target: bool = False) -> Foreign:
    """The model of such a directory; `one_target` leaves tokens such as >>fra<<, if there are any, what they are."""
    config = Settings(read_json(path / "config.json"), path / "config.json")
    if (kind := config.values.get("model_type")) != "marian":
        raise ConversionError(
            f"{config.where} is of model_type {kind!r}; of Hugging Face's models, those of Marian (Opus-MT) can be "
            "imported: model_type 'marian'",
            code="unsupported_model",
        )
    for name, (usual, what) in OTHERWISE.items():
        config.refuse(name, usual, what)
    weights = next((path / name for name in WEIGHTS if (path / name).is_file()), None)
    if weights is None:
        raise ConversionError(f"{path} has neither {' nor '.join(WEIGHTS)}; copy the whole model", code="file_missing")
    text = Text(path, config, one_target)
    tensors = read_safetensors(weights) if weights.suffix == ".safetensors" else read_pickle(weights)
    theirs = Theirs(tensors_of(tensors, weights), weights)
    d, positions = config.whole("d_model"), config.whole("max_position_embeddings", 1024, 2)
    sizes = [config.whole(f"{side}_ffn_dim") for side in ("encoder", "decoder")]
    bias = theirs.take("final_logits_bias", (1, text.sizes[1]))[0] if "final_logits_bias" in theirs else None
    tables = Tables(*embeddings(theirs, config, text.sizes, d), config.flag("scale_embedding"), bias)
    stream = Stream(sines_first(d))  # after tables of that width were found
    taken, told = tables.ours(text.source, text.target, stream)
    recipe = model_recipe(
        config.where,
        d_model=d,
        n_heads=config.same("encoder_attention_heads", "decoder_attention_heads"),
        d_ff=max(sizes),
        encoder_layers=config.whole("encoder_layers"),
        decoder_layers=config.whole("decoder_layers"),
        dropout=config.share("dropout", 0.1),
        attention_dropout=config.share("attention_dropout"),
        feed_forward_dropout=config.share("activation_dropout"),
        activation=config.word("activation_function", ACTIVATIONS, "gelu"),
        attention_bias=True,
        **told,
    )
    layers = Layers(theirs, recipe, stream)
    for side, names, count, d_ff in (
        ("encoder", ENCODER, recipe.encoder_layers, sizes[0]), ("decoder", DECODER, recipe.decoder_layers, sizes[1])
    ):  # fmt: skip
        check_positions(theirs, f"model.{side}.embed_positions.weight", positions, d)
        for i in range(count):
            layers.take(f"{side}.{i}", f"model.{side}.layers.{i}", names, d_ff)
    theirs.refuse_rest()
    return Foreign(
        TOOLKIT,
        recipe,
        text.source.tokenizer(TOOLKIT, "sentencepiece", text.models[0]),
        text.target.tokenizer(TOOLKIT, "sentencepiece", text.models[1]),
        {**taken, **layers.weights},
        [weights, path / "config.json", *text.files],
        longest=positions - 1,  # the end mark has a position too
        languages=text.languages,
    )


def tensors_of(found: Any, path: Path) -> dict[str, Tensor]:
    """Tensors by name, refused where a file holds something else."""
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise ConversionError(
            f"{path} holds no tensors by name; expected the weights that save_pretrained writes", code="file_damaged"
        )
    return found


def embeddings(theirs: Theirs, config: Settings, sizes: Sequence[int], d: int) -> tuple[Tensor, Tensor, Tensor]:
    """The tables of the source, of the target and of the projection; those that are one are stored once or more."""
    shared = config.flag("share_encoder_decoder_embeddings", True)
    both = ("model.shared.weight",) if shared else ()
    source, target = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    if shared and sizes[0] != sizes[1]:
        raise ConversionError(
            f"{config.where} shares the embeddings of both sides, but the source has {sizes[0]} tokens and the target "
            f"{sizes[1]}",
            code="vocabulary_mismatch",
        )
    tied = config.flag("tie_word_embeddings", True)
    of_source = theirs.first((source, *both), (sizes[0], d))
    of_target = theirs.first((target, *both, *(("lm_head.weight",) if tied else ())), (sizes[1], d))
    return of_source, of_target, of_target if tied else theirs.take("lm_head.weight", (sizes[1], d))


def check_positions(theirs: Theirs, name: str, positions: int, d: int) -> None:
    """Positions are computed, and older files hold them too, perhaps rounded; refuse those that are something else."""
    if name not in theirs:
        return
    found, order = theirs.take(name, (positions, d)), torch.tensor(sines_first(d))
    if not torch.allclose(found[:, order], sinusoid(torch.arange(positions), d), atol=5e-3):
        raise ConversionError(
            f"{theirs.where} has positions in {name} that are not the sines and cosines of Marian's models; learned "
            "ones cannot be imported from this kind of file",
            code="unsupported_setting",
        )


class Text:
    """The text side of such a directory: two sentencepiece models, and one vocabulary or two."""

    def __init__(self, path: Path, config: Settings, one_target: bool) -> None:
        about = path / "tokenizer_config.json"
        told = read_json(about) if about.is_file() else {}
        separate = bool(told.get("separate_vocabs", False))
        self.files = [path / "source.spm", path / "target.spm", path / "vocab.json"]
        self.files += [path / "target_vocab.json"] if separate else []
        self.models = [encode_model(read_bytes(file)) for file in self.files[:2]]
        for file, model in zip(self.files, self.models, strict=False):
            try:
                load_segmenter("sentencepiece", model)
            except ValueError as error:
                raise ConversionError(f"{file}: {error}; copy it again", code="not_a_tokenizer") from None
        rows = config.whole("vocab_size"), config.whole("decoder_vocab_size", config.whole("vocab_size"))
        self.sizes = rows if separate or not config.flag("share_encoder_decoder_embeddings", True) else (rows[0],) * 2
        vocabularies = [named(file, size) for file, size in zip(self.files[2:], self.sizes, strict=False)]
        words = [word(told, f"{mark}_token", usual) for mark, usual in
                 (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))]  # fmt: skip
        of_config = [one_id(config, f"{mark}_token_id") for mark in ("pad", "eos")]
        start = config.whole("decoder_start_token_id", of_config[0], 0)
        sides: list[Arranged] = []
        for file, names, size in zip(self.files[2:], vocabularies, self.sizes, strict=False):
            pad, eos, unk = (id_of(file, names, mark) for mark in words)
            if file is self.files[-1] and (pad, eos) != tuple(of_config):
                raise ConversionError(
                    f"{file} has {words[0]} and {words[1]} as {pad} and {eos}, but {config.where} says "
                    f"{of_config[0]} and {of_config[1]}; the two are not of one model",
                    code="vocabulary_mismatch",
                )
            first = start if file is self.files[-1] else pad
            if first >= size:
                raise ConversionError(
                    f"{config.where} has decoder_start_token_id={first}, but {size} tokens", code="vocabulary_mismatch"
                )
            languages = codes(names) if file is self.files[2] and not one_target else {}
            sides.append(arranged(filled(names, size), Marks(pad, first, eos, unk), languages, range(len(names), size)))
        self.source, self.target = sides[0], sides[-1]
        codes_here = ", ".join(self.source.languages)
        pair = [told.get("source_lang"), codes_here or told.get("target_lang")]
        known = all(
            isinstance(code, str) and re.fullmatch(rf"{LANGUAGE_CODE}(, {LANGUAGE_CODE})*", code) for code in pair
        )
        self.languages = (str(pair[0]), str(pair[1])) if known else None


def named(file: Path, size: int) -> list[str]:
    """The tokens of a vocabulary in the order of their ids, of which there must be a row for each."""
    table = read_json(file)
    if not all(type(number) is int for number in table.values()):
        raise ConversionError(f"{file} does not give each token a number; copy it again", code="file_damaged")
    names = sorted(table, key=table.__getitem__)
    if [table[name] for name in names] != list(range(len(names))):
        raise ConversionError(f"{file} does not number its tokens 0, 1, 2, ...; copy it again", code="file_damaged")
    if not len(names) <= size <= len(names) + MOST_MORE:
        raise ConversionError(
            f"{file} has {len(names):,} tokens, but config.json says {size:,}; the two are not of one model",
            code="vocabulary_mismatch",
        )
    return names


def filled(names: Sequence[str], size: int) -> list[str]:
    """A name for each row; rows beyond the vocabulary, if there are any, have their number."""
    return [*names, *(f"<row {number}>" for number in range(len(names), size))]


def word(told: dict[str, Any], key: str, usual: str) -> str:
    """The name of a mark; newer files keep it in a table."""
    found = told.get(key, usual)
    found = found.get("content", usual) if isinstance(found, dict) else found
    return found if isinstance(found, str) else usual


def id_of(file: Path, names: list[str], mark: str) -> int:
    """The id of a mark."""
    if mark not in names:
        raise ConversionError(
            f"{file} has no token {mark!r}, which a model needs; copy the whole model", code="unknown_token"
        )
    return names.index(mark)


def one_id(config: Settings, name: str) -> int:
    """A single id; lists of one are taken."""
    found = config.values.get(name)
    if isinstance(found, list) and len(found) == 1:
        return Settings({name: found[0]}, config.where).whole(name, None, 0)
    return config.whole(name, None, 0)


def codes(names: Sequence[str]) -> dict[str, int]:
    """The tokens of target languages, such as >>fra<<, by their codes."""
    found = {name[2:-2]: i for i, name in enumerate(names) if name.startswith(">>") and name.endswith("<<")}
    return {
        code: i for code, i in found.items() if len(code) <= MAX_LANGUAGE_CODE and re.fullmatch(LANGUAGE_CODE, code)
    }
