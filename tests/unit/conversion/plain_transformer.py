"""The encoder-decoder Transformer on PyTorch's own modules, for tensors under fairseq's names: a reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Plain:
    """Post- or pre-norm, given the embeddings' scale, an activation and the codes of positions."""

    def __init__(
        self, tensors: Mapping[str, Tensor], heads: int, scale: float, activation: str, pre: bool, epsilon: float = 1e-5
    ) -> None:
        self.tensors, self.heads, self.scale, self.pre = tensors, heads, scale, pre
        self.epsilon = epsilon
        self.activation = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}[activation]

    def logits(self, source: Tensor, target: Tensor, codes: tuple[Tensor, Tensor], output: str) -> Tensor:
        """`[T, V]` for a source `[S]` and what the decoder is given `[T]`."""
        memory = self.side("encoder", source, codes[0], None)
        return F.linear(self.side("decoder", target, codes[1], memory), self.tensors[output])

    def side(self, side: str, ids: Tensor, codes: Tensor, memory: Tensor | None) -> Tensor:
        x = self.tensors[f"{side}.embed_tokens.weight"][ids] * self.scale + codes[: len(ids)]
        layers = {name.split(".")[2] for name in self.tensors if name.startswith(f"{side}.layers.")}
        for layer in (f"{side}.layers.{i}" for i in range(len(layers))):
            future = None if memory is None else torch.ones(len(ids), len(ids)).triu(1).bool()
            x = self.around(
                x, f"{layer}.self_attn", lambda h, n=layer, f=future: self.attend(f"{n}.self_attn", h, h, f)
            )
            if memory is not None:
                cross = f"{layer}.encoder_attn"
                x = self.around(x, cross, lambda h, n=cross: self.attend(n, h, memory, None))
            x = self.around(x, f"{layer}.final", lambda h, n=layer: self.forward(n, h))
        return self.norm(x, f"{side}.layer_norm") if self.pre else x

    def around(self, x: Tensor, name: str, sub_layer: object) -> Tensor:
        norm = f"{name}_layer_norm"
        if self.pre:
            return x + sub_layer(self.norm(x, norm))  # type: ignore[operator]
        return self.norm(x + sub_layer(x), norm)  # type: ignore[operator]

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], self.epsilon)

    def attend(self, name: str, x: Tensor, to: Tensor, hidden: Tensor | None) -> Tensor:
        d = x.shape[-1]
        attention = nn.MultiheadAttention(d, self.heads).eval()
        stacked = {
            kind: torch.cat([self.tensors[f"{name}.{part}_proj.{kind}"] for part in "qkv"])
            for kind in ("weight", "bias")
        }
        attention.load_state_dict({
            "in_proj_weight": stacked["weight"], "in_proj_bias": stacked["bias"],
            "out_proj.weight": self.tensors[f"{name}.out_proj.weight"],
            "out_proj.bias": self.tensors[f"{name}.out_proj.bias"],
        })  # fmt: skip
        return attention(x, to, to, attn_mask=hidden, need_weights=False)[0]

    def forward(self, layer: str, x: Tensor) -> Tensor:
        inner = F.linear(x, self.tensors[f"{layer}.fc1.weight"], self.tensors[f"{layer}.fc1.bias"])
        return F.linear(self.activation(inner), self.tensors[f"{layer}.fc2.weight"], self.tensors[f"{layer}.fc2.bias"])
