"""Plan a training run: prepare its data, and choose the settings that the user leaves open."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import torch

from dragoman.config import Recipe, toml_value, unused_keys
from dragoman.config.recipe import apply_changes
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepare.inputs import OtherInputsError
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepare.target_languages import with_targets
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.modeldir.layout import TRAINING, verify_model_cached
from dragoman.modeldir.locate import read_recipe
from dragoman.nn.kernels import triton_available
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
from dragoman.progress import Reporter
from dragoman.training.defaults import (
    Choice,
    model_choices,
    precision_choices,
    r_drop_choices,
    speed_choices,
    steps_of_epoch,
    training_choices,
    vocabulary_choice,
)
from dragoman.training.run_record import has_started, with_tokenizers_of

PROVISIONAL: Final = ("train.warmup_steps=0", "train.learning_rate=1.0")  # valid with any number of steps


def prepared_directory(out: Path) -> Path:
    """Where a run keeps its prepared data."""
    return out / TRAINING / "prepared"


def load_recipe(recipe: Recipe | str | Path, changes: Sequence[str] = ()) -> Recipe:
    """A recipe, or the one of a preset or TOML file, with `changes` such as "model.dropout=0.3"."""
    if not isinstance(recipe, Recipe):
        return Recipe.load(recipe, changes)
    table = tomllib.loads(recipe.to_toml())
    apply_changes(table, changes)
    return Recipe.from_table(table)


class TrainingPlan:
    """The recipe of a run as it takes shape: the user's, or settings chosen for the data and the machine.

    `recipe` is the user's, if there is one; `changes` override everything else. With `start_from`, the model's own
    sizes and tokenizers are kept.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        valid: Sequence[Corpus],
        *,
        recipe: Recipe | str | Path | None,
        changes: Sequence[str],
        start_from: Path | None,
        device: torch.device,
        world: int,
    ) -> None:
        self.corpora, self.valid, self.given, self.changes = corpora, valid, recipe, changes
        self.start_from, self.on_gpu, self.world = start_from, device.type == "cuda", world
        self.changed = {change.partition("=")[0].strip() for change in changes}
        self.base: Recipe | None = None
        if start_from is not None:
            self.base = read_recipe(start_from)
            verify_model_cached(start_from)
        self.choices: list[Choice] = []
        self.targets: tuple[str, ...] = ()
        self.targets = with_targets(self.recipe_for(0), [*corpora, *valid], start_from).text.targets
        check_trees(corpora, self.recipe)

    @property
    def recipe(self) -> Recipe:
        """The recipe as far as it is chosen."""
        if self.given is not None:
            recipe = load_recipe(self.given, self.changes)
        else:
            model = {} if self.base is None else asdict(self.base.model)
            sizes = [f"model.{key}={toml_value(value)}" for key, value in model.items() if value is not None]
            chosen = [choice.change for choice in self.choices]
            recipe = Recipe.from_changes([*PROVISIONAL, *sizes, *chosen, *self.changes])
        if self.start_from is not None:
            recipe = with_tokenizers_of(self.start_from, recipe, self.changes)
        return replace(recipe, text=replace(recipe.text, targets=self.targets)) if self.targets else recipe

    def recipe_for(self, pairs: int) -> Recipe:
        """The recipe with sizes for a number of pairs, unless the user gave a recipe or a model to start from."""
        if self.given is None and self.base is None:
            self.choices = [vocabulary_choice(pairs, self.on_gpu), *model_choices(pairs, self.on_gpu)]
        return self.recipe

    def prepare(self, out: Path, reporter: Reporter) -> Prepared:
        """Prepare the data of the run in `out`."""
        try:
            prepared = prepare_corpora(
                self.corpora,
                self.recipe_for,
                prepared_directory(out),
                valid=self.valid,
                tokenizers=self.start_from,
                anew=not has_started(out),
                reporter=reporter,
            )
        except OtherInputsError as error:
            raise TrainingError(
                f"{out} was started with other data or settings:\n  {error.changed}\nGive the same ones to resume, or "
                "another --out to start a new run",
                code="run_mismatch",
            ) from None
        finally:
            reporter.close()
        if not prepared.reused:
            reporter.note(prepared.summary)
        return prepared

    def choose_settings(self, prepared: Prepared, reporter: Reporter) -> None:
        """Choose batch, schedule, length and precision for the prepared data, unless the user gave a recipe."""
        if self.given is not None:
            return
        recipe, split = self.recipe, prepared.split("train")
        tokens = int(split.target.lengths.sum()) + len(split)
        steps = recipe.train.steps if "train.steps" in self.changed else None

        def epoch_steps(batch_tokens: int) -> int:
            data = recipe.data
            if "data.batch_tokens" not in self.changed:
                data = replace(data, batch_tokens=batch_tokens)
            return steps_of_epoch(split, data, self.world, recipe.train.accumulate)

        self.choices += training_choices(len(split), tokens, recipe.model, self.on_gpu, epoch_steps, steps)
        if self.base is None:
            self.choices += r_drop_choices(len(split), recipe.model, self.on_gpu)
        self.choices += precision_choices(recipe.model, has_bfloat16_matmul if not self.on_gpu else lambda: False)
        recipe = self.recipe
        one_gpu = self.on_gpu and self.world == 1 and triton_available("cuda")
        target_tokens = recipe.train.steps * recipe.data.batch_tokens
        self.choices += speed_choices(recipe.train.steps, target_tokens, one_gpu, recipe.model)
        if self.base is not None:
            added = self.recipe.text.targets[len(self.base.text.targets) :]
            more = f", and a token for each of {', '.join(added)}" if added else ""
            reporter.note(f"model and tokenizers: those of {self.start_from}{more}")
        for choice in self.choices:
            if choice.change.partition("=")[0] not in self.changed:
                reporter.note(f"{choice.change}: {choice.reason}")


def check_trees(corpora: Sequence[Corpus], recipe: Recipe) -> None:
    """Reject a model without the trees that it reads, and trees that no model reads."""
    reads, given = recipe.model.reads_trees, corpora[0].source_trees is not None
    if reads and not given:
        raise TrainingError(
            "model.positions='syntax' needs the dependency tree of each source sentence; give --source-trees with a "
            "CoNLL-U file for each corpus, or use other positions",
            code="missing_trees",
        )
    if given and not reads:
        if "positions" in unused_keys(recipe.model.architecture):
            reason, advice = f"a {recipe.model.architecture} model reads no trees", "leave them out"
        else:
            reason = f"model.positions={recipe.model.positions!r} reads no trees"
            advice = "add --set model.positions=syntax, or leave them out"
        raise TrainingError(f"--source-trees has no effect: {reason}; {advice}", code="unused_option")


def busy_machine_warning(threads: int) -> str:
    """A warning if other programs occupy the processors: the threads of a step wait for each other. Empty otherwise."""
    load, processors = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    if threads < 2 or load < 0.75 * processors:
        return ""
    return (
        f"other programs keep this machine busy (load {load:.1f} on {processors} processors); setting "
        "OMP_NUM_THREADS=1 can make training many times faster meanwhile"
    )
