"""Import fairseq translation Transformers: a checkpoint, and a dict.xx.txt for each language."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.conversion.fairseq_dictionary import PAD, dictionary_file, map_dictionary, read_dictionary
from dragoman.conversion.files.pickle_objects import Opaque
from dragoman.conversion.files.torch_file import TorchFile
from dragoman.conversion.from_marian import MARIAN_DECODER, MARIAN_ENCODER  # Hugging Face took fairseq's names
from dragoman.conversion.imported_model import ImportedModel, Importer, ImportOptions, language_pair, model_recipe
from dragoman.conversion.layer_names import EmbeddingTables, FeatureOrder, LayerConverter
from dragoman.conversion.source_checkpoint import (
    DamagedSourceError,
    SourceCheckpoint,
    SourceSettings,
    UnsupportedSettingError,
    choose_checkpoint,
)
from dragoman.conversion.subword_model import read_subword_models, tokenization_notes
from dragoman.errors import ConversionError
from dragoman.values import render_value

TOOLKIT: Final = "fairseq"
FAIRSEQ_CHECKPOINTS: Final = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
FAIRSEQ_POSITIONS: Final = 4096  # the most positions for which sinusoids are stored
ORDINALS: Final = ("0", "1", "2")
FAIRSEQ_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "swish": "silu", "tanh": "tanh"}
ARCHITECTURES: Final = (
    *("transformer", "transformer_tiny", "transformer_iwslt_de_en", "transformer_wmt_en_de"),
    *("transformer_vaswani_wmt_en_de_big", "transformer_vaswani_wmt_en_fr_big"),
    *("transformer_wmt_en_de_big", "transformer_wmt_en_de_big_t2t"),
)
FAIRSEQ_REQUIRED_SETTINGS: Final = {
    "adaptive_softmax_cutoff": (None, "an adaptive softmax"),
    "adaptive_input": (False, "adaptive embeddings"),
    "layernorm_embedding": (False, "a layer norm after the embeddings"),
    "no_cross_attention": (False, "a decoder without cross-attention"),
    "cross_self_attention": (False, "combined self- and cross-attention"),
    "char_inputs": (False, "character inputs"),
    "no_decoder_final_norm": (False, "a decoder without a final layer norm"),
    "base_layers": (0, "mixture-of-experts layers"),
    "quant_noise_pq": (0, "an extra projection after the embeddings"),
    "encoder_layers_to_keep": (None, "pruned layers"),
    "decoder_layers_to_keep": (None, "pruned layers"),
    "max_relative_length": (-1, "relative positions"),
    "use_relative_positions": (False, "relative positions"),
    "encoder_xformers_att_config": (None, "xFormers attention"),
    "decoder_xformers_att_config": (None, "xFormers attention"),
}
DUPLICATE_TENSORS: Final = (
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"  # copies that a layer keeps for its fused path
)
IGNORED_TENSORS: Final = (  # not weights
    "encoder.version", "decoder.version", "encoder.embed_positions._float_tensor",
    "decoder.embed_positions._float_tensor",
)  # fmt: skip


def read_fairseq(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a checkpoint, or the checkpoint in a directory."""
    path = path if path.is_file() else choose_checkpoint(path, "*.pt", FAIRSEQ_CHECKPOINTS)
    file = TorchFile(path)
    found = check_fairseq(file.content, path)
    settings, task = SourceSettings(model_settings(found, path), path), SourceSettings(task_settings(found), path)
    check_architecture(settings, task)
    for name, (usual, what) in FAIRSEQ_REQUIRED_SETTINGS.items():
        settings.require(name, usual, what)
    languages = [task.values.get(f"{side}_lang") for side in ("source", "target")]
    files = [dictionary_file(path, options.vocabulary, language) for language in languages]
    sides = [map_dictionary(read_dictionary(file)) for file in files]
    stored = SourceCheckpoint(file.tensors(found["model"]), path, "fairseq checkpoints have in 'model'")
    stored.tensors = rename_tensors(stored.tensors)
    stored.ignore(*IGNORED_TENSORS)
    d = settings.shared_integer("encoder_embed_dim", "decoder_embed_dim")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        settings.require(name, d, "a projection between embeddings and layers")
    tables = fairseq_embeddings(stored, settings, [len(mapping.rows) for mapping in sides], d)
    embedding_weights, embedding_settings = tables.convert(sides[0], sides[1], FeatureOrder())
    sizes = [settings.integer(f"{side}_ffn_embed_dim", 2048) for side in ("encoder", "decoder")]
    pre = settings.boolean("encoder_normalize_before")
    if pre != settings.boolean("decoder_normalize_before"):
        raise UnsupportedSettingError(
            f"{path} has pre-norm on one side and post-norm on the other; both sides must have the same order"
        )
    position_tables, position_settings = fairseq_positions(stored, settings, d)
    recipe = model_recipe(
        path,
        d_model=d,
        n_heads=settings.shared_integer("encoder_attention_heads", "decoder_attention_heads"),
        d_ff=max(sizes),
        encoder_layers=settings.integer("encoder_layers", 6),
        decoder_layers=settings.integer("decoder_layers", 6),
        dropout=settings.probability("dropout", 0.1),
        attention_dropout=settings.probability("attention_dropout"),
        feed_forward_dropout=settings.probability("activation_dropout"),
        activation=settings.choice("activation_fn", FAIRSEQ_ACTIVATIONS, "relu"),
        attention_bias=True,
        norm_order="pre" if pre else "post",
        **position_settings,
        **embedding_settings,
    )
    layers = LayerConverter(stored, recipe, FeatureOrder())
    layers.take_layers("", MARIAN_ENCODER, MARIAN_DECODER, sizes)
    stored.check_all_taken()
    subword_models = read_subword_models(options.tokenizer, options.target_tokenizer)
    source, target = (
        mapping.tokenizer(TOOLKIT, subword.kind, subword.model, "<unk>")
        for mapping, subword in zip(sides, subword_models, strict=True)
    )
    return ImportedModel(
        TOOLKIT,
        recipe,
        source,
        target,
        {**embedding_weights, **position_tables, **layers.weights},
        [path, *dict.fromkeys([*files, *(subword.file for subword in subword_models if subword.file is not None)])],
        longest=settings.integer("max_source_positions", 1024, 2) - 1,
        languages=language_pair(*languages),
        notes=tokenization_notes(*subword_models),
    )


