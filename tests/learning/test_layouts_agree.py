"""The learning curves of padded and packed training are one curve: same sentences, same steps, same losses."""

from __future__ import annotations

import numpy as np
import torch

from dragoman import Transformer
from dragoman.config import ModelRecipe, TrainRecipe
from dragoman.data.batch import FlatSentences, make_batch
from dragoman.data.batching import PackedShape
from dragoman.demo.corpus import pairs
from dragoman.text.learn import learn
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.optim.optimizer import Optimizer

RECIPE = ModelRecipe(d_model=32, n_heads=4, d_ff=64, encoder_layers=2, decoder_layers=2, dropout=0.0, norm_order="pre")


def curve(
    batches: list[tuple[FlatSentences, FlatSentences]], vocabulary: int, shape: PackedShape | None
) -> list[float]:
    torch.manual_seed(5)
    model = Transformer(RECIPE, vocabulary)
    task, optimizer = TranslationLoss(model, smoothing=0.1, pad=0), Optimizer(model, TrainRecipe())
    losses = []
    for source, target in batches:
        batch = make_batch(np.arange(len(source.lengths)), source, target, shape, state=0)
        loss = task(batch)
        (loss.smoothed / batch.target_tokens).backward()
        optimizer.step(3e-3)
        optimizer.clear_gradients()
        losses.append(loss.plain.item() / batch.target_tokens)
    return losses


def test_padded_and_packed_learn_alike() -> None:
    lines = list(pairs(1200, split="train"))
    tokenizer = learn("bpe", [text for pair in lines for text in pair], vocabulary_size=500)
    ids = [[tokenizer.encode(pair[side]) for pair in lines] for side in (0, 1)]

    def flat(rows: list[list[int]]) -> FlatSentences:
        return FlatSentences(
            np.concatenate([np.array(r, np.int64) for r in rows]), np.array([len(r) for r in rows], np.int64)
        )

    batches = [(flat(ids[0][i : i + 24]), flat(ids[1][i : i + 24])) for i in range(0, 1200, 24)]
    longest = max(int(side.lengths.max()) for batch in batches for side in batch) + 1
    sizes = [max(int(batch[side].lengths.sum()) + 24 for batch in batches) for side in (0, 1)]
    padded = curve(batches, tokenizer.vocabulary_size, None)
    packed = curve(batches, tokenizer.vocabulary_size, PackedShape(sizes[0] + 5, sizes[1] + 9, 27, longest))
    np.testing.assert_allclose(padded, packed, rtol=2e-3)
    assert padded[-1] < 0.7 * padded[0]  # there is a curve to compare
