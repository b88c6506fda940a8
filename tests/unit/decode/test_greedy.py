"""Greedy search against a loop that decodes each sentence alone, without a cache."""

from __future__ import annotations

import torch

from dragoman import Padded, Transformer
from dragoman.config import ModelRecipe
from dragoman.decode import greedy
from dragoman.text.special import BOS, EOS, PAD

VOCABULARY = 17


def slow(model: Transformer, source: list[int], limit: int) -> list[int]:
    written: list[int] = []
    while len(written) < limit:
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *written]]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        piece = int(logits.argmax())
        if piece == EOS:
            break
        written.append(piece)
    return written


def test_greedy_equals_each_sentence_alone_without_a_cache() -> None:
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0)
    ended = 0
    for seed in range(5):
        torch.manual_seed(seed)
        model = Transformer(recipe, VOCABULARY).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.3)
            model.embeddings.tables["shared"][EOS] *= 1.5  # so that some sentences end before their limit
            lengths = torch.tensor([3, 6, 1, 4])
            source = torch.randint(4, VOCABULARY, (4, 6)) * (torch.arange(6) < lengths[:, None])
            limits = torch.tensor([9, 4, 12, 1])
            got = greedy(model, source, Padded(6, lengths), limits)
            for row in range(4):
                expected = slow(model, source[row, : lengths[row]].tolist(), int(limits[row]))
                assert got[row] == expected
                ended += len(expected) < limits[row]
    assert 0 < ended < 20  # both ways of ending were tried


def test_no_sentences() -> None:
    model = Transformer(ModelRecipe(d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1), VOCABULARY)
    empty = torch.zeros(0, dtype=torch.long)
    assert greedy(model.eval(), torch.zeros(0, 3, dtype=torch.long), Padded(3, empty), empty) == []
