"""Checkpoints as fairseq writes them, with weights by chance; written out by hand, without fairseq."""

from __future__ import annotations

from argparse import Namespace
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

D, HEADS, INNER, LAYERS = 24, 3, (31, 41), (3, 2)
CODES = "#version: 0.2\ne r</w>\nt h\nth e</w>\nl e\no w\nl ow\nl o\nw er</w>\nn e\nne w\nd e\nde r</w>\n"
WORDS = ["the", "lower", "newer", "lowest", "tower", "der", "neue", "Turm", "ist", "alt"]
SOURCE = ["the", "lower", "low@@", "ne@@", "er", "e@@", "s@@", "t", "to@@", "w@@", "wer", "o@@", "n@@", "l@@", "a"]
TARGET = ["der", "ne@@", "u@@", "e", "T@@", "u@@x", "r@@", "m", "i@@", "s@@", "t", "a@@", "l@@", "madeupword0000"]


def dictionaries(joined: bool) -> tuple[list[str], list[str]]:
    both = [*dict.fromkeys([*SOURCE, *TARGET])]
    return (both, both) if joined else (SOURCE, TARGET)


def tensors(sizes: tuple[int, int], settings: dict[str, Any], seed: int = 3) -> dict[str, Tensor]:
    """Under the names of fairseq 0.12."""
    draw = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw) * 0.3

    found: dict[str, Tensor] = {}
    for side, size, layers, inner in zip(("encoder", "decoder"), sizes, LAYERS, INNER, strict=True):
        found[f"{side}.version"] = torch.tensor([3.0])
        found[f"{side}.embed_tokens.weight"] = some(size, D)
        if settings.get(f"{side}_learned_pos"):
            found[f"{side}.embed_positions.weight"] = some(settings[f"max_{SIDES[side]}_positions"] + 2, D)
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            uses = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
            matrices = {f"{use}.{part}_proj": (D, D) for use in uses for part in ("k", "v", "q", "out")}
            for name, shape in {**matrices, "fc1": (inner, D), "fc2": (D, inner)}.items():
                found |= {f"{layer}.{name}.weight": some(*shape), f"{layer}.{name}.bias": some(shape[0])}
            for name in (*(f"{use}_layer_norm" for use in uses), "final_layer_norm"):
                found |= {f"{layer}.{name}.weight": 1 + some(D), f"{layer}.{name}.bias": some(D)}
            if side == "encoder":  # what a quicker path of 0.12 keeps beside, and training leaves at zero
                found |= {f"{layer}.in_proj_weight": torch.zeros(3 * D, D), f"{layer}.fc1_bias": torch.zeros(inner)}
        if settings.get("encoder_normalize_before"):
            found |= {f"{side}.layer_norm.weight": 1 + some(D), f"{side}.layer_norm.bias": some(D)}
    if settings.get("share_all_embeddings"):
        found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"]
    tied = settings.get("share_all_embeddings") or settings.get("share_decoder_input_output_embed")
    found["decoder.output_projection.weight"] = found["decoder.embed_tokens.weight"] if tied else some(sizes[1], D)
    return found


SIDES = {"encoder": "source", "decoder": "target"}


def old_names(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same under the names of fairseq before 0.9."""
    old: dict[str, Tensor] = {}
    for name, tensor in found.items():
        if ".q_proj." in name:
            parts = [found[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            old[name.replace(".q_proj.", ".in_proj_")] = torch.cat(parts)
        elif ".k_proj." in name or ".v_proj." in name or name.endswith(("in_proj_weight", "fc1_bias")):
            continue
        elif "_layer_norm." in name:
            head, _, rest = name.rpartition(".layers.")
            number, which, kind = rest.split(".")
            numbers = ["self_attn_layer_norm", *(["encoder_attn_layer_norm"] if head == "decoder" else [])]
            place = [*numbers, "final_layer_norm"].index(which)
            old[f"{head}.layers.{number}.layer_norms.{place}.{kind}"] = tensor
        else:
            old["decoder.embed_out" if name == "decoder.output_projection.weight" else name] = tensor
    return old


def write_fairseq(directory: Path, *, form: str = "namespace", joined: bool = False, **changes: Any) -> Path:
    """A checkpoint with its dictionaries; `form` is how the settings lie in it."""
    directory.mkdir(parents=True)
    names = dictionaries(joined)
    for language, side in zip(("en", "de"), names, strict=True):
        lines = "".join(f"{name} {100 - i}\n" for i, name in enumerate(side))
        (directory / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
    (directory / "codes").write_text(CODES, encoding="utf-8")
    settings = {
        "arch": "transformer_iwslt_de_en", "activation_fn": "relu", "dropout": 0.3, "max_source_positions": 50,
        "max_target_positions": 60, "share_all_embeddings": joined, "adaptive_softmax_cutoff": None,
        **{f"{side}_embed_dim": D for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")},
        "encoder_layers": LAYERS[0], "decoder_layers": LAYERS[1], "encoder_ffn_embed_dim": INNER[0],
        "decoder_ffn_embed_dim": INNER[1], "encoder_normalize_before": False, "decoder_normalize_before": False,
        **changes,
    }  # fmt: skip
    task = {"source_lang": "en", "target_lang": "de"}
    found = tensors((len(names[0]) + 4, len(names[1]) + 4), settings)
    saved: dict[str, Any] = {"extra_state": {"epoch": 3, "best": np.float64(2.5)}, "optimizer_history": [OrderedDict()]}
    match form:
        case "namespace":  # fairseq 0.10 on
            saved |= {"args": None, "cfg": {"model": Namespace(**settings), "task": {"_name": "translation", **task}}}
        case "parts":  # and by hydra
            flat = {
                key: value for key, value in settings.items() if key.partition("_")[0] not in ("encoder", "decoder")
            }
            sides = {
                side: {key.removeprefix(f"{side}_"): v for key, v in settings.items() if key.startswith(f"{side}_")}
                for side in ("encoder", "decoder")
            }
            saved["cfg"] = {
                "model": {**flat, "_name": "transformer", **sides},
                "task": {"_name": "translation", **task},
            }
            del saved["cfg"]["model"]["arch"]
        case "old":
            saved["args"], found = Namespace(task="translation", **settings, **task), old_names(found)
    torch.save({**saved, "model": found}, directory / "checkpoint_best.pt")
    return directory / "checkpoint_best.pt"
