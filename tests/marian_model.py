"""Models in Marian's own formats with random weights, and Marian's equations in NumPy; both written from its sources.

Nothing here uses Dragoman's code: arrays have the names and shapes of src/models/transformer.h and src/rnn/cells.h,
files the layout of src/common/binary.cpp, and int8 matrices that of src/tensors/cpu/integer_common.h.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from opus_model import sentence_tokens, tokens_of

Floats = NDArray[np.float32]
D, HEADS, INNER, LAYERS = 20, 4, 28, (2, 3)
USUAL: dict[str, Any] = {
    "type": "transformer", "dim-emb": D, "enc-depth": LAYERS[0], "dec-depth": LAYERS[1], "transformer-heads": HEADS,
    "transformer-dim-ffn": INNER, "transformer-decoder-dim-ffn": 0, "transformer-ffn-depth": 2,
    "transformer-decoder-ffn-depth": 0, "transformer-ffn-activation": "swish", "transformer-preprocess": "",
    "transformer-postprocess": "dan", "transformer-postprocess-emb": "d", "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention", "dec-cell": "gru", "layer-normalization": False,
    "transformer-no-projection": False, "transformer-pool": False, "transformer-tied-layers": [],
    "transformer-guided-alignment-layer": "last", "transformer-train-position-embeddings": False,
    "tied-embeddings": False, "tied-embeddings-all": True, "tied-embeddings-src": False, "output-omit-bias": False,
    "input-types": [], "lemma-dim-emb": 0, "factors-combine": "sum", "right-left": False, "ulr": False,
    "version": "v1.12.0 65bf82f 2023-02-21 09:56:29 -0800",
}  # fmt: skip
SSRU = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru", "transformer-ffn-activation": "relu"}
PRE_NORM = {
    "transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"
}  # fmt: skip


@dataclass
class MarianModel:
    """A model as it was written: settings, arrays, and the tokens of both sides by id."""

    config: dict[str, Any]
    arrays: dict[str, Floats]
    names: tuple[list[str], list[str]]
    path: Path = field(default=Path())

    def log_probabilities(self, source: list[int], target: list[int]) -> Floats:
        """log p of every token at each position of the target and after it, `[T + 1, V]`; EOS, 0, ends the source."""
        return self.decode(self.encode([*source, 0]), target)

    def decode(self, memory: Floats, target: list[int]) -> Floats:
        embeddings = self.arrays[self.table("decoder")]
        x = np.stack([np.zeros(D, np.float32), *(embeddings[i] for i in target)])  # the first token has no embedding
        x = self.positioned(x)
        numbers = self.config["transformer-tied-layers"] or range(1, self.config["dec-depth"] + 1)
        causal = np.tril(np.ones((len(x), len(x)), bool))
        for n in numbers:
            name = f"decoder_l{n}"
            if self.config["transformer-decoder-autoreg"] == "rnn":
                x = self.around(f"{name}_rnn", f"{name}_rnn_ffn", x, lambda h, name=name: self.ssru(f"{name}_rnn", h))
            else:
                own = f"{name}_self"
                x = self.around(f"{own}_Wo", f"{own}_Wo", x, lambda h, own=own: self.attend(own, h, h, causal))
            cross = f"{name}_context"
            x = self.around(f"{cross}_Wo", f"{cross}_Wo", x, lambda h, cross=cross: self.attend(cross, h, memory))
            x = self.feed_forward(f"{name}_ffn", x)
        x = self.top("decoder", x)
        tied = self.config["tied-embeddings"] or self.config["tied-embeddings-all"]
        matrix = embeddings if tied else self.arrays["decoder_ff_logit_out_Wt"]
        logits = x @ matrix.T + self.arrays.get("decoder_ff_logit_out_b", np.float32(0))
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def greedy(self, source: list[int], limit: int) -> tuple[list[int], float]:
        """The likeliest tokens one by one, without EOS, and the sum of the log-probabilities with it."""
        memory, found = self.encode([*source, 0]), list[int]()
        while True:
            scores = self.decode(memory, found)
            best = int(scores[-1].argmax()) if len(found) < limit else 0
            if best == 0:
                return found, float(sum(scores[i, token] for i, token in enumerate([*found, 0])))
            found.append(best)

    def encode(self, ids: list[int]) -> Floats:
        x = self.positioned(self.arrays[self.table("encoder")][ids])
        for n in range(1, self.config["enc-depth"] + 1):
            own = f"encoder_l{n}_self"
            x = self.around(f"{own}_Wo", f"{own}_Wo", x, lambda h, own=own: self.attend(own, h, h))
            x = self.feed_forward(f"encoder_l{n}_ffn", x)
        return self.top("encoder", x)

    def table(self, side: str) -> str:
        shared = self.config["tied-embeddings-all"] or self.config["tied-embeddings-src"]
        return "Wemb" if shared else f"{side}_Wemb"

    def positioned(self, x: Floats) -> Floats:
        if "Wpos" in self.arrays:
            return x + self.arrays["Wpos"][: len(x)]
        rates = [np.exp(-i * np.log(10000.0) / (D / 2 - 1)) for i in range(D // 2)]
        signal = [[*(np.sin(p * r) for r in rates), *(np.cos(p * r) for r in rates)] for p in range(len(x))]
        return (np.sqrt(D) * x + np.array(signal)).astype(np.float32)

    def around(self, pre: str, post: str, x: Floats, sublayer: Any) -> Floats:
        """The letters of pre- and post-processing around a sublayer: n normalizes, a adds; d is nothing here."""
        h = x
        for letter in self.config["transformer-preprocess"]:
            h = self.norm(pre, h, "_pre") if letter == "n" else h
        h = sublayer(h)
        for letter in self.config["transformer-postprocess"]:
            h = {"d": lambda h: h, "a": lambda h: h + x, "n": lambda h: self.norm(post, h)}[letter](h)
        return h

    def top(self, side: str, x: Floats) -> Floats:
        return self.norm(f"{side}_top", x) if "n" in self.config["transformer-postprocess-top"] else x

    def norm(self, name: str, x: Floats, suffix: str = "") -> Floats:
        centered = x - x.mean(-1, keepdims=True)
        scale, bias = (self.arrays[f"{name}_ln_{part}{suffix}"][0] for part in ("scale", "bias"))
        return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * scale + bias

    def affine(self, name: str, of: str, x: Floats) -> Floats:
        return x @ self.arrays[f"{name}_W{of}"] + self.arrays[f"{name}_b{of}"][0]

    def attend(self, name: str, h: Floats, memory: Floats, sees: Any = True) -> Floats:
        q, k, v = self.affine(name, "q", h), self.affine(name, "k", memory), self.affine(name, "v", memory)
        size, found = D // HEADS, []
        for part in (slice(i * size, (i + 1) * size) for i in range(HEADS)):
            scores = np.where(sees, q[:, part] @ k[:, part].T / np.sqrt(size), -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            found.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        return self.affine(name, "o", np.concatenate(found, -1))

    def ssru(self, name: str, h: Floats) -> Floats:
        cell, found = np.zeros(D, np.float32), []
        for x in h:
            forget = 1 / (1 + np.exp(-(x @ self.arrays[f"{name}_Wf"] + self.arrays[f"{name}_bf"][0])))
            cell = forget * cell + (1 - forget) * (x @ self.arrays[f"{name}_W"])
            found.append(np.maximum(cell, 0))
        return np.stack(found)

    def feed_forward(self, name: str, x: Floats) -> Floats:
        swish = self.config["transformer-ffn-activation"] == "swish"

        def network(h: Floats) -> Floats:
            inner = self.affine(name, "1", h)
            return self.affine(name, "2", inner / (1 + np.exp(-inner)) if swish else np.maximum(inner, 0))

        return self.around(f"{name}_ffn", f"{name}_ffn", x, network)


def random_arrays(config: dict[str, Any], sizes: tuple[int, int], learned: int = 0, seed: int = 7) -> dict[str, Floats]:
    """Arrays of every shape that the settings need."""
    draw, found, d = np.random.default_rng(seed), {}, config["dim-emb"]

    def some(name: str, *shape: int, scale: float = 0.3) -> None:
        found[name] = (draw.standard_normal(shape) * scale).astype(np.float32)

    def norm(name: str) -> None:
        for suffix in [*(["_pre"] if config["transformer-preprocess"] else [])] or [""]:
            some(f"{name}_ln_scale{suffix}", 1, d, scale=1.0)
            some(f"{name}_ln_bias{suffix}", 1, d, scale=0.05)

    def affine(name: str, of: str, inputs: int, outputs: int) -> None:
        some(f"{name}_W{of}", inputs, outputs, scale=0.25)
        some(f"{name}_b{of}", 1, outputs, scale=0.1)

    shared = config["tied-embeddings-all"] or config["tied-embeddings-src"]
    for name, size in (("Wemb", sizes[0]),) if shared else zip(("encoder_Wemb", "decoder_Wemb"), sizes, strict=True):
        some(name, size, d, scale=0.6)
    if learned:
        some("Wpos", learned, d)
    if not (config["tied-embeddings"] or config["tied-embeddings-all"]):
        some("decoder_ff_logit_out_Wt", sizes[1], d)
    if not config["output-omit-bias"]:
        some("decoder_ff_logit_out_b", 1, sizes[1], scale=0.1)
        found["decoder_ff_logit_out_b"][0, 0] += 2.0  # sentences end
        found["decoder_ff_logit_out_b"][0, 1] -= 30.0  # Marian's search never writes the unknown token
    of_decoder = sorted({*config["transformer-tied-layers"]}) or range(1, config["dec-depth"] + 1)
    for side, numbers in (("encoder", range(1, config["enc-depth"] + 1)), ("decoder", of_decoder)):
        inner = (side == "decoder" and config["transformer-decoder-dim-ffn"]) or config["transformer-dim-ffn"]
        for layer in (f"{side}_l{n}" for n in numbers):
            recurrent = side == "decoder" and config["transformer-decoder-autoreg"] == "rnn"
            attentions = [*([] if recurrent else ["self"]), *(["context"] if side == "decoder" else [])]
            for kind in attentions:
                for of in "qkvo":
                    affine(f"{layer}_{kind}", of, d, d)
                norm(f"{layer}_{kind}_Wo")
            if recurrent:
                some(f"{layer}_rnn_W", d, d, scale=0.25)
                affine(f"{layer}_rnn", "f", d, d)
                norm(f"{layer}_rnn" if config["transformer-preprocess"] else f"{layer}_rnn_ffn")
            affine(f"{layer}_ffn", "1", d, inner)
            affine(f"{layer}_ffn", "2", inner, d)
            norm(f"{layer}_ffn_ffn")
        if config["transformer-postprocess-top"]:
            some(f"{side}_top_ln_scale", 1, d, scale=1.0)
            some(f"{side}_top_ln_bias", 1, d, scale=0.05)
    return found


def quantized(name: str, matrix: Floats) -> tuple[bytes, Floats]:
    """An int8 matrix as Bergamot stores it, and its values; the columns of all but embeddings are stored as rows."""
    factor = np.float32(127) / np.abs(matrix).max()
    whole = np.rint(matrix * factor).astype(np.int8)
    stored = whole if "Wemb" in name else np.ascontiguousarray(whole.T)
    return stored.tobytes() + factor.tobytes(), whole.astype(np.float32) / factor


def write_bin(path: Path, arrays: dict[str, Floats], settings: bytes, int8: bool) -> dict[str, Floats]:
    """A `.bin` file; returns the arrays as they are stored."""
    stored, items = dict(arrays), []
    for name, array in sorted(arrays.items()):
        if int8 and ("_W" in (name[-3:-1], name[-2:]) or "Wemb" in name):
            data, stored[name] = quantized(name, array)
            of = "none" if "Wemb" in name else name  # the output layer's matrix has no name there
            items += [(name, 0x4101, array.shape, data), (f"{of}_QuantMultA", 0x404, (1, 1), struct.pack("<f", 12))]
        else:
            items.append((name, 0x404, array.shape, array.tobytes()))
    items.append(("special:model.yml", 0x101, (len(settings) + 1,), settings + b"\0"))
    padded = [data + bytes(-len(data) % 256) for *_, data in items]
    head = struct.pack("<QQ", 1, len(items))
    for (name, kind, shape, _), data in zip(items, padded, strict=True):
        head += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    head += b"".join(name.encode() + b"\0" for name, *_ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    skipped = ((len(head) + 8) // 256 + 1) * 256 - len(head) - 8
    path.write_bytes(head + struct.pack("<Q", skipped) + bytes(skipped) + b"".join(padded))
    return stored


def write_marian(
    directory: Path, *, kind: str = "npz", opus: bool = False, two: bool = False, learned: int = 0, **changes: Any
) -> MarianModel:
    """A directory with a model; `kind` is "npz", "bin" or "int8", `changes` are settings with _ for -.

    The vocabulary is sentencepiece, one or `two`; with `opus`, a list of tokens beside two subword models.
    """
    directory.mkdir(parents=True)
    models = [sentence_tokens(0, "unigram", 230), sentence_tokens(1, "unigram", 260)]
    config = {**USUAL, **{name.replace("_", "-"): value for name, value in changes.items()}}
    if opus:
        both = ["</s>", "<unk>", *sorted({*tokens_of(models[0]), *tokens_of(models[1])}), "<pad>"]
        names = both, both
        for name, model in zip(("source", "target"), models, strict=True):
            (directory / f"{name}.spm").write_bytes(model)
        text = "".join(f"{json.dumps(token, ensure_ascii=False)}: {i}\n" for i, token in enumerate(both))
        (directory / "opus.spm32k.vocab.yml").write_text(text, encoding="utf-8")
        listed = "models:\n  - model.npz\nvocabs:\n  - opus.spm32k.vocab.yml\n  - opus.spm32k.vocab.yml\n"
        (directory / "decoder.yml").write_text(f"relative-paths: true\n{listed}beam-size: 6\nnormalize: 1\n")
    elif two:
        names = pieces_of(models[0]), pieces_of(models[1])
        (directory / "srcvocab.ende.spm").write_bytes(models[0])
        (directory / "trgvocab.ende.spm").write_bytes(models[1])
    else:
        names = pieces_of(models[0]), pieces_of(models[0])
        (directory / "vocab.ende.spm").write_bytes(models[0])
    config["dim-vocabs"] = [*map(len, names)]
    model = MarianModel(config, random_arrays(config, (len(names[0]), len(names[1])), learned), names)
    settings = yaml_of(config)
    if kind == "npz":
        model.path = directory / "model.npz"
        bytes_of_settings = np.frombuffer(settings + b"\0", np.int8)
        np.savez(model.path, **model.arrays, **{"special:model.yml": bytes_of_settings})  # type: ignore[arg-type]
    else:
        model.path = directory / "model.ende.intgemm.alphas.bin"
        model.arrays = write_bin(model.path, model.arrays, settings, kind == "int8")
    return model


def yaml_of(config: dict[str, Any]) -> bytes:
    """Settings as Marian writes them: a line for each, lists in lines of their own."""
    text = ""
    for name, value in sorted(config.items()):
        if isinstance(value, list) and value:
            text += f"{name}:\n" + "".join(f"  - {json.dumps(item)}\n" for item in value)
        else:
            text += f"{name}: {value if isinstance(value, str) and value.isalnum() else json.dumps(value)}\n"
    return text.encode()


def pieces_of(model: bytes) -> list[str]:
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.id_to_piece(i) for i in range(len(processor))]
