"""`run.json`: the data and settings that a run started with; a resumed run needs the same, except for its length."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from dragoman.config import Recipe
from dragoman.config.forecast import ForecasterRecipe
from dragoman.config.sectioned import rename_old_keys
from dragoman.data.prepare.target_languages import check_targets_extend
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, TrainingError
from dragoman.files import MANIFEST, format_names, parse_json, write_atomically
from dragoman.modeldir.layout import REQUIRED, TRAINING
from dragoman.modeldir.locate import check_model, read_recipe
from dragoman.progress import Reporter
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.reporting.base_model import BaseModel

RUN, LOCK = "run.json", "lock"
DISTILLATION: Final = "distillation"  # the teacher's translations
# Files that a training run leaves in its directory, from the first moment on.
TRACES: Final = (RUN, LOCK, DISTILLATION, "prepared", ".prepared.staging", ".prepared.lock", ".prepared.old")
# Settings that change the speed of a run, and its result in the last bits at most.
RESUMABLE: Final = frozenset({"data.workers", "data.ahead", "train.parallel"})
STEPS: Final = "train.steps"  # may grow or shrink when a run resumes; the record keeps every value


def prepared_directory(out: Path) -> Path:
    """Where a run keeps its prepared data."""
    return out / TRAINING / "prepared"


def check_output_directory(out: Path) -> None:
    """Reject a directory that holds something other than a training run or a model.

    Hidden and empty files do not count: a shell opens its log before the command starts.
    """
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file, not a directory; choose another --out", code="not_a_directory")
    training = out / TRAINING
    if not out.exists() or any((training / name).exists() for name in TRACES):
        return
    if all((out / name).exists() for name in (*REQUIRED, MANIFEST)):
        return
    found = [path for path in out.iterdir() if path.name[0] != "." and not is_empty(path)]
    if found:
        raise TrainingError(
            f"{out} contains {format_names(found)}, but no training run or model; give --out a new directory, such as "
            f"{out / 'model'}",
            code="output_exists",
        )


def is_empty(path: Path) -> bool:
    """Whether a file or a directory is empty."""
    return not any(path.iterdir()) if path.is_dir() else path.is_file() and not path.stat().st_size


def has_started(out: Path) -> bool:
    """Whether `out` holds a run, whose data must not be replaced."""
    return any((out / TRAINING / name).exists() for name in (RUN, "checkpoints"))


def with_tokenizers_of(start_from: Path, recipe: Recipe, changes: Iterable[str]) -> Recipe:
    """The recipe with the tokenizers of the model that the run starts from; reject a change to them.

    Target languages may be appended to its own: each is one more token.
    """
    own = read_recipe(start_from).text
    for change in changes:
        section, _, key = change.partition("=")[0].strip().partition(".")
        if section == "text" and key == "targets":
            check_targets_extend(recipe.text.targets, own.targets, start_from)
            added = len(recipe.text.targets) - len(own.targets)
            own = replace(own, targets=recipe.text.targets, vocabulary_size=own.vocabulary_size + added)
        elif section == "text" and (new := getattr(recipe.text, key)) != (kept := getattr(own, key)):
            raise TrainingError(
                f"text.{key}={new!r} has no effect: --from keeps the tokenizers of {start_from}, which have {kept!r}; "
                "leave it out",
                code="unused_setting",
            )
    return replace(recipe, text=own)


@dataclass(frozen=True)
class RunRecord:
    """Everything that determines the result of a run; `machine` affects only the last bits."""

    recipe: dict[str, Any]
    data: str
    start_from: str
    machine: dict[str, Any]
    weights: list[float] | None = None  # of the corpora; older runs have none
    base: dict[str, Any] | None = None  # a BaseModel, for the card; older runs have none
    changes: list[dict[str, Any]] = field(default_factory=list)  # of train.steps: {"after_step", "was", "now"}
    base_path: str = ""  # of the base model, if only adapters are trained: checkpoints do not have its weights
    batches_per_step: int = 0  # of all processes; older runs have 0

    @property
    def step_batches(self) -> int:
        """The batches of all processes in a step; a resumed run keeps their number if its processes can share them."""
        return self.batches_per_step or int(self.machine["processes"]) * int(self.recipe["train"]["accumulate"])

    def micro_batches(self, world: int) -> int:
        """The batches of each process in a step."""
        return max(1, self.step_batches // world)

    @classmethod
    def current(cls, recipe: Recipe, prepared: Prepared, start_from: Path | None, ranks: Ranks) -> RunRecord:
        """The record that this call would start a run with."""
        base = None
        if start_from is not None:
            check_model(start_from)
            base = BaseModel.read(start_from)
        return cls(
            as_plain_json(recipe),
            prepared.fingerprint,
            "" if base is None else base.weights,
            describe_machine(recipe, ranks),
            [part.weight for part in prepared.split().parts],
            None if base is None else json.loads(json.dumps(asdict(base))),
            base_path="" if start_from is None or not recipe.train.lora else str(start_from.absolute()),
            batches_per_step=ranks.world * recipe.train.accumulate,
        )

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """The record of a run that has started."""
        try:
            record = cls(**parse_json(path.read_bytes(), finite=False))
            record.recipe_of_kind()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(
                f"{path} cannot be read ({error}); restore it from a copy, or choose another --out", code="file_damaged"
            ) from None
        return record

    @property
    def forecasts(self) -> bool:
        """Whether the run trains a forecaster, not a translator."""
        return "forecast" in self.recipe

    def recipe_of_kind(self) -> Recipe | ForecasterRecipe:
        """The recipe of the run; unset keys are missing, because TOML has no null."""
        table = {name: {k: v for k, v in section.items() if v is not None} for name, section in self.recipe.items()}
        return ForecasterRecipe.from_table(table) if self.forecasts else Recipe.from_table(table)

    def full_recipe(self) -> Recipe:
        """The recipe of a run that trains a translator."""
        recipe = self.recipe_of_kind()
        if not isinstance(recipe, Recipe):
            raise TrainingError(
                "the directory holds the training of a forecaster, not of a translator; choose another --out",
                code="run_mismatch",
            )
        return recipe

    def base_model(self) -> BaseModel | None:
        """The model that the run fine-tunes, if any."""
        return None if self.base is None else BaseModel.from_json(self.base)


def describe_machine(recipe: Recipe | ForecasterRecipe, ranks: Ranks) -> dict[str, Any]:
    """What the machine adds to the result of a run: processes, threads, device and PyTorch."""
    return {
        "processes": ranks.world,
        "parallel": recipe.train.parallel,
        "device": ranks.device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def as_plain_json(recipe: Recipe | ForecasterRecipe) -> dict[str, Any]:
    """The sections of a recipe with lists instead of tuples, as in a file."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return plain