def check_fairseq(found: Any, path: Path) -> Mapping[str, Any]:
    """Return the content of a fairseq checkpoint; reject checkpoints of other toolkits."""
    if isinstance(found, Mapping) and "model" in found and ("cfg" in found or "args" in found):
        return found
    if isinstance(found, Mapping) and {"opt", "vocab", "generator"} <= found.keys():
        raise ConversionError(
            f"{path} is an OpenNMT-py checkpoint, which cannot be imported: its encoder reads sources without EOS"
        )
    names = sorted(name for name in found if isinstance(name, str)) if isinstance(found, Mapping) else []
    held = f"; it has {', '.join(render_value(name)[1:-1] for name in names[:6])}" if names else ""
    raise ConversionError(
        f"{path} is not a fairseq checkpoint{held}; for a model of another toolkit, give its directory",
        code="not_a_model",
    )


def as_dict(found: Any) -> dict[str, Any]:
    """Convert a mapping, a Namespace or an OmegaConf DictConfig to a dictionary."""
    table = found.state.get("_content", found.state) if isinstance(found, Opaque) else found
    if not isinstance(table, Mapping):
        return {}
    return {
        name: value.state["_val"] if isinstance(value, Opaque) and "_val" in value.state else value
        for name, value in table.items()
        if isinstance(name, str)
    }


