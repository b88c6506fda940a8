"""Validation figures against the same figures made by hand, a sentence at a time."""

from __future__ import annotations

import pytest
import torch

from dragoman import Recipe, Transformer
from dragoman.config import ModelRecipe
from dragoman.data.embedded import pairs
from dragoman.data.prepared import Prepared
from dragoman.data.preparing import prepare
from dragoman.data.reading import Corpus
from dragoman.decode import Hypothesis, Search, TorchEngine
from dragoman.evaluate.validation import Validation
from dragoman.text.special import BOS, EOS

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
    return prepare(corpora[:1], recipe, folder / "prepared", valid=corpora[1], processes=1)


def test_figures_are_what_each_sentence_alone_gives(prepared: Prepared) -> None:
    torch.manual_seed(3)
    tokeniser = prepared.tokenisers[0]
    model = Transformer(SMALL, tokeniser.vocabulary_size).eval()
    found = Validation(prepared, Recipe.load("base").data, torch.device("cpu"))(model)
    lines = list(pairs(37, split="valid"))
    total = tokens = 0.0
    with torch.inference_mode():
        for source, target in lines:
            ids, out = [*tokeniser.encode(source), EOS], [*tokeniser.encode(target), EOS]
            log_p = model(torch.tensor([ids]), torch.tensor([[BOS, *out[:-1]]])).log_softmax(-1)[0]
            total -= float(log_p[torch.arange(len(out)), torch.tensor(out)].sum())
            tokens += len(out)
    assert found.figures["loss"] == pytest.approx(total / tokens, rel=1e-4)

    from sacrebleu import corpus_bleu

    engine = TorchEngine(model)
    alone = [engine.search([tokeniser.encode(source)], Search(beam=1))[0][0] for source, _ in lines]
    ours = [tokeniser.decode(found.pieces) for found in alone]
    references = [target for _, target in lines]
    assert found.figures["bleu"] == pytest.approx(corpus_bleu(ours, [references]).score)
    assert found.figures["exact"] == 100 * sum(a == b for a, b in zip(ours, references, strict=True)) / 37
    assert len(found.samples) == 3
    by_source = dict(zip((source for source, _ in lines), zip(ours, references, strict=True), strict=True))
    for source, translation, reference in found.samples:
        assert by_source[source] == (translation, reference)


def test_a_model_that_copies_the_reference_is_perfect(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    tokeniser = prepared.tokenisers[0]
    right = dict(pairs(37, split="valid"))

    def cheat(model: object, source: torch.Tensor, *_: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(tokeniser.encode(right[tokeniser.decode(row)]), 0.0, 0.0)] for row in source.tolist()]

    monkeypatch.setattr("dragoman.evaluate.validation.beam_search", cheat)
    model = Transformer(SMALL, tokeniser.vocabulary_size).eval()
    figures = Validation(prepared, Recipe.load("base").data, torch.device("cpu"))(model).figures
    assert figures["exact"] == 100
    assert figures["bleu"] == pytest.approx(100)