def read_record(out: Path) -> RunRecord | None:
    """The record of the run in `out`; None if it has not started."""
    path = out / TRAINING / RUN
    return RunRecord.read(path) if path.exists() else None


def check_record(path: Path, now: RunRecord) -> RunRecord | None:
    """The record of a run, None if it has not started; reject other data or settings, and name both values."""
    if not path.exists():
        return None
    before = RunRecord.read(path)
    changed = differences(before, now)
    if changed:
        lines = "\n  ".join(changed)
        raise TrainingError(
            f"{path.parent.parent} was started with other settings:\n  {lines}\nGive the same ones to resume, or "
            f"another --out to start a new run. Only {', '.join(sorted({STEPS, *RESUMABLE}))} may change",
            code="run_mismatch",
        )
    return before


def confirm_record(path: Path, now: RunRecord, reporter: Reporter, step: int = 0) -> RunRecord:
    """Write the record of a new run, or of one that resumes after `step`; reject other data or settings."""
    before = check_record(path, now)
    if before is not None:
        now = replace(now, base=before.base or now.base, changes=before.changes)
        world, batches = int(now.machine["processes"]), before.step_batches
        if batches % world == 0:
            now = replace(now, batches_per_step=batches)
        else:
            reporter.note(
                f"a step had {batches} batches and now has {now.step_batches}, because {world} processes cannot share "
                f"{batches} evenly: the run continues with other batches. Use a number of processes that divides "
                f"{batches} to keep them"
            )
        was, steps = before.recipe_of_kind().train.steps, now.recipe["train"]["steps"]
        if was != steps:
            change = {"after_step": step, "was": was, "now": steps}
            now = replace(now, changes=[*before.changes, change])
            reporter.note(
                f"{STEPS} was {was:,} and is now {steps:,}: after step {step:,}, the learning rate is that of a run of "
                f"{steps:,} steps"
            )
        moved = [
            f"{key} {before.machine.get(key)}, now {value}"
            for key, value in now.machine.items()
            if before.machine.get(key) != value
        ]
        if moved:
            reporter.note(
                f"the run resumes in another environment ({'; '.join(moved)}): sums have another order, so the "
                "result may differ by rounding"
            )
    if now != before:
        write_atomically(path, json.dumps(asdict(now), indent=1) + "\n")
    return now


def differences(before: RunRecord, now: RunRecord) -> list[str]:
    """Each value that has changed; a setting that is newer than the run had its default."""
    if before.forecasts != now.forecasts:
        purposes = ["forecasts series" if record.forecasts else "translates" for record in (before, now)]
        return [f"the run trains a model that {purposes[0]}, not one that {purposes[1]}"]
    defaults = as_plain_json(ForecasterRecipe() if now.forecasts else Recipe())
    found = []
    for section, settings in now.recipe.items():
        was: Mapping[str, Any] = {**defaults[section], **rename_old_keys(section, before.recipe.get(section, {}))}
        for key in sorted({*was, *settings}):
            if was.get(key) != settings.get(key) and f"{section}.{key}" not in {STEPS, *RESUMABLE}:
                found.append(f"{section}.{key} was {was.get(key)!r}, is now {settings.get(key)!r}")
    if before.data != now.data:
        found.append(f"the data had fingerprint {before.data[:12]}, now it has {now.data[:12]}")
    if before.weights not in (None, now.weights):
        found.append(f"the corpora had the weights {before.weights}, now they have {now.weights}")
    if before.start_from != now.start_from:
        names = [f"weights {digest[:12]}" if digest else "no model" for digest in (before.start_from, now.start_from)]
        found.append(f"the run started from {names[0]}, now it would start from {names[1]}")
    return found
