"""fairseq's Transformers for translation: a checkpoint, and dict.xx.txt for each language."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.conversion.from_marian import DECODER, ENCODER  # fairseq's names, which Marian's came from
from dragoman.conversion.imported_model import Foreign, model_recipe
from dragoman.conversion.layer_names import Layers, Stream, Tables
from dragoman.conversion.options import Asked
from dragoman.conversion.source_checkpoint import Settings, Theirs, read_bytes
from dragoman.conversion.subword_model import both_cuts, notes_of
from dragoman.conversion.vocabulary import Arranged, Marks, arranged
from dragoman.errors import ConversionError

TOOLKIT: Final = "fairseq"
MARKS: Final = ("<s>", "<pad>", "</s>", "<unk>")
MOST_PLACES: Final = 4096  # for which sines are written down
BOS, PAD, EOS, UNK = range(4)
ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "swish": "silu", "tanh": "tanh"}
ARCHITECTURES: Final = (
    *("transformer", "transformer_tiny", "transformer_iwslt_de_en", "transformer_wmt_en_de"),
    *("transformer_vaswani_wmt_en_de_big", "transformer_vaswani_wmt_en_fr_big"),
    *("transformer_wmt_en_de_big", "transformer_wmt_en_de_big_t2t"),
)
OTHERWISE: Final = {
    "adaptive_softmax_cutoff": (None, "an adaptive softmax"),
    "adaptive_input": (False, "adaptive embeddings"),
    "layernorm_embedding": (False, "a norm of the embeddings"),
    "no_cross_attention": (False, "a decoder without attention to the source"),
    "cross_self_attention": (False, "attention to the source and to the past in one"),
    "char_inputs": (False, "characters for input"),
    "no_decoder_final_norm": (False, "a decoder without a norm after its last layer"),
    "base_layers": (0, "layers of experts"),
    "quant_noise_pq": (0, "a matrix more after the embeddings"),
    "encoder_layers_to_keep": (None, "layers that are left out"),
    "decoder_layers_to_keep": (None, "layers that are left out"),
    "max_relative_length": (-1, "relative positions"),
    "use_relative_positions": (False, "relative positions"),
    "encoder_xformers_att_config": (None, "another kind of attention"),
    "decoder_xformers_att_config": (None, "another kind of attention"),
}
COPIES: Final = (
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"  # of a layer's own, for a quicker path
)
SILENT: Final = (  # tensors that are no weights
    "encoder.version", "decoder.version", "encoder.embed_positions._float_tensor",
    "decoder.embed_positions._float_tensor",
)  # fmt: skip


def is_fairseq(found: Any) -> bool:
    """Whether a checkpoint is one of fairseq's."""
    return isinstance(found, Mapping) and "model" in found and ("cfg" in found or "args" in found)


