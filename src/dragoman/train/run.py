"""One run from prepared data to a finished model directory.

my-model/            the model: recipe.toml, model.safetensors, model.json, tokenisers, card.md, manifest.json
my-model/training/   what made it: run.json, metrics.jsonl, curve.png, checkpoints/, prepared/
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import Recipe
from dragoman.data.prepared import TOKENISERS, Prepared
from dragoman.errors import DamagedError, TrainingError
from dragoman.files import MANIFEST, verify_manifest, write_manifest, write_safely
from dragoman.models.directory import build, load_weights, write_model
from dragoman.text.special import PAD
from dragoman.train.card import write_card
from dragoman.train.checkpoint import average
from dragoman.train.curve import draw_curve
from dragoman.train.parallel import Ranks
from dragoman.train.progress import Evaluation, Watch
from dragoman.train.trainer import HIGHER_IS_BETTER, Trainer

TRAINING = "training"


def finished(out: Path) -> bool:
    """Whether `out` holds a finished model."""
    if not (out / MANIFEST).exists():
        return False
    verify_manifest(out)
    return True


def train(
    prepared: Prepared,
    recipe: Recipe,
    out: Path,
    *,
    evaluate: Callable[[nn.Module], Evaluation],
    watch: Watch,
    ranks: Ranks,
    start_from: Path | None = None,
    names: tuple[str, str] = ("source", "target"),
) -> None:
    """Train until done and write the model; begin anew, or go on where an earlier call stopped."""
    training = out / TRAINING
    if ranks.first:
        training.mkdir(parents=True, exist_ok=True)
        agree_with_before(training / "run.json", recipe, prepared.fingerprint, ranks.world, watch)
    ranks.wait()
    torch.manual_seed(recipe.train.seed)
    vocabulary = vocabulary_of(prepared)
    model = build(recipe.model, vocabulary, PAD)
    if start_from is not None:
        model.load_state_dict(load_weights(start_from))
    trainer = Trainer(
        model,
        recipe.train,
        training,
        lambda state: prepared.loader(recipe.data, rank=ranks.rank, world=ranks.world, state=state),
        d_model=recipe.model.d_model,
        pad=PAD,
        evaluate=evaluate,
        watch=watch,
        ranks=ranks,
    )
    trainer.run()
    if ranks.first:
        weights, told = choose(trainer, evaluate, watch)
        finish(out, prepared, recipe, weights, told, trainer, names)
    ranks.wait()


def vocabulary_of(prepared: Prepared) -> int | tuple[int, int]:
    """The size of the shared vocabulary, or of both."""
    source, target = prepared.tokenisers
    return source.vocabulary_size if source is target else (source.vocabulary_size, target.vocabulary_size)


def agree_with_before(path: Path, recipe: Recipe, data: str, world: int, watch: Watch) -> None:
    """Refuse to go on with other data or settings than the run began with, and name both values."""
    now: dict[str, Any] = {"recipe": asdict(recipe), "data": data, "processes": world}
    if not path.exists():
        write_safely(path, json.dumps(now, indent=1) + "\n")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = differences(before["recipe"], json.loads(json.dumps(now["recipe"])))
        old_data, old_world = before["data"], before["processes"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read ({error}); restore it, or choose another --out") from None
    if old_data != data:
        changed.append(f"the data had fingerprint {old_data[:12]}, and now has {data[:12]}")
    if changed:
        listed = "\n  ".join(changed)
        raise TrainingError(
            f"{path.parent.parent} was begun with other settings:\n  {listed}\nGive the same as before to go on, "
            "or another --out to begin anew"
        )
    if old_world != world:
        watch.note(
            f"the run was begun with {old_world} processes and goes on with {world}: sums are taken in another order, "
            "so that the result is equal within rounding and no longer to the bit"
        )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each value that is not what it was."""
    found = []
    for section in now:
        for key in sorted({*before.get(section, {}), *now[section]}):
            old, new = before.get(section, {}).get(key), now[section].get(key)
            if old != new:
                found.append(f"{section}.{key} was {old!r}, and is now {new!r}")
    return found


def choose(
    trainer: Trainer, evaluate: Callable[[nn.Module], Evaluation], watch: Watch
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights that do best on the validation set: the last ones, the best single ones, or an average of several."""
    checkpoints, recipe, progress = trainer.checkpoints, trainer.recipe, trainer.progress
    due = [step for step in checkpoints.steps() if step % recipe.save_every == 0][-recipe.average :]
    candidates: dict[str, Callable[[], dict[str, Tensor]]] = {}
    if len(due) > 1:
        candidates[f"the average of the checkpoints {due}"] = lambda: average([checkpoints.weights(s) for s in due])
    if progress.best_step in checkpoints.steps():
        candidates[f"the checkpoint of step {progress.best_step}"] = lambda: checkpoints.weights(progress.best_step)
    candidates["the last weights"] = lambda: {k: v.cpu().clone() for k, v in trainer.model.state_dict().items()}
    if trainer.ema:
        candidates["the moving average"] = lambda: {**trainer.model.state_dict(), **trainer.ema}
    chosen: tuple[float, str, dict[str, Tensor], Evaluation] | None = None
    for name, weights in candidates.items():
        tried = weights()
        trainer.model.load_state_dict(tried)
        evaluation = evaluate(trainer.model.eval())
        figure = evaluation.figures[recipe.stop_on] * (1 if HIGHER_IS_BETTER[recipe.stop_on] else -1)
        watch.note(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in evaluation.figures.items()))
        if chosen is None or figure > chosen[0]:
            chosen = (figure, name, tried, evaluation)
    assert chosen is not None  # the last weights are always a candidate
    watch.note(f"kept: {chosen[1]}")
    return chosen[2], {"weights": chosen[1], "valid": dict(chosen[3].figures)}


def finish(
    out: Path,
    prepared: Prepared,
    recipe: Recipe,
    weights: Mapping[str, Tensor],
    told: Mapping[str, Any],
    trainer: Trainer,
    names: tuple[str, str],
) -> None:
    """Write the model beside its place, then move it in; the manifest comes last."""
    staging = out / TRAINING / "model"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    write_model(staging, recipe, vocabulary_of(prepared), weights)
    for file in (prepared.directory / TOKENISERS).iterdir():
        shutil.copy2(file, staging / file.name)
    entries = list(trainer.metrics.read())
    draw_curve(entries, out / TRAINING / "curve.png")
    write_card(staging, recipe, prepared, told, trainer.progress, names)
    write_manifest(staging)
    verify_manifest(staging)
    for file in sorted(staging.iterdir(), key=lambda f: f.name == MANIFEST):
        file.replace(out / file.name)
    staging.rmdir()
