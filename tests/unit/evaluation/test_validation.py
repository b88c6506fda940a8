"""Validation scores against scores computed one sentence at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import Recipe, Transformer
from dragoman.config import ModelRecipe
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.demo.corpus import pairs
from dragoman.engines.torch import TorchEngine
from dragoman.evaluation.validation import Validation
from dragoman.search.beam import beam_search
from dragoman.search.types import Hypothesis, Search
from dragoman.text.special_tokens import BOS, EOS

SMALL = ModelRecipe(d_model=16, n_heads=2, d_ff=24, encoder_layers=1, decoder_layers=1, dropout=0.1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("data")
    corpora = []
    for split, n in (("train", 300), ("valid", 37)):
        for language, texts in zip(("en", "de"), zip(*pairs(n, split=split), strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
        corpora.append(Corpus(folder / f"{split}.en", folder / f"{split}.de"))
    recipe = Recipe.load("base", ["text.vocabulary_size=400"])
    return prepare_corpora(corpora[:1], recipe, folder / "prepared", valid=corpora[1], processes=1)


def test_figures_are_what_each_sentence_alone_gives(prepared: Prepared) -> None:
    torch.manual_seed(3)
    tokenizer = prepared.tokenizers[0]
    model = Transformer(SMALL, tokenizer.vocabulary_size).eval()
    found = Validation(prepared, Recipe.load("base").data, torch.device("cpu"))(model)
    lines = list(pairs(37, split="valid"))
    total = tokens = 0.0
    with torch.inference_mode():
        for source, target in lines:
            ids, out = [*tokenizer.encode(source), EOS], [*tokenizer.encode(target), EOS]
            log_p = model(torch.tensor([ids]), torch.tensor([[BOS, *out[:-1]]])).log_softmax(-1)[0]
            total -= float(log_p[torch.arange(len(out)), torch.tensor(out)].sum())
            tokens += len(out)
    assert found.figures["loss"] == pytest.approx(total / tokens, rel=1e-4)

    from sacrebleu import corpus_bleu

    engine = TorchEngine(model)
    alone = [engine.search([tokenizer.encode(source)], Search(beam=1))[0][0] for source, _ in lines]
    ours = [tokenizer.decode(found.ids) for found in alone]
    references = [target for _, target in lines]
    assert found.figures["bleu"] == pytest.approx(corpus_bleu(ours, [references]).score)
    assert found.figures["exact"] == 100 * sum(a == b for a, b in zip(ours, references, strict=True)) / 37
    assert len(found.samples) == 3
    by_source = dict(zip((source for source, _ in lines), zip(ours, references, strict=True), strict=True))
    for source, translation, reference in found.samples:
        assert by_source[source] == (translation, reference)


def test_a_model_that_copies_the_reference_is_perfect(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = prepared.tokenizers[0]
    right = dict(pairs(37, split="valid"))

    def cheat(model: object, source: torch.Tensor, *_: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(tokenizer.encode(right[tokenizer.decode(row)]), 0.0, 0.0)] for row in source.tolist()]

    monkeypatch.setattr("dragoman.evaluation.validation.beam_search", cheat)
    model = Transformer(SMALL, tokenizer.vocabulary_size).eval()
    figures = Validation(prepared, Recipe.load("base").data, torch.device("cpu"))(model).figures
    assert figures["exact"] == 100
    assert figures["bleu"] == pytest.approx(100)


def test_each_target_language_has_its_figure_and_their_mean_is_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora: dict[str, list[Corpus]] = {"train": [], "valid": []}
    counts = {"valid": {"de": 31, "back": 11}, "train": {"de": 200, "back": 190}}
    for split, of in counts.items():
        for code, n in of.items():
            lines = list(pairs(n, split=split))  # type: ignore[arg-type]
            lines = [(s, t) if code == "de" else (s, " ".join(["so", *s.split()[::-1]])) for s, t in lines]
            for side, texts in zip(("en", code), zip(*lines, strict=True), strict=True):
                (tmp_path / f"{split}-{code}.{side}").write_text("\n".join(texts) + "\n", encoding="utf-8")
            sides = (tmp_path / f"{split}-{code}.en", tmp_path / f"{split}-{code}.{code}")
            corpora[split].append(Corpus(*sides, to=code))
    recipe = Recipe.load("base", ["text.vocabulary_size=400"])
    prepared = prepare_corpora(corpora["train"], recipe, tmp_path / "prepared", valid=corpora["valid"], processes=1)
    torch.manual_seed(3)
    tokenizer = prepared.tokenizers[0]
    model = Transformer(SMALL, tokenizer.vocabulary_size).eval()
    found = Validation(prepared, recipe.data, torch.device("cpu"))(model)

    from sacrebleu import corpus_bleu

    engine, marks, split = TorchEngine(model), {}, prepared.split("valid")
    for code in ("de", "back"):
        head = tokenizer.target_id(code)
        rows = [i for i in range(len(split)) if split.source[i][0] == head]
        assert len(rows) == counts["valid"][code]
        best = [engine.search([split.source[i].tolist()], Search(beam=1))[0][0] for i in rows]
        ours = [tokenizer.decode(one.ids) for one in best]
        marks[code] = corpus_bleu(ours, [[tokenizer.decode(split.target[i]) for i in rows]]).score
        assert found.figures[f"bleu_{code}"] == pytest.approx(marks[code])
    assert found.figures["bleu"] == pytest.approx((marks["de"] + marks["back"]) / 2)
    assert [source.rpartition("  → ")[2] for source, _, _ in found.samples] == ["de", "de", "back", "back"]
    assert list(found.figures) == ["loss", "bleu", "exact", "bleu_de", "bleu_back"]
    # With few sentences, as many of each language are translated; the batch that fills one up is translated whole.
    read: list[int] = []

    def search(_: object, source: torch.Tensor, *__: object) -> list[list[Hypothesis]]:
        read.extend(source[:, 0].tolist())
        return [[] for _ in source]

    monkeypatch.setattr("dragoman.evaluation.validation.beam_search", search)
    few = Validation(prepared, recipe.data, torch.device("cpu"), sentences=8)
    few.recipe = replace(few.recipe, max_tokens=60, batch_sentences=3)
    few(model)
    heads = [read.count(tokenizer.target_id(code)) for code in ("de", "back")]
    assert all(4 <= count <= 6 for count in heads)


@pytest.mark.parametrize("sentences", [1, 10, 36, 37, 50])
def test_at_most_so_many_sentences_are_translated(
    prepared: Prepared, sentences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def count(model: Any, source: torch.Tensor, *rest: Any) -> Any:
        searched.append(len(source))
        return beam_search(model, source, *rest)

    monkeypatch.setattr("dragoman.evaluation.validation.beam_search", count)
    torch.manual_seed(3)
    model = Transformer(SMALL, prepared.tokenizers[0].vocabulary_size).eval()
    Validation(prepared, Recipe.load("base").data, torch.device("cpu"), sentences)(model)
    assert sum(searched) == min(sentences, 37)


def test_the_time_of_an_evaluation_is_that_of_all_its_batches(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    model = Transformer(SMALL, prepared.tokenizers[0].vocabulary_size).eval()
    recipe = replace(Recipe.load("base").data, max_tokens=50)
    validation = Validation(prepared, recipe, torch.device("cpu"), sentences=20)
    validation.recipe = replace(validation.recipe, batch_tokens=200)
    batches = [*prepared.loader(validation.recipe, "valid", epochs=1, pin=False)]
    tokens = [int(batch.target_lengths.sum()) for batch in batches]
    assert len({batch.n_sentences for batch in batches}) > 1  # sentences are long or short, batches are full

    def forward(source: torch.Tensor, *_: Any) -> torch.Tensor:
        now[0] += 2.0 * tokens[0]
        return source

    def search(*_: Any) -> None:
        now[0] += 3.0 * tokens[0]

    monkeypatch.setattr("dragoman.evaluation.validation.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("dragoman.evaluation.validation.beam_search", search)
    monkeypatch.setattr(model, "forward", forward)
    assert validation.estimate_seconds(model) == pytest.approx(sum(tokens) * (2.0 + 3.0 * 20 / 37))
