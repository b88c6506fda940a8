"""A training run: from prepared data to a finished model directory.

my-model/            the model: recipe.toml, model.safetensors, model.json, tokenizers, card.md, manifest.json
my-model/training/   what made it: run.json, metrics.jsonl, result.json, curve.png, checkpoints/, prepared/
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.config import Recipe, TrainRecipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, DragomanError, RecipeError, TrainingError
from dragoman.files import MANIFEST, exclusive_lock, write_atomically
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import TRAINING, verify_model
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model, load_weights
from dragoman.progress import Reporter
from dragoman.text import vocabulary_sizes
from dragoman.text.special_tokens import PAD
from dragoman.training.checkpoints.checkpoint import Checkpoints, TrainingState, average_weights
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.reporting.card import trained_model_info, training_card
from dragoman.training.reporting.metrics import RESULT_FILE, draw_training_curves
from dragoman.training.run_record import LOCK, RUN, RunRecord, check_output_directory, confirm_record
from dragoman.training.steps.eager import keep_freed_memory
from dragoman.training.trainer import HIGHER_IS_BETTER, Evaluate, Trainer


def is_finished(out: Path) -> bool:
    """Whether `out` holds a finished model."""
    if not (out / MANIFEST).exists():
        return False
    try:
        verify_model(out)
    except DamagedError as error:
        raise DamagedError(
            f"{error}; remove {out / MANIFEST} and run the same command to write it from the checkpoints again",
            code=error.code,
        ) from None
    return True


def run_training(
    prepared: Prepared,
    recipe: Recipe,
    out: Path,
    *,
    evaluate: Evaluate,
    reporter: Reporter,
    ranks: Ranks,
    start_from: Path | None = None,
) -> None:
    """Start a run, or resume it where an earlier call stopped; train to the end and write the model."""
    check_learned_positions(prepared, recipe)
    if recipe.model.reads_trees and not prepared.has_trees:
        raise TrainingError(
            f"model.positions='syntax' needs the trees of the source sentences, but {prepared.directory} was prepared "
            "without them; prepare it with --source-trees",
            code="missing_trees",
        )
    if ranks.device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(recipe.train.seed)
    model = build_model(recipe.model, vocabulary_of(prepared), PAD)
    base = None
    if start_from is not None:
        load_initial_weights(model, start_from, recipe.text.targets)
        base = read_info(start_from)
    with ExitStack() as stack:
        # Only now: an invalid setting fails before the run is recorded, so it can be changed.
        ranks.broadcast(lambda: open_run(stack, out, RunRecord.current(recipe, prepared, start_from, ranks), reporter))
        trainer = Trainer(
            model,
            recipe.train,
            out / TRAINING,
            lambda state: prepared.loader(recipe.data, rank=ranks.rank, world=ranks.world, state=state),
            d_model=recipe.model.d_model,
            pad=PAD,
            evaluate=evaluate,
            reporter=reporter,
            ranks=ranks,
        )
        trainer.run()
        last, ema = trainer.gathered(trainer.model.state_dict()), trainer.gathered(trainer.ema)

        def finish() -> None:
            selected = select_weights(trainer, last, ema, evaluate, reporter)
            write_result(out, prepared, recipe, selected, trainer, base)

        ranks.broadcast(finish)


def check_learned_positions(prepared: Prepared, recipe: Recipe) -> None:
    """Reject sentences that are longer than the learned positions, before one fails after hours."""
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
            f"{recipe.model.max_positions - 1}",
            code="text_too_long",
        )


def load_initial_weights(model: nn.Module, start_from: Path, targets: Sequence[str] = ()) -> None:
    """Load the verified weights of a finished model into one of the same sizes, except for added target languages."""
    base_targets = read_recipe(start_from).text.targets
    verify_model(start_from)
    added = len(targets) - len(base_targets)
    weights = add_language_rows(load_weights(start_from), model.state_dict(), len(base_targets), added)
    found, expected = ({name: tuple(w.shape) for name, w in of.items()} for of in (weights, model.state_dict()))
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            raise TrainingError(
                f"the weights of {start_from} do not fit the recipe: {name} has shape {found.get(name, 'none')} there, "
                f"but the recipe asks for {expected.get(name, 'none')}; fine-tune with the model's own recipe: leave "
                "out --recipe and --set model...",
                code="weights_mismatch",
            )
    model.load_state_dict(weights)


def add_language_rows(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], languages: int, added: int
) -> dict[str, Tensor]:
    """The weights with a row for each of `added` target languages in every embedding that needs it.

    Language tokens are the last of the vocabulary. A new row is the mean of the `languages` rows that are there, or
    random if there are none.
    """
    extended = dict(weights)
    for name, weight in weights.items():
        shape = tuple(fresh[name].shape) if name in fresh else ()
        if added > 0 and name.startswith("embeddings.") and shape == (len(weight) + added, *weight.shape[1:]):
            rows = weight[-languages:].mean(0, keepdim=True).expand(added, *weight.shape[1:]) if languages else None
            extended[name] = torch.cat([weight, fresh[name][-added:].to(weight) if rows is None else rows])
    return extended


def open_run(stack: ExitStack, out: Path, record: RunRecord, reporter: Reporter) -> None:
    """Lock the directory for this run, and check that the run resumes with what it started with."""
    check_output_directory(out)
    training = out / TRAINING
    try:
        stack.enter_context(exclusive_lock(training / LOCK, f"training in {out}"))
        for stale in (path for name in (RUN, RESULT_FILE) for path in training.glob(f".{name}.*")):
            stale.unlink()  # of a process that was killed while it wrote
        confirm_record(training / RUN, record, reporter)
    except OSError as error:
        if isinstance(error, DragomanError):
            raise
        raise TrainingError(
            f"cannot write {training}: {error.strerror or error}; choose another --out, or change its permissions",
            code="cannot_write",
        ) from None


def vocabulary_of(prepared: Prepared) -> int | tuple[int, int]:
    """The size of the shared vocabulary, or of both."""
    return vocabulary_sizes(*prepared.tokenizers)


@dataclass(frozen=True)
class SelectedWeights:
    """The weights of the finished model, their name, and their scores on the validation set."""

    weights: Mapping[str, Tensor]
    name: str
    scores: Mapping[str, float]


def select_weights(
    trainer: Trainer,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    evaluate: Evaluate,
    reporter: Reporter,
) -> SelectedWeights:
    """The weights that score best on the validation set: the last, the best checkpoint's, or an average.

    Only checkpoints that every run with these settings has are considered: stopping and resuming changes nothing.
    """
    checkpoints, recipe, state = trainer.checkpoints, trainer.recipe, trainer.state
    last = {name: tensor.detach().cpu().clone() for name, tensor in last.items()}  # the model is lent below
    sign = 1 if HIGHER_IS_BETTER[recipe.stop_on] else -1
    best: tuple[float, SelectedWeights] | None = None
    for name, weights in weight_candidates(checkpoints, recipe, state, last, ema, reporter).items():
        with trainer.replica.with_weights(trainer.model, weights) as model:
            evaluation = evaluate(model.eval(), trainer.stop.check)
        reporter.note(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in evaluation.figures.items()))
        usable = all(math.isfinite(value) for value in evaluation.figures.values())
        figure = evaluation.figures[recipe.stop_on] * sign if usable else -math.inf
        if best is None or figure > best[0]:
            best = (figure, SelectedWeights(weights, name, dict(evaluation.figures)))
    assert best is not None  # the last weights are always a candidate
    if best[0] == -math.inf:
        rate = "" if recipe.learning_rate is None else f" (it was {recipe.learning_rate})"
        raise TrainingError(
            "training diverged: the figures on the validation set are not finite; train again with another --out and "
            f"a lower train.learning_rate{rate}, or with train.clip=1.0",
            code="diverged",
        )
    reporter.note(f"kept: {best[1].name}")
    return best[1]


def weight_candidates(
    checkpoints: Checkpoints,
    recipe: TrainRecipe,
    state: TrainingState,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    reporter: Reporter,
) -> dict[str, Mapping[str, Tensor]]:
    """The weights to choose from, by their names on the card; a damaged checkpoint is skipped, with a note."""
    due = [step for step in checkpoints.steps() if step % recipe.save_every == 0 and step <= state.step]
    intact: dict[int, Mapping[str, Tensor]] = {}
    for step in sorted({*due[-recipe.average :], state.best_step} & set(checkpoints.steps())):
        try:
            intact[step] = checkpoints.weights(step)
        except DamagedError as error:
            reporter.note(f"{error}; it is skipped")
    found: dict[str, Mapping[str, Tensor]] = {}
    averaged = [step for step in due[-recipe.average :] if step in intact]
    if len(averaged) > 1:
        found[f"the average of the checkpoints {averaged}"] = average_weights([intact[step] for step in averaged])
    if state.best_step in intact and state.best_step != state.step:
        found[f"the checkpoint of step {state.best_step}"] = intact[state.best_step]
    found["the last weights"] = last
    if ema:
        found["the moving average"] = {**last, **{name: tensor.detach().cpu() for name, tensor in ema.items()}}
    return found


def write_result(
    out: Path, prepared: Prepared, recipe: Recipe, selected: SelectedWeights, trainer: Trainer, base: ModelInfo | None
) -> None:
    """Write the model directory around the run that trained it."""
    info = trained_model_info(prepared, base)
    card = training_card(recipe, prepared, selected.name, selected.scores, trainer.state, info)
    try:
        result = {"steps": trainer.state.step, "weights": selected.name, "scores": dict(selected.scores)}
        write_atomically(out / TRAINING / RESULT_FILE, json.dumps(result, indent=1) + "\n")
        draw_training_curves(list(trainer.metrics.read()), out / TRAINING / "curve.png")
        save_model(
            out,
            recipe=recipe,
            info=info,
            weights=as_arrays(selected.weights),
            tokenizers=prepared.tokenizers,
            card=card,
            staging=out / TRAINING / "model",
        )
    except OSError as error:
        reason = error if isinstance(error, DragomanError) else f"{out} could not be written: {error.strerror or error}"
        raise TrainingError(
            f"training is done and its checkpoints are complete, but {reason}; make room and run the same command to "
            "write it",
            code="cannot_write",
        ) from None