def read_fairseq(path: Path, found: Mapping[str, Any], asked: Asked) -> Foreign:
    """The model of a checkpoint that was read from `path`."""
    settings, task = Settings(settings_of(found, path), path), Settings(task_of(found), path)
    check_kind(settings, task)
    for name, (usual, what) in OTHERWISE.items():
        settings.refuse(name, usual, what)
    languages = [task.values.get(f"{side}_lang") for side in ("source", "target")]
    files = [dictionary_file(path, asked.vocabulary, language) for language in languages]
    sides = [side(read_dictionary(file)) for file in files]
    theirs = Theirs(renamed(found["model"], path), path)
    theirs.ignore(*SILENT)
    d = settings.same("encoder_embed_dim", "decoder_embed_dim")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        settings.refuse(name, d, "a matrix between embeddings and layers")
    tables = embeddings(theirs, settings, [len(arrangement.rows) for arrangement in sides], d)
    taken, told = tables.ours(sides[0], sides[1], Stream())
    sizes = [settings.whole(f"{side}_ffn_embed_dim", 2048) for side in ("encoder", "decoder")]
    pre = settings.flag("encoder_normalize_before")
    if pre != settings.flag("decoder_normalize_before"):
        raise ConversionError(
            f"{path} has its norms before the sub-layers of one side and after those of the other; models here have "
            "them alike",
            code="unsupported_setting",
        )
    places, told_places = positions(theirs, settings, d)
    recipe = model_recipe(
        path,
        d_model=d,
        n_heads=settings.same("encoder_attention_heads", "decoder_attention_heads"),
        d_ff=max(sizes),
        encoder_layers=settings.whole("encoder_layers", 6),
        decoder_layers=settings.whole("decoder_layers", 6),
        dropout=settings.share("dropout", 0.1),
        attention_dropout=settings.share("attention_dropout"),
        feed_forward_dropout=settings.share("activation_dropout"),
        activation=settings.word("activation_fn", ACTIVATIONS, "relu"),
        attention_bias=True,
        norm_order="pre" if pre else "post",
        **told_places,
        **told,
    )
    layers = Layers(theirs, recipe, Stream())
    for name, names, count, d_ff in (
        ("encoder", ENCODER, recipe.encoder_layers, sizes[0]), ("decoder", DECODER, recipe.decoder_layers, sizes[1])
    ):  # fmt: skip
        for i in range(count):
            layers.take(f"{name}.{i}", f"{name}.layers.{i}", names, d_ff)
        if pre:
            layers.norm(f"{name}_norm", f"{name}.layer_norm")
    theirs.refuse_rest()
    cuts = both_cuts(asked.tokenizer, asked.target_tokenizer)
    source, target = (
        arrangement.tokenizer(TOOLKIT, cut.cut, cut.model, "<unk>")
        for arrangement, cut in zip(sides, cuts, strict=True)
    )
    known = all(isinstance(language, str) for language in languages)
    return Foreign(
        TOOLKIT,
        recipe,
        source,
        target,
        {**taken, **places, **layers.weights},
        [path, *dict.fromkeys(files), *dict.fromkeys(cut.file for cut in cuts if cut.file is not None)],
        longest=settings.whole("max_source_positions", 1024, 2) - 1,
        languages=(str(languages[0]), str(languages[1])) if known else None,
        notes=notes_of(*cuts),
    )


def plain(found: Any) -> dict[str, Any]:
    """Settings as a table, whether they were a table or a namespace."""
    if isinstance(found, Namespace):
        return dict(vars(found))
    return dict(found) if isinstance(found, Mapping) else {}


