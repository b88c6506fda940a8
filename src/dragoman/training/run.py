"""One run from prepared data to a finished model directory.

my-model/            the model: recipe.toml, model.safetensors, model.json, tokenizers, card.md, manifest.json
my-model/training/   what made it: run.json, metrics.jsonl, curve.png, checkpoints/, prepared/
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from dragoman.config import Recipe, TrainRecipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, DragomanError, RecipeError, TrainingError
from dragoman.files import MANIFEST, NEEDED, only_one, sync, verify_manifest, write_manifest
from dragoman.models.directory import build, load_weights, write_model
from dragoman.text import vocabulary_sizes
from dragoman.text.special_tokens import PAD
from dragoman.training.checkpoints.checkpoint import Checkpoints, average
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.reporting.card import write_card
from dragoman.training.reporting.curve import draw_curve
from dragoman.training.reporting.progress import Progress, Watch
from dragoman.training.run_record import LOCK, RUN, TRAINING, Begun, agree_with_before, own_recipe, refuse_foreign
from dragoman.training.steps.allocator import keep_freed_memory
from dragoman.training.trainer import HIGHER_IS_BETTER, Evaluate, Trainer


def finished(out: Path) -> bool:
    """Whether `out` holds a finished model."""
    if not (out / MANIFEST).exists():
        return False
    try:
        verify_manifest(out)
    except DamagedError as error:
        raise DamagedError(
            f"{error}; remove {out / MANIFEST} and run the same command to have it written from the checkpoints again"
        ) from None
    return True


def train(
    prepared: Prepared,
    recipe: Recipe,
    out: Path,
    *,
    evaluate: Evaluate,
    watch: Watch,
    ranks: Ranks,
    start_from: Path | None = None,
    names: tuple[str, str] = ("source", "target"),
) -> None:
    """Train until done and write the model; begin anew, or go on where an earlier call stopped."""
    check_lengths(prepared, recipe)
    if recipe.model.reads_trees and not prepared.has_trees:
        raise TrainingError(
            f"model.positions='syntax' needs the trees of the source sentences, and {prepared.directory} was "
            "prepared without; prepare it with --source-trees"
        )
    if ranks.device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(recipe.train.seed)
    model = build(recipe.model, vocabulary_of(prepared), PAD)
    if start_from is not None:
        begin_from(model, start_from, recipe.text.targets)
    with ExitStack() as held:
        # Only now: whoever is told that a setting cannot be, and changes it, has not begun with another.
        ranks.tell(lambda: begin(held, out, Begun.now(recipe, prepared, start_from, ranks), watch))
        trainer = Trainer(
            model,
            recipe.train,
            out / TRAINING,
            lambda state: prepared.loader(recipe.data, rank=ranks.rank, world=ranks.world, state=state),
            d_model=recipe.model.d_model,
            pad=PAD,
            evaluate=evaluate,
            watch=watch,
            ranks=ranks,
        )
        trainer.run()
        last, ema = trainer.gathered(trainer.model.state_dict()), trainer.gathered(trainer.ema)

        def close() -> None:
            chosen = choose(trainer, last, ema, evaluate, watch)
            finish(out, prepared, recipe, chosen.weights, chosen.told, trainer, names)

        ranks.tell(close)


def check_lengths(prepared: Prepared, recipe: Recipe) -> None:
    """Refuse sentences that are longer than the positions to be learned; the longest may else come after many hours."""
    learned = recipe.model.positions == "learned"
    limited = [
        side for side in ("source", "target") if learned or (recipe.model.pattern == "low_rank" and side == "source")
    ]
    splits = [prepared.split(name) for name in prepared.manifest["splits"]]
    sides = [getattr(split, side).lengths for split in splits for side in limited if len(split)]
    longest = max((int(lengths.max()) + 1 for lengths in sides), default=0)  # with its mark
    if longest > recipe.model.max_positions:
        raise RecipeError(
            f"the data have a sentence of {longest} tokens, but model.max_positions={recipe.model.max_positions} "
            f"positions are learned; use model.max_positions={longest} or more, or data.max_tokens="
            f"{recipe.model.max_positions - 1}"
        )


def begin_from(model: nn.Module, start_from: Path, targets: Sequence[str] = ()) -> None:
    """Take the weights of a finished model, verified, into one of the same sizes, but for target languages to add."""
    verify_manifest(start_from, NEEDED)
    theirs = own_recipe(start_from).text.targets
    weights = with_tokens(load_weights(start_from), model.state_dict(), len(theirs), len(targets) - len(theirs))
    found, asked = ({name: tuple(w.shape) for name, w in of.items()} for of in (weights, model.state_dict()))
    for name in sorted({*found, *asked}):
        if found.get(name) != asked.get(name):
            raise TrainingError(
                f"the weights of {start_from} do not fit the recipe: {name} has shape {found.get(name, 'none')} there, "
                f"and the recipe asks for {asked.get(name, 'none')}; fine-tune with its own: leave --recipe and --set "
                "model... out"
            )
    model.load_state_dict(weights)


def with_tokens(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], languages: int, added: int
) -> dict[str, Tensor]:
    """The weights with rows for the tokens of `added` target languages, in the embeddings that have as many more.

    The tokens of languages are the last: a new one begins as the mean of those that are there, or, where there are
    none, by chance.
    """
    made = dict(weights)
    for name, weight in weights.items():
        wanted = tuple(fresh[name].shape) if name in fresh else ()
        if added > 0 and name.startswith("embeddings.") and wanted == (len(weight) + added, *weight.shape[1:]):
            rows = weight[-languages:].mean(0, keepdim=True).expand(added, *weight.shape[1:]) if languages else None
            made[name] = torch.cat([weight, fresh[name][-added:].to(weight) if rows is None else rows])
    return made


def begin(held: ExitStack, out: Path, begun: Begun, watch: Watch) -> None:
    """Take the directory for this run alone, and see that it goes on as it began."""
    refuse_foreign(out)
    training = out / TRAINING
    try:
        held.enter_context(only_one(training / LOCK, f"training in {out}"))
        for stale in training.glob(f".{RUN}.*"):  # of a process that was killed as it began
            stale.unlink()
        agree_with_before(training / RUN, begun, watch)
    except OSError as error:
        if isinstance(error, DragomanError):
            raise
        raise TrainingError(f"{training} cannot be written: {error.strerror or error}; choose another --out") from None


def vocabulary_of(prepared: Prepared) -> int | tuple[int, int]:
    """The size of the shared vocabulary, or of both."""
    return vocabulary_sizes(*prepared.tokenizers)


@dataclass(frozen=True)
class Chosen:
    """The weights of the model, and what its card tells of them."""

    weights: Mapping[str, Tensor]
    told: dict[str, Any]


def choose(
    trainer: Trainer,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    evaluate: Evaluate,
    watch: Watch,
) -> Chosen:
    """The weights that do best on the validation set: the last ones, the best single ones, or an average of several.

    Only checkpoints that every run of these settings has are looked at: being stopped and resumed changes nothing.
    """
    checkpoints, recipe, progress = trainer.checkpoints, trainer.recipe, trainer.progress
    last = {name: tensor.detach().cpu().clone() for name, tensor in last.items()}  # the model is lent below
    sign = 1 if HIGHER_IS_BETTER[recipe.stop_on] else -1
    best: tuple[float, Chosen] | None = None
    for name, weights in candidates(checkpoints, recipe, progress, last, ema, watch).items():
        with trainer.replica.filled(trainer.model, weights) as model:
            evaluation = evaluate(model.eval(), trainer.stop.check)
        watch.note(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in evaluation.figures.items()))
        usable = all(math.isfinite(value) for value in evaluation.figures.values())
        figure = evaluation.figures[recipe.stop_on] * sign if usable else -math.inf
        if best is None or figure > best[0]:
            best = (figure, Chosen(weights, {"weights": name, "valid": dict(evaluation.figures)}))
    assert best is not None  # the last weights are always a candidate
    if best[0] == -math.inf:
        rate = "" if recipe.learning_rate is None else f" (it was {recipe.learning_rate})"
        raise TrainingError(
            "the run went astray: whichever of its weights are taken, their figures on the validation set are no "
            f"numbers; train anew with another --out and a lower train.learning_rate{rate}, or with train.clip=1.0"
        )
    watch.note(f"kept: {best[1].told['weights']}")
    return best[1]


def candidates(
    checkpoints: Checkpoints,
    recipe: TrainRecipe,
    progress: Progress,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    watch: Watch,
) -> dict[str, Mapping[str, Tensor]]:
    """The weights to choose from, by the words for the card; a damaged checkpoint is left out, and named."""
    due = [step for step in checkpoints.steps() if step % recipe.save_every == 0 and step <= progress.step]
    whole: dict[int, Mapping[str, Tensor]] = {}
    for step in sorted({*due[-recipe.average :], progress.best_step} & set(checkpoints.steps())):
        try:
            whole[step] = checkpoints.weights(step)
        except DamagedError as error:
            watch.note(f"{error}; it is left out")
    found: dict[str, Mapping[str, Tensor]] = {}
    averaged = [step for step in due[-recipe.average :] if step in whole]
    if len(averaged) > 1:
        found[f"the average of the checkpoints {averaged}"] = average([whole[step] for step in averaged])
    if progress.best_step in whole and progress.best_step != progress.step:
        found[f"the checkpoint of step {progress.best_step}"] = whole[progress.best_step]
    found["the last weights"] = last
    if ema:
        found["the moving average"] = {**last, **{name: tensor.detach().cpu() for name, tensor in ema.items()}}
    return found


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
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        write_model(staging, recipe, vocabulary_of(prepared), weights)
        for file in prepared.tokenizers_directory.iterdir():
            shutil.copy2(file, staging / file.name)
        draw_curve(list(trainer.metrics.read()), out / TRAINING / "curve.png")
        write_card(staging, recipe, prepared, told, trainer.progress, names)
        for file in staging.iterdir():  # safetensors writes for its owner alone; a model is there to be shared
            file.chmod((staging / "card.md").stat().st_mode)
        write_manifest(staging)
        verify_manifest(staging)
        for file in sorted(staging.iterdir(), key=lambda f: f.name == MANIFEST):
            if file.name == MANIFEST:
                sync(out)  # the manifest never stands before what it promises
            file.replace(out / file.name)
        sync(out)
        staging.rmdir()
    except (OSError, SafetensorError) as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise TrainingError(
            f"the training is done and its checkpoints are whole, but {out} could not be written: "
            f"{getattr(error, 'strerror', None) or error}; make room and run the same command to have it written"
        ) from None
