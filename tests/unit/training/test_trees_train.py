"""Training with trees: bit-exact resume, both layouts, and errors without trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.evaluation.validation import Validation
from dragoman.models.loading import build_model
from dragoman.text.special_tokens import PAD
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.steps.eager import empty_batch
from raising import raises
from tiny_run import Crash, CrashAt, difference, outcome, prepare_tiny, recipe, tiny_run

SYNTAX = "model.positions=syntax"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    prepare_tiny(folder, trees=True)
    return folder


@pytest.mark.parametrize("changes", [("data.sampling=0.2",), ("data.layout=packed",)], ids=["sampled", "packed"])
def test_crashes_leave_no_trace(data: Path, tmp_path: Path, changes: tuple[str, ...]) -> None:
    tiny_run(data, tmp_path / "whole", SYNTAX, *changes)
    for step in (2, 7, 11):
        with pytest.raises(Crash):
            tiny_run(data, tmp_path / "m", SYNTAX, *changes, reporter=CrashAt(step))
    tiny_run(data, tmp_path / "m", SYNTAX, *changes)
    assert difference(outcome(tmp_path / "whole"), outcome(tmp_path / "m")) == ""


def test_the_loss_is_the_same_in_both_layouts_and_the_trees_matter(data: Path) -> None:
    prepared, settings = Prepared.open(data / "prepared"), recipe(SYNTAX, "model.dropout=0")
    model = build_model(settings.model, prepared.tokenizers[0].vocabulary_size, PAD)
    task = TranslationLoss(model, 0.1, PAD)
    sums = []
    for layout in ("padded", "packed"):
        with prepared.loader(replace(settings.data, layout=layout), epochs=1, pin=False) as loader:
            sums.append(sum(float(task(batch).plain) for batch in loader))
    assert sums[0] == pytest.approx(sums[1], rel=1e-5)
    with prepared.loader(settings.data, epochs=1, pin=False) as loader:
        batch = next(loader)
    assert batch.source_depths is not None and batch.source_depths.max() > 2
    flat = replace(batch, source_depths=batch.source_depths * 0)
    assert abs(float(task(batch).plain) - float(task(flat).plain)) > 1e-3


def test_a_rank_without_a_batch_takes_part(data: Path) -> None:
    model = build_model(recipe(SYNTAX).model, 300, PAD)
    loss = TranslationLoss(model, 0.1, PAD)(empty_batch(torch.device("cpu")))
    loss.smoothed.backward()
    assert float(loss.smoothed.detach()) == 0
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_validation_reads_the_trees(data: Path) -> None:
    prepared, settings = Prepared.open(data / "prepared"), recipe(SYNTAX)
    model = build_model(settings.model, prepared.tokenizers[0].vocabulary_size, PAD).eval()
    found = Validation(prepared, settings.data, torch.device("cpu"), max_length=9)(model)
    task, sums = TranslationLoss(model, 0.1, PAD), []
    with prepared.loader(settings.data, "valid", epochs=1, pin=False) as loader, torch.inference_mode():
        batches = list(loader)
        for deep in (1, 0):  # as the trees are, and all of them flat
            losses = [task(replace(batch, source_depths=batch.source_depths * deep)) for batch in batches]
            sums.append(sum(float(loss.plain) for loss in losses) / sum(batch.target_tokens for batch in batches))
    assert found.figures["loss"] == pytest.approx(sums[0], abs=1e-5)
    assert abs(sums[1] - sums[0]) > 1e-3


def test_data_without_trees_are_refused(tmp_path: Path) -> None:
    prepare_tiny(tmp_path)
    with raises(TrainingError, "missing_trees", "--source-trees"):
        tiny_run(tmp_path, tmp_path / "out", SYNTAX)


def test_other_models_may_be_trained_on_the_same_data(data: Path, tmp_path: Path) -> None:
    prepare_tiny(tmp_path)
    tiny_run(data, tmp_path / "with", "train.steps=3")
    tiny_run(tmp_path, tmp_path / "without", "train.steps=3")
    both = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("with", "without")]
    assert both[0] == both[1]
