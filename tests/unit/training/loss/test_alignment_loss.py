"""Guided alignment: its loss and gradients against a loop, in both layouts, and a run that learns to align."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman import Transformer
from dragoman.config import ModelRecipe, Recipe
from dragoman.config.recipe import guided_head
from dragoman.data.batch import Batch, BatchLinks, FlatSentences, make_batch
from dragoman.data.batching import PackedShape
from dragoman.errors import RecipeError
from dragoman.models.seq2seq import AttentionMaps
from dragoman.training.loss.alignment import AlignmentGuidance
from dragoman.training.loss.cross_entropy import LossSum, TranslationLoss, layouts, smoothed_cross_entropy
from dragoman.translation.alignment import align
from dragoman.translation.alignment_head import AlignmentAttention, alignment_attention
from dragoman.translation.translator import Translator
from raising import raises
from tiny_run import assert_crashes_leave_no_trace, prepare_tiny, tiny_run

V, LAYER, HEAD, WEIGHT = 13, 1, 2, 0.3
LENGTHS = [np.array([3, 5, 1]), np.array([4, 2, 6])]
LINKS = [(0, 0, 2), (0, 3, 0), (0, 3, 1), (1, 1, 4), (2, 0, 0), (2, 5, 0)]  # sentence, target, source


def setting(shape: PackedShape | None) -> tuple[TranslationLoss, Batch]:
    torch.manual_seed(3)
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0)
    flat = [FlatSentences(np.random.default_rng(i).integers(4, V, n.sum()), n) for i, n in enumerate(LENGTHS)]
    links = BatchLinks(*(np.array(column) for column in zip(*LINKS, strict=True)))
    task = TranslationLoss(Transformer(recipe, V), 0.1, 0, 0.0, AlignmentGuidance(LAYER, HEAD, WEIGHT))
    return task, make_batch(np.arange(3), *flat, shape, 0, None, links)


@pytest.mark.parametrize("shape", [None, PackedShape(24, 32, 5, 9)], ids=["padded", "packed"])
def test_loss_and_gradients_are_those_of_a_loop(shape: PackedShape | None) -> None:
    task, batch = setting(shape)
    model = task.model
    assert isinstance(model, Transformer)
    found = task(batch)
    gradients = torch.autograd.grad(found.smoothed, list(model.parameters()), allow_unused=True)
    maps = AttentionMaps()
    model.hidden(batch.source, batch.target_in, *layouts(batch), maps)
    attention = maps.cross[LAYER][:, HEAD]
    loss = torch.zeros(())
    for sentence, target, source in LINKS:
        links = sum((s, t) == (sentence, target) for s, t, _ in LINKS)
        loss = loss - attention[sentence, target + 1, source].log() / links  # the step that reads the token
    plain = TranslationLoss(model, 0.1, 0)(batch)
    torch.testing.assert_close(found.smoothed, plain.smoothed + WEIGHT * loss)
    torch.testing.assert_close(found.plain, plain.plain)
    expected = torch.autograd.grad(plain.smoothed + WEIGHT * loss, list(model.parameters()), allow_unused=True)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_evaluation_leaves_it_out() -> None:
    task, batch = setting(None)
    assert torch.equal(task.eval()(batch).smoothed, TranslationLoss(task.model, 0.1, 0)(batch).smoothed)


def test_the_guided_head_must_exist() -> None:
    for wrong in ("train.alignment_head=9", "train.alignment_layer=7", "model.attention=additive"):
        with raises(RecipeError, "conflicting_settings" if "additive" in wrong else "out_of_range"):
            Recipe.from_changes(["train.alignment_weight=0.05", wrong])
    assert guided_head(Recipe.from_changes(["train.alignment_weight=0.05", "model.decoder_layers=1"])) == (0, 0)
    assert guided_head(Recipe.from_changes(["train.alignment_weight=0.05"])) == (4, 0)
    assert guided_head(Recipe()) is None


GUIDED = ("train.alignment_weight=1.0", "train.alignment_head=2")


@pytest.mark.parametrize(
    "changes", [("data.sampling=0.2",), ("data.layout=packed", "train.r_drop=1")], ids=["sampled", "packed"]
)
def test_crashes_leave_no_trace(tmp_path: Path, changes: tuple[str, ...]) -> None:
    prepare_tiny(tmp_path)
    assert_crashes_leave_no_trace(tmp_path, tmp_path / "runs", *GUIDED, *changes)


def test_the_head_learns_to_align(tmp_path: Path) -> None:
    prepare_tiny(tmp_path)
    more = ("train.steps=90", "train.warmup_steps=30", "train.accumulate=1", "train.save_every=90", "train.keep=5")
    tiny_run(tmp_path, tmp_path / "m", *GUIDED, *more, "train.evaluate_every=90", "train.ema=0", "train.average=1")
    translator = Translator.load(tmp_path / "m", engine="torch")
    head = translator.alignment_head
    assert (head.layer, head.head, head.step) == (0, 1, "reads")
    pair = "one two three four five six", "eins zwei drei vier fünf sechs"
    ids = translator.source.encode(pair[0]), translator.target.encode(pair[1])
    (attention,) = alignment_attention(translator.engines.forced(), [ids], AlignmentAttention(head))
    links = align(attention, translator.source.tokens(ids[0]), translator.target.tokens(ids[1]))
    assert sum(source == target for source, target in links) >= 4


def test_a_packed_step_is_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA graphs need: no shape depends on the data, and nothing is read back."""

    def as_on_a_gpu(task: TranslationLoss, hidden: Tensor, weight: Tensor, labels: Tensor) -> LossSum:
        return smoothed_cross_entropy(F.linear(hidden, weight), labels, task.smoothing, labels != task.pad)

    monkeypatch.setattr(TranslationLoss, "_cross_entropy", as_on_a_gpu)
    task, batch = setting(PackedShape(24, 32, 5, 9))
    compiled = torch.compile(task, backend="eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(batch).smoothed, task(batch).smoothed)
