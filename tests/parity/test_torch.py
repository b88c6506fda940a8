"""With copied weights, our attention and our encoder-decoder are PyTorch's: outputs and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dragoman import Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.models.transformer import DecoderLayer, EncoderLayer
from dragoman.nn import MultiHeadCrossAttention, MultiHeadSelfAttention, causal, everything, look

B, S, T, D, H, F = 3, 5, 7, 24, 4, 31
SOURCE, TARGET = torch.tensor([5, 3, 4]), torch.tensor([4, 7, 6])
CPU = torch.device("cpu")
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def hidden(lengths: Tensor, size: int) -> Tensor:
    """PyTorch's polarity: True hides."""
    return torch.arange(size) >= lengths[:, None]


def randomise(module: nn.Module) -> None:
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p) * 0.3)


def copy_self(ours: MultiHeadSelfAttention, theirs: nn.MultiheadAttention) -> None:
    ours.qkv.weight.data.copy_(theirs.in_proj_weight)
    ours.qkv.bias.data.copy_(theirs.in_proj_bias)
    copy_linear(ours.output, theirs.out_proj)


def copy_cross(ours: MultiHeadCrossAttention, theirs: nn.MultiheadAttention) -> None:
    ours.query.weight.data.copy_(theirs.in_proj_weight[:D])
    ours.query.bias.data.copy_(theirs.in_proj_bias[:D])
    ours.key_value.weight.data.copy_(theirs.in_proj_weight[D:])
    ours.key_value.bias.data.copy_(theirs.in_proj_bias[D:])
    copy_linear(ours.output, theirs.out_proj)


def copy_linear(ours: nn.Module, theirs: nn.Module) -> None:
    ours.weight.data.copy_(theirs.weight)
    ours.bias.data.copy_(theirs.bias)


@pytest.mark.parametrize("rule", [everything, causal], ids=["everything", "causal"])
@pytest.mark.parametrize("weights", [True, False], ids=["reference", "fused"])
def test_self_attention_is_torchs(rule, weights: bool) -> None:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    randomise(theirs)
    ours = MultiHeadSelfAttention(D, H, bias=True)
    copy_self(ours, theirs)
    x = torch.randn(B, T, D, requires_grad=True)
    layout = Padded(T, TARGET)
    maps: list[Tensor] = []
    got = ours(x, look(layout, layout, rule, CPU), weights=maps if weights else None)
    triangle = torch.ones(T, T, dtype=torch.bool).triu(1) if rule is causal else None
    expected, expected_weights = theirs(
        x, x, x, key_padding_mask=hidden(TARGET, T), attn_mask=triangle, average_attn_weights=False
    )
    real = ~hidden(TARGET, T)
    torch.testing.assert_close(got[real], expected[real], **CLOSE)
    if weights:
        torch.testing.assert_close(
            maps[0].transpose(1, 2)[real], expected_weights.transpose(1, 2)[real], atol=1e-6, rtol=1e-5
        )
    direction = torch.randn_like(got[real])
    gradient = torch.autograd.grad(got[real], [x, ours.qkv.weight, ours.output.weight], direction)
    reference = torch.autograd.grad(expected[real], [x, theirs.in_proj_weight, theirs.out_proj.weight], direction)
    for a, b in zip(gradient, reference, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-5)


def test_cross_attention_is_torchs() -> None:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    randomise(theirs)
    ours = MultiHeadCrossAttention(D, H, bias=True)
    copy_cross(ours, theirs)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    layout = Padded(S, SOURCE)
    got = ours(x, ours.remember(memory, layout), look(Padded(T), layout, everything, CPU))
    expected, _ = theirs(x, memory, memory, key_padding_mask=hidden(SOURCE, S))
    torch.testing.assert_close(got, expected, **CLOSE)


def copy_transformer(ours: Transformer, theirs: nn.Transformer) -> None:
    for a, b in zip(ours.encoder, theirs.encoder.layers, strict=True):
        assert isinstance(a, EncoderLayer)
        copy_self(a.attention, b.self_attn)
        copy_linear(a.around_attention.norm, b.norm1)
        copy_linear(a.around_feed_forward.norm, b.norm2)
        copy_linear(a.feed_forward.inner, b.linear1)
        copy_linear(a.feed_forward.outer, b.linear2)
    for a, b in zip(ours.decoder, theirs.decoder.layers, strict=True):
        assert isinstance(a, DecoderLayer)
        copy_self(a.attention, b.self_attn)
        copy_cross(a.cross, b.multihead_attn)
        copy_linear(a.around_attention.norm, b.norm1)
        copy_linear(a.around_cross.norm, b.norm2)
        copy_linear(a.around_feed_forward.norm, b.norm3)
        copy_linear(a.feed_forward.inner, b.linear1)
        copy_linear(a.feed_forward.outer, b.linear2)
    if ours.encoder_norm is not None:
        copy_linear(ours.encoder_norm, theirs.encoder.norm)
        copy_linear(ours.decoder_norm, theirs.decoder.norm)


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_decoder_is_torchs(order: str, activation: str) -> None:
    """Two encoder and three decoder layers, padding and causal masks, both norm orders."""
    theirs = nn.Transformer(
        D, H, 2, 3, F, dropout=0.0, activation=activation, batch_first=True, norm_first=order == "pre"
    )
    if order == "post":  # the paper's stack has no norm after its last layer, which torch adds; pre-norm needs it
        theirs.encoder.norm = theirs.decoder.norm = None
    randomise(theirs)
    recipe = ModelRecipe(
        d_model=D, n_heads=H, d_ff=F, encoder_layers=2, decoder_layers=3, dropout=0.0, norm_order=order,
        activation=activation, attention_bias=True, positions="none",
    )  # fmt: skip
    ours = Transformer(recipe, 40)
    copy_transformer(ours, theirs)
    real_source, real_target = ~hidden(SOURCE, S), ~hidden(TARGET, T)
    source, target = torch.randint(1, 40, (B, S)) * real_source, torch.randint(1, 40, (B, T)) * real_target

    got = ours.decode(target, ours.encode(source))[real_target]
    expected = theirs(
        ours.embeddings.source(source),
        ours.embeddings.target(target),
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        src_key_padding_mask=~real_source,
        memory_key_padding_mask=~real_source,
        tgt_key_padding_mask=~real_target,
    )[real_target]
    torch.testing.assert_close(got, expected, **CLOSE)

    table = ours.embeddings.tables["shared"]
    direction = torch.randn_like(got) / got.numel() ** 0.5
    first = theirs.encoder.layers[0]
    last = theirs.decoder.layers[2]
    pairs = [
        (table, table),
        (ours.encoder[0].attention.qkv.weight, first.self_attn.in_proj_weight),
        (ours.encoder[0].feed_forward.inner.bias, first.linear1.bias),
        (ours.encoder[1].around_feed_forward.norm.weight, theirs.encoder.layers[1].norm2.weight),
        (ours.decoder[0].attention.qkv.weight, theirs.decoder.layers[0].self_attn.in_proj_weight),
        (ours.decoder[2].cross.output.weight, last.multihead_attn.out_proj.weight),
        (ours.decoder[2].feed_forward.outer.weight, last.linear2.weight),
    ]
    gradients = torch.autograd.grad(got, [a for a, _ in pairs], direction)
    references = torch.autograd.grad(expected, [b for _, b in pairs], direction)
    for a, b in zip(gradients, references, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
