"""Plan a training run: prepare its data, and choose the settings that the user left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import torch

from dragoman.config import Recipe, load_recipe, toml_value, unused_keys
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepare.inputs import OtherInputsError
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepare.target_languages import with_targets
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.modeldir.layout import verify_model_cached
from dragoman.modeldir.locate import model_name, read_recipe
from dragoman.nn.kernels import triton_available
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
from dragoman.progress import Reporter
from dragoman.training.defaults import (
    EVALUATIONS,
    FINE_TUNING_EPOCHS,
    MAX_EPOCHS,
    Choice,
    model_choices,
    precision_choices,
    r_drop_choices,
    speed_choices,
    steps_of_epoch,
    training_choices,
    vocabulary_choice,
)
from dragoman.training.duration import SMALLER_MODEL_SHARE, fit_minutes, smaller_model_choice
from dragoman.training.run_record import has_started, prepared_directory, with_tokenizers_of
from dragoman.training.speed import Speed

PROVISIONAL: Final = ("train.warmup_steps=0", "train.learning_rate=1.0")  # valid with any number of steps


class TrainingPlan:
    """The recipe of a run while it is being planned: the user's, or settings chosen for the data and the machine.

    `recipe` is the user's, if given; `changes` override everything else. With `start_from`, the base model's sizes and
    tokenizers are kept. `recorded` is the recipe of a run that has started: its settings stay.
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
        recorded: Recipe | None = None,
    ) -> None:
        self.corpora, self.valid, self.given, self.changes = corpora, valid, recipe, changes
        self.start_from, self.on_gpu, self.world = start_from, device.type == "cuda", world
        self.changed = {change.partition("=")[0].strip() for change in changes}
        self.base: Recipe | None = None
        if start_from is not None:
            self.base = read_recipe(start_from)
            verify_model_cached(start_from)
        self.choices: list[Choice] = []
        self.recorded = recorded
        self.targets: tuple[str, ...] = ()
        self.targets = with_targets(self.recipe_for(0), [*corpora, *valid], start_from).text.targets
        check_trees(corpora, self.recipe)

    @property
    def recipe(self) -> Recipe:
        """The recipe as chosen so far; a run that has started keeps its settings."""
        chosen = [change for choice in self.choices for change in self.recorded_changes(choice)]
        if self.given is not None:
            recipe = load_recipe(self.given, [*chosen, *self.changes])
        else:
            model = {} if self.base is None else asdict(self.base.model)
            sizes = [f"model.{key}={toml_value(value)}" for key, value in model.items() if value is not None]
            recipe = Recipe.from_changes([*PROVISIONAL, *sizes, *chosen, *self.changes])
        if self.start_from is not None:
            recipe = with_tokenizers_of(self.start_from, recipe, self.changes)
        return replace(recipe, text=replace(recipe.text, targets=self.targets)) if self.targets else recipe

    def recorded_changes(self, choice: Choice) -> list[str]:
        """The choice as a change of the recipe, with the value that the run started with, if it has started.

        Settings that the user gives now are compared with the record elsewhere, and differences are reported there.
        """
        key = choice.change.partition("=")[0]
        section, _, name = key.partition(".")
        if self.recorded is None or key in self.changed:
            return [choice.change]
        own = asdict(self.recorded)[section]
        if key == "model.preset":  # a preset sets all sizes
            return [f"model.{name}={toml_value(value)}" for name, value in own.items() if value is not None]
        return [choice.change] if own[name] is None else [f"{key}={toml_value(own[name])}"]

    @property
    def added_targets(self) -> tuple[str, ...]:
        """Target languages that the base model lacks; they are learned from scratch."""
        return () if self.base is None else self.recipe.text.targets[len(self.base.text.targets) :]

    @property
    def fine_tunes(self) -> bool:
        """Whether a model is adapted, and not one that learns a new target language."""
        return self.base is not None and not self.added_targets

    def recipe_for(self, pairs: int) -> Recipe:
        """The recipe with sizes for a number of pairs, unless the user gave a recipe or a model to start from."""
        if self.given is None and self.base is None:
            self.choices = self.size_choices(pairs)
        return self.recipe

    def size_choices(self, pairs: int) -> list[Choice]:
        """Vocabulary and model sizes for a number of pairs."""
        return [vocabulary_choice(pairs, self.on_gpu), *model_choices(pairs, self.on_gpu)]

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

    def choose_settings(
        self,
        prepared: Prepared,
        reporter: Reporter,
        measure: Callable[[Recipe], Speed] | None = None,
        minutes: float | None = None,
    ) -> None:
        """Choose batch, schedule, length and precision for the prepared data, unless the user gave a recipe.

        With `minutes`, `measure` decides the length of a new run and, if necessary, a smaller model.
        """
        sizes, steps = self.choices, self.recipe.train.steps if "train.steps" in self.changed else None
        if self.given is None:
            self.choices = sizes + self.schedule_choices(prepared, steps)
        if minutes is not None and self.recorded is None and measure is not None:
            self._fit(prepared, sizes, minutes, measure)
        elif minutes is not None and self.recorded is not None:
            self._replace_choice(Choice(f"train.steps={self.recorded.train.steps}", "the length that the run has"))
        if self.base is not None and self.start_from is not None and self.given is None:
            more = f", and a token for each of {', '.join(self.added_targets)}" if self.added_targets else ""
            reporter.note(f"model and tokenizers: those of {model_name(self.start_from)}{more}")
        for choice in self.shown_choices():
            reporter.note(f"{choice.change}: {choice.reason}")

    def shown_choices(self) -> list[Choice]:
        """The choices that the user did not override, with the recorded values if the run has started."""
        shown = []
        for choice in self.choices:
            changes = self.recorded_changes(choice)
            if choice.change.partition("=")[0] in self.changed:
                continue
            same = len(changes) > 1 or Recipe.from_changes([*PROVISIONAL, *changes]) == Recipe.from_changes(
                [*PROVISIONAL, choice.change]
            )
            shown.append(choice if same else Choice(changes[0], "as the run started"))
        return shown

    def schedule_choices(self, prepared: Prepared, steps: int | None, evaluations: int = EVALUATIONS) -> list[Choice]:
        """Batch, schedule, length, R-Drop, precision and layout; `steps` is the length, if it is given."""
        before = self.choices
        recipe, split = self.recipe, prepared.split("train")
        tokens = int(split.target.lengths.sum()) + len(split)

        def epoch_steps(batch_tokens: int) -> int:
            data = recipe.data
            if "data.batch_tokens" not in self.changed:
                data = replace(data, batch_tokens=batch_tokens)
            return steps_of_epoch(split, data, self.world, recipe.train.accumulate)

        found = training_choices(
            len(split),
            tokens,
            recipe.model,
            self.on_gpu,
            epoch_steps,
            steps,
            fine_tuning=self.fine_tunes,
            lora=recipe.train.lora > 0,
            evaluations=evaluations,
        )
        if self.base is None:
            found += r_drop_choices(len(split), recipe.model, self.on_gpu)
        found += precision_choices(recipe.model, has_bfloat16_matmul if not self.on_gpu else lambda: False)
        self.choices = before + found + ([Choice(f"train.steps={steps}", "")] if steps is not None else [])
        recipe, self.choices = self.recipe, before
        one_gpu = self.on_gpu and self.world == 1 and triton_available("cuda")
        target_tokens = recipe.train.steps * recipe.data.batch_tokens
        return found + speed_choices(recipe.train.steps, target_tokens, one_gpu, recipe.model)

    def _fit(self, prepared: Prepared, sizes: list[Choice], minutes: float, measure: Callable[[Recipe], Speed]) -> None:
        """Choose the length, and if necessary a smaller model, so that training takes `minutes`."""
        speed = measure(self.recipe)
        epochs = FINE_TUNING_EPOCHS if self.fine_tunes else MAX_EPOCHS
        length = fit_minutes(self.recipe, prepared, self.world, speed, minutes, epochs)
        smaller = smaller_model_choice(sizes, self.changed)
        if smaller is not None and length.steps < SMALLER_MODEL_SHARE * self.recipe.train.steps:
            sizes = [smaller if choice.change.startswith("model.preset=") else choice for choice in sizes]
            self.choices = sizes
            self.choices = sizes + self.schedule_choices(prepared, None)
            speed = measure(self.recipe)
            length = fit_minutes(self.recipe, prepared, self.world, speed, minutes, epochs)
        time = "1 minute" if minutes == 1 else f"{minutes:g} minutes"
        fits = f"{epochs} epochs, the most, in less than {time}" if length.capped else time
        reason = (
            f"{fits}, at {length.step_seconds:.2f} s per step and {speed.seconds_per_evaluation:.1f} s "
            f"per evaluation on this machine"
        )
        if self.given is None:
            self.choices = sizes
            self.choices = sizes + self.schedule_choices(prepared, length.steps, length.evaluations)
        self._replace_choice(Choice(f"train.steps={length.steps}", reason))

    def _replace_choice(self, choice: Choice) -> None:
        key = choice.change.partition("=")[0]
        self.choices = [other for other in self.choices if other.change.partition("=")[0] != key] + [choice]


def check_trees(corpora: Sequence[Corpus], recipe: Recipe) -> None:
    """Reject missing trees for a model that needs them, and trees for a model that does not."""
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
