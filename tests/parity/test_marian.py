"""With copied weights, our logits are those of Hugging Face's MarianMTModel, which trained models are published in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman import Transformer
from dragoman.config import ModelRecipe

transformers = pytest.importorskip("transformers", reason="a dev extra")

B, S, T, D, H, F, V, PAD = 3, 6, 8, 24, 4, 31, 43, 0


def copy_linear(ours: nn.Linear, *theirs: nn.Linear) -> None:
    """One of ours from one or several of theirs: our projections of the same input are one matrix."""
    ours.weight.data.copy_(torch.cat([t.weight for t in theirs]))
    ours.bias.data.copy_(torch.cat([t.bias for t in theirs]))


def copy_marian(ours: Transformer, theirs: nn.Module) -> None:
    ours.embeddings.tables["shared"].data.copy_(theirs.model.shared.weight)
    ours.source_positions.table.data.copy_(theirs.model.encoder.embed_positions.weight)
    ours.target_positions.table.data.copy_(theirs.model.decoder.embed_positions.weight)
    for a, b in zip(ours.encoder, theirs.model.encoder.layers, strict=True):
        copy_linear(a.attention.qkv, b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        copy_linear(a.attention.output, b.self_attn.out_proj)
        copy_linear(a.around_attention.norm, b.self_attn_layer_norm)
        copy_linear(a.feed_forward.inner, b.fc1)
        copy_linear(a.feed_forward.outer, b.fc2)
        copy_linear(a.around_feed_forward.norm, b.final_layer_norm)
    for a, b in zip(ours.decoder, theirs.model.decoder.layers, strict=True):
        copy_linear(a.attention.qkv, b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        copy_linear(a.attention.output, b.self_attn.out_proj)
        copy_linear(a.around_attention.norm, b.self_attn_layer_norm)
        copy_linear(a.cross.query, b.encoder_attn.q_proj)
        copy_linear(a.cross.key_value, b.encoder_attn.k_proj, b.encoder_attn.v_proj)
        copy_linear(a.cross.output, b.encoder_attn.out_proj)
        copy_linear(a.around_cross.norm, b.encoder_attn_layer_norm)
        copy_linear(a.feed_forward.inner, b.fc1)
        copy_linear(a.feed_forward.outer, b.fc2)
        copy_linear(a.around_feed_forward.norm, b.final_layer_norm)


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_logits_are_marians(activation: str) -> None:
    config = transformers.MarianConfig(
        vocab_size=V, d_model=D, encoder_layers=2, decoder_layers=3, encoder_attention_heads=H,
        decoder_attention_heads=H, encoder_ffn_dim=F, decoder_ffn_dim=F, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, activation_function=activation, max_position_embeddings=20, scale_embedding=True,
        pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=1, share_encoder_decoder_embeddings=True,
    )  # fmt: skip
    theirs = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    recipe = ModelRecipe(
        d_model=D, n_heads=H, d_ff=F, encoder_layers=2, decoder_layers=3, dropout=0.0, activation=activation,
        attention_bias=True, positions="learned", max_positions=20,  # their sinusoid holds sines first, cosines after
    )  # fmt: skip
    ours = Transformer(recipe, V, pad=PAD).eval()
    copy_marian(ours, theirs)
    source, target = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, T))
    source[1, 4:] = PAD
    source[2, 1:] = PAD
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, use_cache=False
        ).logits
        torch.testing.assert_close(ours(source, target), expected, atol=1e-5, rtol=1e-5)
