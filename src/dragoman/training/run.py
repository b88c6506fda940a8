"""A training run: from prepared data to a finished model directory.

my-model/            the model: recipe.toml, model.safetensors, model.json, tokenizers, card.md, manifest.json
my-model/training/   what made it: run.json, metrics.jsonl, result.json, curve.png, checkpoints/, prepared/
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import nn

from dragoman.config import Recipe
from dragoman.config.forecast import ForecasterRecipe
from dragoman.data.alignment.store import ensure_alignments
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, DragomanError, RecipeError, TrainingError
from dragoman.files import MANIFEST, HeldLock, exclusive_lock, write_atomically
from dragoman.modeldir.adapter import AdapterInfo
from dragoman.modeldir.forecast_info import ForecastInfo
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.layout import TRAINING, verify_model
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model
from dragoman.nn.lora import add_adapters, trained_weights
from dragoman.progress import Reporter
from dragoman.text import Tokenizer, vocabulary_sizes
from dragoman.text.special_tokens import PAD
from dragoman.training.adapters import adapter_info, check_adapter_settings, find_recorded_base
from dragoman.training.checkpoints.checkpoint import Checkpoints
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.shared_files import check_starting_weights
from dragoman.training.reporting.base_model import BaseModel
from dragoman.training.reporting.card import trained_model_info, training_card
from dragoman.training.reporting.metrics import RESULT_FILE, draw_training_curves, read_result
from dragoman.training.run_record import (
    LOCK,
    RUN,
    RunRecord,
    check_output_directory,
    check_record,
    confirm_record,
    prepared_directory,
    read_record,
)
from dragoman.training.selection import SelectedWeights, select_weights
from dragoman.training.starting_weights import load_starting_weights
from dragoman.training.steps.eager import keep_freed_memory
from dragoman.training.trainer import Evaluate, Trainer
from dragoman.training.workload import TranslationWorkload

ALIGNMENTS: Final = "alignments"  # of the training data, for guided alignment


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
    ranks.broadcast(prepared.verify)  # whether the run begins or resumes
    check_learned_positions(prepared, recipe)
    if recipe.model.reads_trees and not prepared.has_trees:
        raise TrainingError(
            f"model.positions='syntax' needs the trees of the source sentences, but {prepared.directory} was prepared "
            "without them; prepare it with --source-trees",
            code="missing_trees",
        )
    if ranks.device.type == "cpu":
        keep_freed_memory()
    check_adapter_settings(recipe, start_from)
    if start_from is not None:
        check_starting_weights(start_from, ranks)
    model = new_model(prepared, recipe, start_from)
    with ExitStack() as stack:
        # Only now: an invalid setting fails before the run is recorded, so it can be changed.
        locks = list[HeldLock]()

        def claim() -> None:
            record = RunRecord.current(recipe, prepared, start_from, ranks)
            locks.append(open_run(stack, out, record, reporter))

        ranks.broadcast(claim)
        if recipe.train.alignment_weight:
            ranks.broadcast(lambda: ensure_alignments(prepared, out / TRAINING / ALIGNMENTS, reporter))
        fine_tuning = start_from is not None
        used = replace(recipe, train=replace(recipe.train, accumulate=recorded_accumulation(out, ranks)))
        trainer = make_trainer(model, prepared, used, out, evaluate, reporter, ranks, fine_tuning, locks)
        trainer.run()
        write_model(trainer, out, partial(write_result, out, prepared, recipe))


def recorded_accumulation(out: Path, ranks: Ranks) -> int:
    """The value of train.accumulate that keeps the number of batches in a step, whatever the number of ranks."""
    return ranks.broadcast(lambda: RunRecord.read(out / TRAINING / RUN).micro_batches(ranks.world))


def finish_run(
    out: Path, *, validation: Callable[[Prepared, Recipe], Evaluate], reporter: Reporter, ranks: Ranks
) -> Recipe:
    """Write the model of a run that was stopped, from the checkpoints that it has; return the recipe of the run."""
    record = read_record(out)
    if record is None:
        raise TrainingError(
            f"{out} is not a training run: {out / TRAINING / RUN} does not exist; give the --out of a training run",
            code="run_not_found",
        )
    if record.forecasts:
        raise TrainingError(
            f"{out} holds the training of a forecaster; run the same `dragoman forecast train` to continue it, with "
            "`--set train.steps=N` to end it at a step that it has reached",
            code="run_mismatch",
        )
    prepared, recipe = Prepared.open(prepared_directory(out), verify=True), record.full_recipe()
    evaluate = validation(prepared, recipe)
    with exclusive_lock(out / TRAINING / LOCK, f"training in {out}") as lock:
        base = find_recorded_base(record) if recipe.train.lora else None
        model, fine_tuning = new_model(prepared, recipe, base), record.base is not None
        trainer = make_trainer(model, prepared, recipe, out, evaluate, reporter, ranks, fine_tuning, [lock])
        trainer.resume()
        if trainer.state.step == 0:
            raise TrainingError(
                f"{out} has no checkpoint of a step yet, so there are no trained weights to write; run the same "
                "`dragoman train` to continue it",
                code="checkpoint_not_found",
            )
        reporter.note(f"writing a model from step {trainer.state.step:,} of {recipe.train.steps:,}")
        write_model(trainer, out, partial(write_result, out, prepared, recipe), early=not trainer.finished())
    return recipe


def new_model(prepared: Prepared, recipe: Recipe, start_from: Path | None = None) -> nn.Module:
    """The model of a recipe with the initial weights of its seed, or those of a model; with new adapters, if any."""
    torch.manual_seed(recipe.train.seed)
    model = build_model(recipe.model, vocabulary_of(prepared), PAD)
    if start_from is not None:
        load_starting_weights(model, start_from, recipe.text.targets)
    if recipe.train.lora:
        add_adapters(model, recipe.train.lora, recipe.train.lora_scale, recipe.train.lora_projections)
    return model


def make_trainer(
    model: nn.Module,
    prepared: Prepared,
    recipe: Recipe,
    out: Path,
    evaluate: Evaluate,
    reporter: Reporter,
    ranks: Ranks,
    fine_tuning: bool,
    locks: Sequence[HeldLock],
) -> Trainer:
    """The trainer of the run in `out`; rank 0 holds its lock."""
    return Trainer(
        model,
        recipe.train,
        out / TRAINING,
        TranslationWorkload(
            prepared, recipe, ranks, out / TRAINING / ALIGNMENTS if recipe.train.alignment_weight else None
        ),
        d_model=recipe.model.d_model,
        evaluate=evaluate,
        fine_tuning=fine_tuning,
        reporter=reporter,
        ranks=ranks,
        writing=lambda: writing_into(out, locks),
    )


@contextmanager
def writing_into(out: Path, locks: Sequence[HeldLock]) -> Iterator[None]:
    """Raise TrainingError if the run's directory was removed or replaced, before writing or when writing fails."""

    def check() -> None:
        if not all(lock.in_place() for lock in locks):
            raise TrainingError(
                f"{out / TRAINING} was removed or replaced while the run was writing there, so the run stops; leave "
                "the directory in place and run the same command to start again",
                code="output_removed",
            )

    check()
    try:
        yield
    except (OSError, TrainingError):
        check()
        raise


