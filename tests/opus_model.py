"""Directories as Hugging Face writes Marian's models, with weights by chance; written by hand, without its library."""

from __future__ import annotations

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

from dragoman.demo.corpus import pairs

D, HEADS, INNER, LAYERS = 32, 4, (43, 37), (2, 3)
LANGUAGES = ("fra", "zho_Hans", "deu")
UNUSUAL = [
    "ﬁne ½ cup of m² … “quoted” — ① ｆｕｌｌ ｗｉｄｔｈ",
    "  two   spaces\tand a tab ",
    "naïve café ☃☃ 日本語 😀",
    "soft\u00adhyphen, zero\u200bwidth, \ufeffmark and no\u00a0break",
]


@cache
def lines(side: int, n: int = 400) -> tuple[str, ...]:
    """Lines of the embedded corpus, English or German."""
    return tuple(pair[side] for pair in pairs(n, split="train"))


@cache
def sentence_tokens(side: int, kind: str, size: int) -> bytes:
    """A sentencepiece model with the normalization that Opus-MT has."""
    written = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines(side)), model_writer=written, vocab_size=size, model_type=kind, minloglevel=2,
        normalization_rule_name="nmt_nfkc", hard_vocab_limit=False, pad_id=-1, bos_id=-1, eos_id=0, unk_id=1,
    )  # fmt: skip
    return written.getvalue()


def tokens_of(model: bytes) -> list[str]:
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.id_to_piece(i) for i in range(2, len(processor))]  # without the EOS token and the unknown


def tensors(config: dict[str, Any], seed: int = 5) -> dict[str, Tensor]:
    """The tensors of a model of these settings under Hugging Face's names, so that what it writes is no constant."""
    draw = torch.Generator().manual_seed(seed)

    def some(*shape: int, scale: float = 0.25) -> Tensor:
        return torch.randn(*shape, generator=draw) * scale

    d, sizes = config["d_model"], (config["vocab_size"], config["decoder_vocab_size"])
    shared = config["share_encoder_decoder_embeddings"]
    found = {"final_logits_bias": some(1, sizes[1], scale=0.1)}
    found["final_logits_bias"][0, config["eos_token_id"]] += 2.5
    names = (
        [("shared", sizes[0])] if shared else [("encoder.embed_tokens", sizes[0]), ("decoder.embed_tokens", sizes[1])]
    )
    found |= {f"model.{name}.weight": some(size, d) for name, size in names}
    if not config["tie_word_embeddings"]:  # three tables then
        found = {name: w for name, w in found.items() if "shared" not in name}
        tables = {"model.encoder.embed_tokens": sizes[0], "model.decoder.embed_tokens": sizes[1], "lm_head": sizes[1]}
        found |= {f"{name}.weight": some(size, d) for name, size in tables.items()}
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        inner = config[f"{side}_ffn_dim"]
        for layer in (f"model.{side}.layers.{i}" for i in range(config[f"{side}_layers"])):
            matrices = {f"{one}.{part}_proj": (d, d) for one in attentions for part in ("q", "k", "v", "out")}
            for name, shape in {**matrices, "fc1": (inner, d), "fc2": (d, inner)}.items():
                scale = 0.1 if name.endswith(("out_proj", "fc2")) else 0.3
                found[f"{layer}.{name}.weight"] = some(*shape, scale=scale)
                found[f"{layer}.{name}.bias"] = some(shape[0], scale=0.03)
            for name in (*(f"{one}_layer_norm" for one in attentions), "final_layer_norm"):
                found |= {f"{layer}.{name}.weight": some(d, scale=1.0), f"{layer}.{name}.bias": some(d, scale=0.03)}
    return found


def write_opus(
    directory: Path,
    *,
    kind: str = "unigram",
    languages: tuple[str, ...] = (),
    separate: bool = False,
    binary: bool = False,
    **changes: Any,
) -> Path:
    """A whole directory; `changes` are keys of its config.json."""
    directory.mkdir(parents=True)
    models = [sentence_tokens(side, kind, size) for side, size in ((0, 230), (1, 260))]
    own = [tokens_of(model) for model in models]
    codes = [f">>{code}<<" for code in languages]
    both = sorted({*own[0], *own[1]})
    names = [["</s>", "<unk>", *codes, *(side if separate else both), "<pad>"] for side in own]
    if separate:  # special tokens have the same ids on both sides
        most = max(map(len, names))
        names = [[*side[:-1], *(f"<more {i}>" for i in range(most - len(side))), "<pad>"] for side in names]
    for name, model in zip(("source", "target"), models, strict=True):
        (directory / f"{name}.spm").write_bytes(model)
    for name, side in zip(("vocab.json", "target_vocab.json"), names[: 2 if separate else 1], strict=False):
        (directory / name).write_text(json.dumps({token: i for i, token in enumerate(side)}), encoding="utf-8")
    told = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate, "tokenizer_class": "MarianTokenizer"}
    told |= {"target_vocab_file": "target_vocab.json"} if separate else {}
    (directory / "tokenizer_config.json").write_text(json.dumps(told))
    pad = len(names[0]) - 1
    config = {
        "model_type": "marian", "architectures": ["MarianMTModel"], "is_encoder_decoder": True, "d_model": D,
        "encoder_layers": LAYERS[0], "decoder_layers": LAYERS[1], "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER[0], "decoder_ffn_dim": INNER[1], "dropout": 0.1,
        "attention_dropout": 0.0, "activation_dropout": 0.0, "activation_function": "swish", "scale_embedding": True,
        "max_position_embeddings": 64, "vocab_size": pad + 1, "decoder_vocab_size": pad + 1, "pad_token_id": pad,
        "eos_token_id": 0, "forced_eos_token_id": 0, "decoder_start_token_id": pad, "tie_word_embeddings": True,
        "share_encoder_decoder_embeddings": not separate, "bad_words_ids": [[pad]], "num_beams": 4, **changes,
    }  # fmt: skip
    (directory / "config.json").write_text(json.dumps(config))
    if binary:
        torch.save(tensors(config), directory / "pytorch_model.bin")
    else:
        save_file(tensors(config), directory / "model.safetensors", {"format": "pt"})
    return directory
