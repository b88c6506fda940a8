"""benchmarks/sentence_length.py: buckets of lengths, its table and picture, and a run of a few steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from dragoman.models.loading import parameter_counts

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import sentence_length


def test_sentences_are_counted_by_words_and_small_buckets_are_merged() -> None:
    sources = ["a"] * 3 + ["a b"] * 2 + ["a b c d"] * 4 + ["a b c d e f g"]
    found = sentence_length.buckets(sources, [1, 3, 5], least=2)
    assert found == {"1–1": [0, 1, 2], "2–3": [3, 4], "over 3": [5, 6, 7, 8, 9]}
    assert sorted(i for chosen in found.values() for i in chosen) == list(range(10))
    assert list(sentence_length.buckets(sources, [1, 3, 5], least=1)) == ["1–1", "2–3", "4–5", "over 5"]


def test_a_bucket_is_scored_alone() -> None:
    texts, references = ["a b c d e", "f g h i x", "j k l m n"], ["a b c d e", "f g h i j", "j k l m n"]
    overall, by_length = sentence_length.score_buckets(texts, references, {"one": [0, 2], "two": [1]})
    assert by_length == {"one": 100.0, "two": round(sacrebleu.corpus_bleu([texts[1]], [[references[1]]]).score, 2)}
    assert overall == round(sacrebleu.corpus_bleu(texts, [references]).score, 2)


@pytest.mark.parametrize("size", sentence_length.SIZES)
def test_the_models_have_about_as_many_weights(size: str) -> None:
    options = sentence_length.argparse.Namespace(
        size=size, steps=10, batch_tokens=1000, rate=None, seed=1, device="cpu"
    )
    recipes = [sentence_length.recipe_of(name, options) for name in sentence_length.MODELS]
    counts = [sum(parameter_counts(r.model, r.text.vocabulary_size).values()) for r in recipes]
    assert max(counts) < 1.06 * min(counts)
    assert len({(r.data, r.text) for r in recipes}) == 1  # the same tokens in the same batches


def entry(name: str, value: float) -> dict[str, Any]:
    return {
        **{"model": name, "weights": 8_000_000, "learning_rate": 0.002, "valid_loss": 2.5, "bleu": value},
        **{"by_length": {"1–10": value, "over 10": value / 2}, "sentences": {"1–10": 30, "over 10": 20}},
    }


def test_the_table_and_the_picture_are_made_from_the_results(tmp_path: Path) -> None:
    results = [entry(name, 10.0 + 2 * number) for number, name in enumerate(sentence_length.MODELS)]
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    sentence_length.main(["--out", str(tmp_path), "--draw"])
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("| model | weights | rate | loss | all | 1–10 words (30) |")
    assert lines[-1] == "| Transformer | 8.00 M | 0.002 | 2.500 | 18.0 | 18.0 | 9.0 |"
    assert (tmp_path / "sentence_length.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_is_trained_scored_and_then_skipped(tmp_path: Path) -> None:
    arguments = [
        "--size",
        "toy",
        "--only",
        "RNN, no attention",
        "--steps",
        "2",
        "--pairs",
        "30",
        "--out",
        str(tmp_path),
    ]
    sentence_length.main([*arguments, "--device", "cpu", "--batch-tokens", "400"])
    path = sentence_length.result_file(tmp_path, "RNN, no attention")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["weights"] > 300_000 and sum(found["sentences"].values()) == 50
    assert found["by_length"].keys() == found["sentences"].keys()
    path.write_text("kept", encoding="utf-8")
    sentence_length.main(arguments)
    assert path.read_text(encoding="utf-8") == "kept"