def write_model(
    trainer: Trainer,
    out: Path,
    write: Callable[[SelectedWeights, Trainer, BaseModel | None, bool], None],
    *,
    early: bool = False,
) -> None:
    """Select the weights of the run and write its model with them; `early` means that the run can continue."""
    last, ema = trainer.gathered(trained_weights(trainer.model)), trainer.gathered(trainer.ema)
    evaluate = trainer.evaluate

    def select_and_write() -> None:
        assert evaluate is not None
        with trainer.writing():
            record = RunRecord.read(out / TRAINING / RUN)
            selected = select_weights(trainer, last, ema, evaluate, trainer.reporter)
        with trainer.writing():  # selecting takes a while
            write(selected, trainer, record.base_model(), early)

    trainer.ranks.broadcast(select_and_write)


def check_learned_positions(prepared: Prepared, recipe: Recipe) -> None:
    """Reject sentences that are longer than the learned positions, before one fails after hours."""
    learned = recipe.model.positions == "learned"
    limited = [
        side for side in ("source", "target") if learned or (recipe.model.pattern == "low_rank" and side == "source")
    ]
    splits = [prepared.split(name) for name in prepared.manifest["splits"]]
    sides = [getattr(split, side).lengths for split in splits for side in limited if len(split)]
    longest = max((int(lengths.max()) + 1 for lengths in sides), default=0)  # with EOS
    if longest > recipe.model.max_positions:
        raise RecipeError(
            f"the data have a sentence of {longest} tokens, but model.max_positions={recipe.model.max_positions} "
            f"positions are learned; use model.max_positions={longest} or more, or data.max_tokens="
            f"{recipe.model.max_positions - 1}",
            code="text_too_long",
        )


