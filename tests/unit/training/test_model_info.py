"""The languages of a trained model come from the names of its data, or from the model it was fine-tuned from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Recipe
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.modeldir.info import ModelInfo
from dragoman.training.reporting.base_model import BaseModel
from dragoman.training.reporting.card import trained_model_info
from tiny_run import ENGLISH, GERMAN

BASE = BaseModel("base", "0" * 64, ("fr",), ("it",), "CC0-1.0", "some data", longest_line=99)


def prepared(folder: Path, source: str, target: str = "", **keys: Any) -> Prepared:
    words = list(zip(ENGLISH, GERMAN, strict=True))
    lines = [(f"{a} {b}", f"{x} {y}") for a, x in words for b, y in words]
    if target:
        for name, side in ((source, 0), (target, 1)):
            (folder / name).write_text("".join(pair[side] + "\n" for pair in lines), encoding="utf-8")
        corpus = Corpus(folder / source, folder / target, **keys)
    elif source.endswith(".tsv"):
        (folder / source).write_text("".join("\t".join(pair) + "\n" for pair in lines), encoding="utf-8")
        corpus = Corpus(folder / source, form="tsv")
    else:
        rows = (json.dumps(dict(zip(keys.values(), pair, strict=True))) for pair in lines)
        (folder / source).write_text("".join(row + "\n" for row in rows), encoding="utf-8")
        corpus = Corpus(folder / source, form="jsonl", **keys)
    targets = [f'text.targets=["{corpus.to}"]'] if corpus.to else []
    recipe = Recipe.from_changes(["text.vocabulary_size=310", "data.valid_pairs=9", *targets])
    return prepare_corpora([corpus], recipe, folder / "prepared", processes=1)


@pytest.mark.parametrize(
    ("names", "keys", "own", "tuned"),
    [
        (("a.en", "a.deu"), {}, (("en",), ("de",)), (("en",), ("de",))),
        (("a.src", "a.tgt"), {}, ((), ()), (("fr",), ("it",))),
        (("a.en", "a.tgt"), {}, (("en",), ()), (("fr",), ("it",))),
        (("a.tsv",), {}, ((), ()), (("fr",), ("it",))),
        (("a.jsonl",), {"source_key": "en", "target_key": "de"}, (("en",), ("de",)), (("en",), ("de",))),
        (("a.en", "a.tgt"), {"to": "zh-Hans"}, (("en",), ("zh-Hans",)), (("fr", "en"), ("zh-Hans",))),
    ],
)
def test_languages(tmp_path: Path, names: Any, keys: Any, own: Any, tuned: Any) -> None:
    data = prepared(tmp_path, *names, **keys)
    size = data.tokenizers[0].vocabulary_size
    lengths = trained_model_info(data).line_lengths
    assert trained_model_info(data) == ModelInfo(size, *own, line_lengths=lengths)
    assert trained_model_info(data, BASE) == ModelInfo(size, *tuned, "CC0-1.0", replace(lengths, longest=99))
