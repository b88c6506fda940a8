"""The models that train_cpu.py and train_gpu.py measure ours against, each built as its own library builds it.

Each maker gives a model and a function from a batch (source, target_in, target_out) to logits. Sizes are d_model,
heads, d_ff, layers, vocabulary. All have ReLU, tied embeddings and dropout 0.1, and post-norm but for eole and
OpenNMT-py, which are built with the pre-norm that they begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0
Batch = tuple[Tensor, Tensor, Tensor]
Sizes = tuple[int, int, int, int, int]
Made = tuple[nn.Module, Callable[[Batch], Tensor]]


def torch_transformer(sizes: Sizes) -> Made:
    d, h, ff, layers, vocabulary = sizes

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, d)
            nn.init.normal_(self.embedding.weight, std=d**-0.5)
            self.transformer = nn.Transformer(d, h, layers, layers, ff, 0.1, batch_first=True)
            angle = torch.arange(256)[:, None] / 10000 ** (torch.arange(0, d, 2)[None] / d)
            self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).view(256, d))

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            x, y = (
                F.dropout(self.embedding(ids) * d**0.5 + self.positions[: ids.shape[1]], 0.1, self.training)
                for ids in (source, target)
            )
            later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).triu(1)
            hidden = self.transformer(
                x, y, tgt_mask=later, src_key_padding_mask=source == PAD, tgt_key_padding_mask=target == PAD,
                memory_key_padding_mask=source == PAD,
            )  # fmt: skip
            return hidden @ self.embedding.weight.T

    model = Plain()
    return model, lambda batch: model(batch[0], batch[1])


def marian(sizes: Sizes) -> Made:
    from transformers import MarianConfig, MarianMTModel

    d, h, ff, layers, vocabulary = sizes
    config = MarianConfig(
        vocab_size=vocabulary, d_model=d, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=h,
        decoder_attention_heads=h, encoder_ffn_dim=ff, decoder_ffn_dim=ff, dropout=0.1, activation_function="relu",
        pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=1, max_position_embeddings=256, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel._from_config(config, attn_implementation="sdpa")

    def forward(batch: Batch) -> Tensor:
        mask = (batch[0] != PAD).long()
        return model(input_ids=batch[0], attention_mask=mask, decoder_input_ids=batch[1], use_cache=False).logits

    return model, forward


class _Tokens(list):
    """A vocabulary as JoeyNMT's models ask for it."""

    pad_index, bos_index, eos_index, unk_index = PAD, 1, 2, 3
    sep_index, specials, lang_tags = None, [], []


def joeynmt(sizes: Sizes) -> Made:
    from joeynmt.model import build_model

    d, h, ff, layers, vocabulary = sizes
    part: dict[str, Any] = {
        "type": "transformer", "num_layers": layers, "num_heads": h, "hidden_size": d, "ff_size": ff, "dropout": 0.1,
        "layer_norm": "post", "embeddings": {"embedding_dim": d, "scale": True, "dropout": 0.1},
    }  # fmt: skip
    tokens = _Tokens(range(vocabulary))
    config = {"encoder": part, "decoder": dict(part), "tied_embeddings": True, "tied_softmax": True}
    model = build_model(config, tokens, tokens)

    def forward(batch: Batch) -> Tensor:
        source, target = batch[0], batch[1]
        return model._encode_decode(
            src=source, trg_input=target, src_mask=(source != PAD)[:, None], src_length=(source != PAD).sum(-1),
            trg_mask=(target != PAD)[:, None],
        )[0]  # fmt: skip

    return model, forward


def eole(sizes: Sizes) -> Made:
    from eole.config.models import TransformerModelConfig
    from eole.models.model import EncoderDecoderModel

    d, h, ff, layers, vocabulary = sizes
    config = TransformerModelConfig(
        layers=layers, hidden_size=d, heads=h, transformer_ff=ff, mlp_activation_fn="relu", layer_norm="standard",
        embeddings={"word_vec_size": d, "position_encoding_type": "SinusoidalInterleaved"}, share_embeddings=True,
        share_decoder_embeddings=True,
    )  # fmt: skip
    running = SimpleNamespace(
        dropout=[0.1], attention_dropout=[0.0], self_attn_backend="pytorch", compute_dtype=torch.float32,
    )  # fmt: skip
    tokens = {str(i): i for i in range(vocabulary)}
    model = EncoderDecoderModel.build(config, {"src": tokens, "tgt": tokens, "specials": {"pad_token": "0"}}, running)
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)

    def forward(batch: Batch) -> Tensor:
        source, target = batch[0], F.pad(batch[1], (0, 1))  # it cuts the last one off
        return model.generator(model(source, target, (source != PAD).sum(-1)).dec_out)

    return model, forward


class _Numbers(dict):
    """A vocabulary as OpenNMT-py's models ask for it."""

    def __init__(self, size: int) -> None:
        super().__init__({"<blank>": PAD})
        self.size = size

    def __len__(self) -> int:
        return self.size


def opennmt(sizes: Sizes) -> Made:
    from onmt.model_builder import build_base_model
    from onmt.opts import model_opts
    from onmt.utils.parse import ArgumentParser

    d, h, ff, layers, vocabulary = sizes
    parser = ArgumentParser()
    model_opts(parser)
    words = (
        f"--encoder_type transformer --decoder_type transformer --layers {layers} --heads {h} --hidden_size {d} "
        f"--word_vec_size {d} --transformer_ff {ff} --position_encoding true --share_embeddings true "
        "--share_decoder_embeddings true --self_attn_type scaled-dot-flash"
    )
    options, _ = parser.parse_known_args(words.split())
    ArgumentParser.update_model_opts(options)
    for name, value in {
        "dropout": [0.1], "attention_dropout": [0.0], "freeze_word_vecs_enc": False, "freeze_word_vecs_dec": False,
        "optim": "adam", "use_ckpting": [], "parallel_mode": "data_parallel",
    }.items():  # fmt: skip
        setattr(options, name, value)
    tokens = _Numbers(vocabulary)
    model = build_base_model(options, {"src": tokens, "tgt": tokens, "src_feats": []})
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)

    def forward(batch: Batch) -> Tensor:
        source, target = batch[0], F.pad(batch[1], (0, 1))  # it cuts the last one off
        return model.generator(model(source[..., None], target[..., None], (source != PAD).sum(-1))[0])

    return model, forward


PEERS = {
    "torch.nn.Transformer": torch_transformer,
    "Hugging Face Marian": marian,
    "JoeyNMT": joeynmt,
    "eole": eole,
    "OpenNMT-py": opennmt,
}