def open_run(stack: ExitStack, out: Path, record: RunRecord, reporter: Reporter) -> HeldLock:
    """Lock the directory for this run, and check that the run resumes with what it started with."""
    check_output_directory(out)
    training = out / TRAINING
    try:
        lock = stack.enter_context(exclusive_lock(training / LOCK, f"training in {out}"))
        for stale in (path for name in (RUN, RESULT_FILE) for path in training.glob(f".{name}.*")):
            stale.unlink()  # left by a process that was killed while writing
        check_record(training / RUN, record)
        mark_unfinished(training)
        latest = max(Checkpoints(training / "checkpoints", reporter.note).steps(), default=0)
        confirm_record(training / RUN, record, reporter, latest)
        return lock
    except OSError as error:
        if isinstance(error, DragomanError):
            raise
        raise TrainingError(
            f"cannot write {training}: {error.strerror or error}; choose another --out, or change its permissions",
            code="cannot_write",
        ) from None


def mark_unfinished(training: Path) -> None:
    """Record in an existing result that its run continues; its model stays in place until the next one replaces it."""
    path = training / RESULT_FILE
    if path.exists() and not is_early(training.parent):
        write_atomically(path, json.dumps({**read_result(training), "early": True}, indent=1) + "\n")


def is_early(out: Path) -> bool:
    """Whether the model in `out` was made before its run ended; a damaged result is written again from checkpoints."""
    training = out / TRAINING
    result = read_result(training)
    if not result and (training / RESULT_FILE).exists():
        return bool(Checkpoints(training / "checkpoints", lambda warning: None).steps())
    return bool(result.get("early"))


def vocabulary_of(prepared: Prepared) -> int | tuple[int, int]:
    """The size of the shared vocabulary, or of both."""
    return vocabulary_sizes(*prepared.tokenizers)


def write_result(
    out: Path,
    prepared: Prepared,
    recipe: Recipe,
    selected: SelectedWeights,
    trainer: Trainer,
    base: BaseModel | None,
    early: bool = False,
) -> None:
    """Write the model directory around the run that trained it."""
    info = trained_model_info(prepared, base)
    card = training_card(recipe, prepared, selected.name, selected.scores, trainer.state, info, base)
    save_result(out, selected, trainer, early, recipe, info, card, prepared.tokenizers, adapter_info(recipe, base))


def save_result(
    out: Path,
    selected: SelectedWeights,
    trainer: Trainer,
    early: bool,
    recipe: Recipe | ForecasterRecipe,
    info: ModelInfo | ForecastInfo,
    card: str,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    adapter: AdapterInfo | None = None,
) -> None:
    """Write the result and the curve of a run, then its model, or its adapter."""
    try:
        result = {"steps": trainer.state.step, "weights": selected.name, "scores": dict(selected.scores)}
        if early:
            result["early"] = True
        write_atomically(out / TRAINING / RESULT_FILE, json.dumps(result, indent=1) + "\n")
        draw_training_curves(list(trainer.metrics.read()), out / TRAINING / "curve.png", *trainer.workload.curve)
        save_model(
            out,
            recipe=recipe,
            info=info,
            weights=as_arrays(selected.weights),
            tokenizers=tokenizers if adapter is None else None,
            card=card,
            staging=out / TRAINING / "model",
            adapter=adapter,
        )
    except OSError as error:
        reason = error if isinstance(error, DragomanError) else f"cannot write {out}: {error.strerror or error}"
        raise TrainingError(
            f"training is done and its checkpoints are complete, but {reason}; free some space and run the same "
            "command to write it",
            code="cannot_write",
        ) from None