def model_settings(found: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the model's settings, flattened: fairseq 0.10 and later nest them, older versions do not."""
    config = as_dict(found.get("cfg"))
    settings = as_dict(config["model"]) if config.get("model") is not None else as_dict(found.get("args"))
    if not settings:
        raise DamagedSourceError(path, "has neither 'cfg' nor 'args', where fairseq checkpoints have their settings")
    flat = dict(settings)
    for part in ("encoder", "decoder", "quant_noise"):
        if isinstance(settings.get(part), Mapping | Opaque):
            flat |= {f"{part}_{name}": value for name, value in as_dict(flat.pop(part)).items()}
    return flat


def task_settings(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task settings, which name the languages."""
    config = as_dict(found.get("cfg"))
    return as_dict(config["task"]) if config.get("task") is not None else as_dict(found.get("args"))


def check_architecture(settings: SourceSettings, task: SourceSettings) -> None:
    """Reject unsupported architectures, and tasks other than translation."""
    name = settings.values.get("arch") or settings.values.get("_name")
    if name not in ARCHITECTURES:
        raise ConversionError(
            f"{settings.where} has arch={render_value(name)}, which cannot be imported; supported: "
            f"{', '.join(ARCHITECTURES)}"
        )
    doing = task.values.get("_name") or task.values.get("task")
    if doing != "translation":
        raise ConversionError(
            f"{settings.where} was trained with task={render_value(doing)}; only 'translation' can be imported, "
            "because other tasks add tokens to the text"
        )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors to the names of fairseq 0.12; older checkpoints fuse some, or name them differently."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        before, joined, kind = name.partition(".in_proj_")
        head, norm, number = name.partition(".layer_norms.")
        if re.fullmatch(DUPLICATE_TENSORS, name):
            continue
        if joined:
            if not tensor.ndim or len(tensor) % 3:
                raise ConversionError(
                    f"{render_value(name)} has shape {list(tensor.shape)}; expected queries, keys and values",
                    code="weights_mismatch",
                )
            parts = tensor.chunk(3)
            found |= {f"{before}.{of}_proj.{kind}": part for of, part in zip("qkv", parts, strict=True)}
        elif norm:
            of = norms.get(head.partition(".")[0], ())
            i, _, ending = number.partition(".")
            found[f"{head}.{of[int(i)]}.{ending}" if i in ORDINALS[: len(of)] else name] = tensor
        else:
            found["decoder.output_projection.weight" if name == "decoder.embed_out" else name] = tensor
    return found


def fairseq_embeddings(stored: SourceCheckpoint, settings: SourceSettings, sizes: list[int], d: int) -> EmbeddingTables:
    """Read the embedding tables; `sizes` include our BOS, which fairseq does not have."""
    source = stored.take("encoder.embed_tokens.weight", (sizes[0] - 1, d))
    target = stored.take("decoder.embed_tokens.weight", (sizes[1] - 1, d))
    shared = settings.boolean("share_all_embeddings") or settings.boolean("share_decoder_input_output_embed")
    output = target
    if "decoder.output_projection.weight" in stored:
        output = stored.take("decoder.output_projection.weight", (sizes[1] - 1, d))
    elif not shared:
        raise ConversionError(
            f"{stored.where} has no tensor decoder.output_projection.weight, but its embeddings are not shared",
            code="weights_mismatch",
        )
    return EmbeddingTables(source, target, output, not settings.boolean("no_scale_embedding"))


def fairseq_positions(
    stored: SourceCheckpoint, settings: SourceSettings, d: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return position codes as tables: fairseq's sinusoids differ from the paper's in frequencies and offset."""
    if settings.boolean("no_token_positional_embeddings"):
        return {}, {"positions": "none"}
    limits = [settings.integer(f"max_{side}_positions", 1024, 2) for side in ("source", "target")]
    tables = []
    for name, count in zip(("encoder", "decoder"), limits, strict=True):
        if settings.boolean(f"{name}_learned_pos"):
            tables.append(stored.take(f"{name}.embed_positions.weight", (count + PAD + 1, d))[PAD + 1 :])
        else:
            tables.append(sines(min(max(limits), FAIRSEQ_POSITIONS), d))
    shortest = min(map(len, tables))
    weights = {f"{name}_positions.table": t[:shortest] for name, t in zip(("source", "target"), tables, strict=True)}
    return weights, {"positions": "learned", "max_positions": shortest}


def sines(count: int, d: int) -> Tensor:
    """Compute fairseq's sinusoids: sines, then cosines, with frequencies 1 to 1/10000 inclusive, from position 2 on."""
    half = d // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(PAD + 1, PAD + 1 + count, dtype=torch.float)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos(), torch.zeros(count, d % 2)], 1)


FAIRSEQ: Final = Importer(
    TOOLKIT,
    "a fairseq checkpoint (*.pt)",
    options=("tokenizer", "target_tokenizer", "vocabulary"),
    recognizes=lambda path: path.is_file() or any(path.glob("*.pt")),
    read=read_fairseq,
)