def settings_of(found: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The model's settings: all in one table before fairseq 0.10, and later in a part of one, which may have parts."""
    whole = plain(found.get("cfg"))
    told = plain(whole["model"]) if whole.get("model") is not None else plain(found.get("args"))
    if not told:
        raise ConversionError(
            f"{path} says nothing of its model, neither in cfg nor in args; expected fairseq's own file",
            code="file_damaged",
        )
    flat = dict(told)
    for part in ("encoder", "decoder", "quant_noise"):
        if isinstance(told.get(part), Mapping | Namespace):
            flat |= {f"{part}_{name}": value for name, value in plain(flat.pop(part)).items()}
    return flat


def task_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the model was trained to do, and between which languages."""
    whole = plain(found.get("cfg"))
    return plain(whole["task"]) if whole.get("task") is not None else plain(found.get("args"))


def check_kind(settings: Settings, task: Settings) -> None:
    """Refuse other models and other tasks than translation."""
    name = settings.values.get("arch") or settings.values.get("_name")
    if name not in ARCHITECTURES:
        raise ConversionError(
            f"{settings.where} has arch={name!r}; these fairseq models can be imported: {', '.join(ARCHITECTURES)}",
            code="unsupported_model",
        )
    doing = task.values.get("_name") or task.values.get("task")
    if doing != "translation":
        raise ConversionError(
            f"{settings.where} was trained with task={doing!r}; of fairseq's tasks 'translation' can be imported: "
            "others put marks into the text that are not known here",
            code="unsupported_model",
        )


def dictionary_file(path: Path, place: Path | None, language: Any) -> Path:
    """dict.xx.txt, beside the checkpoint or where a person says."""
    where = place if place is not None else path.parent
    found = where / f"dict.{language}.txt"
    if not found.is_file():
        raise ConversionError(
            f"{found} is missing, in which fairseq has the tokens of {language!r}; give the directory that has it "
            "(that of the binarised data) with --vocabulary",
            code="file_missing",
        )
    return found


def read_dictionary(file: Path) -> list[str]:
    """The tokens of a dictionary in the order of their ids: the four marks, and a line for each."""
    try:
        lines = read_bytes(file).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConversionError(f"{file} is no UTF-8 ({error}); copy it again", code="not_utf8") from None
    names = list(MARKS)
    for number, line in enumerate(lines, start=1):
        name, _, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not count.isdecimal() or not name:
            raise ConversionError(
                f"{file}, line {number}: {line!r:.60}; expected a token and how often it occurs", code="file_damaged"
            )
        names.append(name)
    if len({*names}) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ConversionError(f"{file} has the token {twice!r} twice; each has one id", code="duplicate_token")
    return names


def side(names: list[str]) -> Arranged:
    """A dictionary in our order: the decoder starts with the end mark, and <s> is a token that nobody writes."""
    shown = ["<fairseq's s>" if i == BOS else name for i, name in enumerate(names)]
    return arranged(shown, Marks(PAD, EOS, EOS, UNK), silent=(BOS,))


def renamed(tensors: Any, path: Path) -> dict[str, Tensor]:
    """The tensors under the names of fairseq 0.12; older checkpoints have some in one token or under other names."""
    if not isinstance(tensors, Mapping) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ConversionError(
            f"{path} holds no tensors by name in its part 'model'; expected fairseq's own file", code="file_damaged"
        )
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        before, joined, kind = name.partition(".in_proj_")
        head, norm, number = name.partition(".layer_norms.")
        if re.fullmatch(COPIES, name):
            continue
        if joined:
            parts = tensor.chunk(3)
            found |= {f"{before}.{of}_proj.{kind}": part for of, part in zip("qkv", parts, strict=True)}
        elif norm:
            of = norms.get(head.partition(".")[0], ())
            i, _, ending = number.partition(".")
            found[f"{head}.{of[int(i)]}.{ending}" if i.isdecimal() and int(i) < len(of) else name] = tensor
        else:
            found["decoder.output_projection.weight" if name == "decoder.embed_out" else name] = tensor
    return found


def embeddings(theirs: Theirs, settings: Settings, sizes: list[int], d: int) -> Tables:
    """The tables; `sizes` count our start mark, which fairseq has not."""
    source = theirs.take("encoder.embed_tokens.weight", (sizes[0] - 1, d))
    target = theirs.take("decoder.embed_tokens.weight", (sizes[1] - 1, d))
    shared = settings.flag("share_all_embeddings") or settings.flag("share_decoder_input_output_embed")
    output = target
    if "decoder.output_projection.weight" in theirs:
        output = theirs.take("decoder.output_projection.weight", (sizes[1] - 1, d))
    elif not shared:
        raise ConversionError(
            f"{theirs.where} has no tensor decoder.output_projection.weight, and does not share it",
            code="tensor_missing",
        )
    return Tables(source, target, output, not settings.flag("no_scale_embedding"))


def positions(theirs: Theirs, settings: Settings, d: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The position codes as tables: fairseq's sines have other frequencies than the paper's, and begin later."""
    if settings.flag("no_token_positional_embeddings"):
        return {}, {"positions": "none"}
    most = [settings.whole(f"max_{side}_positions", 1024, 2) for side in ("source", "target")]
    tables = []
    for name, count in zip(("encoder", "decoder"), most, strict=True):
        if settings.flag(f"{name}_learned_pos"):
            tables.append(theirs.take(f"{name}.embed_positions.weight", (count + PAD + 1, d))[PAD + 1 :])
        else:
            tables.append(sines(min(max(most), MOST_PLACES), d))
    least = min(map(len, tables))
    weights = {f"{name}_positions.table": t[:least] for name, t in zip(("source", "target"), tables, strict=True)}
    return weights, {"positions": "learned", "max_positions": least}


def sines(count: int, d: int) -> Tensor:
    """All sines and then all cosines, of frequencies from 1 to 1/10000, both ends included; positions from 2 on."""
    half = d // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(PAD + 1, PAD + 1 + count, dtype=torch.float)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos(), torch.zeros(count, d % 2)], 1)
