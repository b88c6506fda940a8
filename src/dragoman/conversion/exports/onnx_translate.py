"""Translate lines of text with a Dragoman model in ONNX: python translate.py DIRECTORY < source > target

Needs only numpy, onnxruntime and sentencepiece. Greedy search, one batch of sentences at a time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAD, BOS, EOS, UNK = range(4)


class OnnxTranslator:
    """The encoder and the decoder step in onnxruntime, with the tokenizers."""

    def __init__(self, directory: Path, threads: int = 0) -> None:
        import onnxruntime
        from sentencepiece import SentencePieceProcessor

        options: Any = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(directory / f"{part}.onnx", options, providers=["CPUExecutionProvider"])
            for part in ("encoder", "decoder")
        )
        self.source, self.target = (
            SentencePieceProcessor(str(directory / f"{side}.spm")) for side in ("source", "target")
        )
        vocabularies = [json.loads((directory / f"{side}_vocab.json").read_text()) for side in ("source", "target")]
        self.ids: dict[str, int] = vocabularies[0]
        self.tokens = {i: token for token, i in vocabularies[1].items()}
        shapes = {value.name: value.shape for value in self.decoder.get_inputs()}
        self.layers = sum(name.startswith("past_keys_") for name in shapes)
        self.empty = {name: (shape[1], shape[3]) for name, shape in shapes.items() if name.startswith("past_")}

    def encode(self, text: str) -> list[int]:
        """The ids of a text and EOS; it may begin with the token of a target language, such as `>>de<<`."""
        code, found, rest = text.partition("<<")
        first = [code + found] if found and code.startswith(">>") else []
        tokens = [*first, *self.source.encode(rest if first else text, out_type=str)]
        return [*(self.ids.get(token, UNK) for token in tokens), EOS]

    def translate(self, texts: Sequence[str], max_length: int = 256) -> list[str]:
        """Translate a batch of sentences."""
        rows = [self.encode(text) for text in texts]
        found = self.search(rows, max_length)
        return [self.target.decode([self.tokens[i] for i in ids if i != UNK]).strip() for ids in found]

    def search(self, rows: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        """Greedy search; finished sentences keep their row until all are finished."""
        lengths = np.array([len(row) for row in rows], np.int64)
        source = np.full((len(rows), lengths.max()), PAD, np.int64)
        for i, row in enumerate(rows):
            source[i, : len(row)] = row
        names = [value.name for value in self.encoder.get_outputs()]
        caches = dict(zip(names, self.encoder.run(None, {"source": source, "lengths": lengths}), strict=True))
        for name, (heads, width) in self.empty.items():
            caches[name] = np.zeros((len(rows), heads, 0, width), np.float32)
        outputs = [value.name for value in self.decoder.get_outputs()]
        ids, done = np.full(len(rows), BOS, np.int64), np.zeros(len(rows), bool)
        found: list[list[int]] = [[] for _ in rows]
        for position in range(max_length):
            given = {**caches, "ids": ids, "position": np.array([position], np.int64), "lengths": lengths}
            result = dict(zip(outputs, self.decoder.run(None, given), strict=True))
            for i in range(self.layers):
                caches[f"past_keys_{i}"], caches[f"past_values_{i}"] = result[f"keys_{i}"], result[f"values_{i}"]
            logits = result["logits"]
            logits[:, [PAD, BOS]] = -np.inf
            ids = logits.argmax(-1).astype(np.int64)
            done |= ids == EOS
            if done.all():
                break
            for sentence, token, ended in zip(found, ids.tolist(), done.tolist(), strict=True):
                if not ended:
                    sentence.append(token)
        return found


def main() -> None:
    """Translate the lines of standard input."""
    translator = OnnxTranslator(Path(sys.argv[1]))
    lines = [line.rstrip("\n") for line in sys.stdin]
    for start in range(0, len(lines), 16):
        print(*translator.translate(lines[start : start + 16]), sep="\n", flush=True)


if __name__ == "__main__":
    main()
