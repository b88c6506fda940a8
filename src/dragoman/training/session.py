"""One call of `dragoman train`: plan the run or load its record, set the threads, train; or only plan.

A new run on a CPU is measured before its first step, and the fastest number of threads is recorded with it. A resumed
run uses the recorded number, so that its sums are taken in the same order.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from dragoman.config import Recipe
from dragoman.cpu import available_cores
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.modeldir.layout import TRAINING, model_kind
from dragoman.modeldir.locate import read_recipe
from dragoman.progress import Evaluation, Reporter, SilentReporter, clock
from dragoman.training.adapters import check_adapter_settings
from dragoman.training.defaults import Choice
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.shared_files import open_shared
from dragoman.training.duration import epoch_length, run_seconds, step_seconds
from dragoman.training.plan import TrainingPlan
from dragoman.training.run import finish_run, is_early, is_finished, new_model, run_training
from dragoman.training.run_record import (
    RUN,
    RunRecord,
    check_output_directory,
    check_record,
    prepared_directory,
    read_record,
)
from dragoman.training.speed import THREADS_VARIABLE, Speed, measure_speed, thread_options, threads_kept
from dragoman.training.swapped_corpora import swapped_corpora_warning
from dragoman.values import describe_value, plural


class Validator(Protocol):
    """Evaluates a model on the validation set of a run."""

    def __call__(self, model: Any, check: Any, /) -> Evaluation:
        """The figures and samples of a model; `check` is called between batches, and may raise."""

    def estimate_seconds(self, model: Any, /) -> float:
        """How long an evaluation takes."""


class MakeValidator(Protocol):
    """Makes the validator of a run; rejects data without a validation set."""

    def __call__(self, prepared: Prepared, recipe: Recipe, device: torch.device, /) -> Validator:
        """The validator for prepared data."""


def check_minutes(minutes: float | None, changes: Sequence[str]) -> None:
    """Reject an invalid time, and a length that is given twice."""
    if minutes is None:
        return
    if isinstance(minutes, bool) or not isinstance(minutes, int | float):
        raise TrainingError(f"minutes must be a number; got {describe_value(minutes)}", code="wrong_type")
    if not 0 < minutes < float("inf"):
        raise TrainingError(f"minutes must be above 0; got {minutes:g}", code="out_of_range")
    if any(change.partition("=")[0].strip() == "train.steps" for change in changes):
        raise TrainingError(
            "--minutes and train.steps both set the length of the run; give one of them", code="conflicting_options"
        )


@dataclass(frozen=True)
class PlannedRun:
    """A training run that has not started: its recipe, and what it takes on this machine.

    Times are in seconds and memory in bytes, both estimated from a few steps. `choices` are the settings that were
    chosen for the data and the machine.
    """

    recipe: Recipe
    choices: Sequence[Choice]
    train_pairs: int
    valid_pairs: int
    parameters: int
    steps_per_epoch: int
    threads: int
    seconds_per_step: float
    seconds_per_evaluation: float
    seconds: float
    memory: int
    prepared: Path

    def summary(self) -> str:
        """The plan as a few lines of text."""
        model, train = self.recipe.model, self.recipe.train
        epochs = train.steps / self.steps_per_epoch
        sizes = f"{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model}"
        return "\n".join(
            [
                f"data        {self.train_pairs:,} pairs to train on, {self.valid_pairs:,} to validate with",
                f"model       {sizes}, {self.parameters:,} parameters",
                f"steps       {train.steps:,} ({epochs:,.1f} epochs), evaluated every {train.evaluate_every:,}",
                f"time        about {clock(self.seconds)}: {self.seconds_per_step:.2f} s per step, "
                f"{self.seconds_per_evaluation:.1f} s per evaluation, {plural(self.threads, 'thread')}",
                f"memory      about {self.memory / 2**30:.1f} GiB",
                f"nothing was trained; the prepared data stay in {self.prepared} for the run itself",
            ]
        )


@dataclass
class TrainingSession:
    """The arguments of a training call, and the ranks that run it."""

    out: Path
    corpora: Sequence[Corpus]
    valid: Sequence[Corpus]
    recipe: Recipe | str | Path | None
    changes: Sequence[str]
    start_from: Path | None
    minutes: float | None
    ranks: Ranks
    reporter: Reporter
    make_validator: MakeValidator

    def __post_init__(self) -> None:
        """Reject an invalid time, a length that is given twice, and the model to start from as the one to write."""
        check_minutes(self.minutes, self.changes)
        if self.start_from is not None and self.out.resolve() == self.start_from.resolve():
            raise TrainingError(
                f"{self.out} is the model to start from, which stays as it is; choose another --out",
                code="conflicting_options",
            )

    def train(self) -> Recipe:
        """Train to the end, or do nothing if the run is finished; return its recipe."""
        out, ranks = self.out, self.ranks
        with ranks.guard(), threads_kept():
            planned = ranks.broadcast(self._plan_training)
            if planned is None:
                if prepared_directory(out).exists():
                    why, more = "", "set a larger train.steps to continue training"
                else:
                    why, more = " (training/ is missing, so its data are unknown)", f"fine-tune it with --from {out}"
                advice = f"{more}, or choose another --out to train again"
                self.reporter.note(f"{out} is finished{why}; nothing to do ({advice})")
                known = ranks.broadcast(lambda: read_recipe(out, model_kind(out)).to_toml())
                return Recipe.from_table(tomllib.loads(known))
            final, prepared = Recipe.from_table(tomllib.loads(planned)), open_shared(prepared_directory(out), ranks)
            evaluate = self.make_validator(prepared, final, ranks.device)
            run_training(
                prepared,
                final,
                out,
                evaluate=evaluate,
                reporter=self.reporter,
                ranks=ranks,
                start_from=self.start_from,
            )
            self.reporter.note(f"{out} is finished")
            return final

    def plan(self) -> PlannedRun:
        """Prepare the data, choose the settings and measure; train nothing."""
        with threads_kept():
            check_output_directory(self.out)
            settings, prepared, speed = self._choose(self.reporter, always_measure=True)
            assert speed is not None
            recipe, world = settings.recipe, self.ranks.world
            return PlannedRun(
                recipe,
                tuple(settings.shown_choices()),
                len(prepared.split("train")),
                len(prepared.split("valid")),
                speed.parameters,
                epoch_length(recipe, prepared, world),
                speed.threads,
                step_seconds(recipe, prepared, world, speed),
                speed.seconds_per_evaluation,
                run_seconds(recipe, prepared, world, speed, self.start_from is not None),
                speed.memory,
                prepared_directory(self.out),
            )

    def _plan_training(self) -> str | None:
        """Prepare the data and return the recipe as TOML, or None if the run is finished."""
        out = self.out
        check_output_directory(out)
        done = is_finished(out)
        if done and not prepared_directory(out).exists():
            return None
        settings, prepared, speed = self._choose(SilentReporter() if done and not is_early(out) else self.reporter)
        self.make_validator(prepared, settings.recipe, self.ranks.device)  # rejects data without a validation set
        if done and not is_early(out):
            now = RunRecord.current(settings.recipe, prepared, self.start_from, self.ranks)
            before = check_record(out / TRAINING / RUN, now)
            if before is None or settings.recipe.train.steps <= before.full_recipe().train.steps:
                return None
        if speed is not None:
            self._report_speed(settings.recipe, prepared, speed)
        return settings.recipe.to_toml()

    def _choose(self, reporter: Reporter, always_measure: bool = False) -> tuple[TrainingPlan, Prepared, Speed | None]:
        """The plan, its data, and the speed if it was measured; sets the number of threads."""
        record = read_record(self.out)
        recorded = None if record is None else record.full_recipe()
        if record is not None:
            check_start(self.out, record, self.start_from)  # before its consequences for the data are listed
        use_recorded_threads(record, self.ranks)
        settings = TrainingPlan(
            self.corpora,
            self.valid,
            recipe=self.recipe,
            changes=self.changes,
            start_from=self.start_from,
            device=self.ranks.device,
            world=self.ranks.world,
            recorded=recorded,
        )
        check_adapter_settings(settings.recipe, self.start_from)  # before the data are prepared
        if warning := swapped_corpora_warning(self.corpora, self.valid, self.start_from):
            reporter.note(warning)
        prepared = settings.prepare(self.out, reporter)
        if record is None and self.start_from is not None:
            new_model(prepared, settings.recipe, self.start_from)  # rejects other sizes before anything is timed
        # A run that has started keeps its number of threads.
        options = thread_options(self.ranks.device, self.ranks.world) if record is None else [torch.get_num_threads()]
        measured: list[tuple[Recipe, Speed]] = []

        def measure(recipe: Recipe) -> Speed:
            if not measured or measured[-1][0] != recipe:
                validator = self.make_validator(prepared, recipe, self.ranks.device)
                seconds = self._evaluation_seconds(validator, always_measure or self.minutes is not None)
                measured.append((recipe, measure_speed(recipe, prepared, self.ranks.device, options, seconds)))
            return measured[-1][1]

        settings.choose_settings(prepared, reporter, measure, self.minutes)
        if not measured and (always_measure or len(options) > 1):
            measure(settings.recipe)
        return settings, prepared, measured[-1][1] if measured else None

    def _evaluation_seconds(self, validator: Validator, wanted: bool) -> Any:
        def seconds(model: nn.Module) -> float:
            return validator.estimate_seconds(model) if wanted else 0.0

        return seconds

    def _report_speed(self, recipe: Recipe, prepared: Prepared, speed: Speed) -> None:
        """Show what was measured."""
        world = self.ranks.world
        if len(speed.timings) > 1:
            of_step = step_seconds(recipe, prepared, world, speed) / speed.seconds_per_token
            tried = ", ".join(f"{seconds * of_step:.2f} s with {n}" for n, seconds in sorted(speed.timings.items()))
            self.reporter.note(f"threads: {speed.threads} (a step takes {tried}; {THREADS_VARIABLE} overrides it)")
        total = run_seconds(recipe, prepared, world, speed, self.start_from is not None)
        without = "" if speed.seconds_per_evaluation else ", without evaluations"
        self.reporter.note(f"estimated time: {clock(total)}{without}")


def check_start(out: Path, record: RunRecord, start_from: Path | None) -> None:
    """Reject a resumed run that adds or omits --from."""
    if bool(record.start_from) == (start_from is not None):
        return
    was, advice = ("with", "give it again") if record.start_from else ("without", "leave it out")
    raise TrainingError(
        f"{out} was started {was} --from; {advice} to resume, or choose another --out to start a new run",
        code="run_mismatch",
    )


def use_recorded_threads(record: RunRecord | None, ranks: Ranks) -> None:
    """Use a run's recorded number of threads, unless the user set another, and at most as many as there are cores."""
    chosen = not os.environ.get(THREADS_VARIABLE) and ranks.world == 1 and ranks.device.type == "cpu"
    if record is not None and chosen and isinstance(threads := record.machine.get("threads"), int):
        torch.set_num_threads(max(1, min(threads, available_cores())))


def finish_session(out: Path, make_validator: MakeValidator, ranks: Ranks, reporter: Reporter) -> Recipe:
    """Write a model from the checkpoints of a stopped run; return the recipe of the run."""
    check_output_directory(out)
    if is_finished(out) and not is_early(out):
        reporter.note(f"{out} is finished; nothing to do")
        return read_recipe(out, model_kind(out))

    def validation(prepared: Prepared, recipe: Recipe) -> Validator:
        return make_validator(prepared, recipe, ranks.device)

    with threads_kept():
        use_recorded_threads(read_record(out), ranks)
        recipe = finish_run(out, validation=validation, reporter=reporter, ranks=ranks)
    reporter.note(f"{out} is a model now; to continue training, run the same `dragoman train` again")
    return recipe
