"""`run.json`: how a run was begun, so that it goes on with the same data and settings or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from dragoman.config import Recipe
from dragoman.config.recipe import with_present_names
from dragoman.data.prepare.target_languages import check_keeps
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, TrainingError
from dragoman.files import MANIFEST, format_names, sha256, write_atomically
from dragoman.modeldir.layout import REQUIRED, TRAINING, WEIGHTS
from dragoman.modeldir.locate import check_model, read_recipe
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.reporting.progress import Watch

RUN, LOCK = "run.json", "lock"
# What a training leaves in its directory, from the first moment on.
TRACES: Final = (RUN, LOCK, "prepared", ".prepared.staging", ".prepared.lock", ".prepared.old")
# Settings that decide how fast a run is and not what comes out of it, but for the last bits.
FREE: Final = frozenset({"data.workers", "data.ahead", "train.parallel"})


def refuse_foreign(out: Path) -> None:
    """Refuse a directory that holds something, but neither a training nor a model of ours.

    What is hidden or empty is no reason: a shell has opened its log before we begin.
    """
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file, but --out is the directory to write; choose another name")
    training = out / TRAINING
    if not out.exists() or any((training / name).exists() for name in TRACES):
        return
    if all((out / name).exists() for name in (*REQUIRED, MANIFEST)):
        return
    found = [path for path in out.iterdir() if path.name[0] != "." and not empty(path)]
    if found:
        raise TrainingError(
            f"{out} contains {format_names(found)}, but no training or model of Dragoman; give --out a new directory, "
            f"such as {out / 'model'}"
        )


def empty(path: Path) -> bool:
    """Whether a file or a directory holds nothing."""
    return not any(path.iterdir()) if path.is_dir() else path.is_file() and not path.stat().st_size


def has_begun(out: Path) -> bool:
    """Whether there is something of a training that other data would spoil."""
    return any((out / TRAINING / name).exists() for name in (RUN, "checkpoints"))


def with_text_of(start_from: Path, recipe: Recipe, changes: Iterable[str]) -> Recipe:
    """The recipe with the tokenizers of the model that the run begins from; refuses a change that asks for others.

    Target languages may be added behind those that it has: each is one more token.
    """
    own = read_recipe(start_from).text
    for change in changes:
        section, _, key = change.partition("=")[0].strip().partition(".")
        if section == "text" and key == "targets":
            check_keeps(recipe.text.targets, own.targets, start_from)
            added = len(recipe.text.targets) - len(own.targets)
            own = replace(own, targets=recipe.text.targets, vocabulary_size=own.vocabulary_size + added)
        elif section == "text" and (asked := getattr(recipe.text, key)) != (kept := getattr(own, key)):
            raise TrainingError(
                f"text.{key}={asked!r} was asked for, but --from keeps the tokenizers of {start_from}, which have "
                f"{kept!r}; leave it out"
            )
    return replace(recipe, text=own)


@dataclass(frozen=True)
class Begun:
    """What decides the outcome of a run: all of it but for the last bits, and what those depend on."""

    recipe: dict[str, Any]
    data: str
    start_from: str
    machine: dict[str, Any]
    weights: list[float] | None = None  # of the corpora; older runs did not write them down

    @classmethod
    def now(cls, recipe: Recipe, prepared: Prepared, start_from: Path | None, ranks: Ranks) -> Begun:
        """As the present call would begin it."""
        machine = {
            "processes": ranks.world,
            "parallel": recipe.train.parallel,
            "device": ranks.device.type,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        if start_from is not None:
            check_model(start_from)
        weights = "" if start_from is None else sha256(start_from / WEIGHTS)
        plain = json.loads(json.dumps(asdict(recipe)))  # lists for tuples, as they come back from a file
        return cls(plain, prepared.fingerprint, weights, machine, [part.weight for part in prepared.split().parts])


def agree_with_before(path: Path, now: Begun, watch: Watch) -> None:
    """Refuse to go on with other data or settings than the run began with, and name both values."""
    if path.exists():
        try:
            before = Begun(**json.loads(path.read_text(encoding="utf-8")))
            changed = differences(before, now)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{path} cannot be read ({error}); restore it, or choose another --out") from None
        if changed:
            listed = "\n  ".join(changed)
            raise TrainingError(
                f"{path.parent.parent} was begun with other settings:\n  {listed}\nGive the same as before to go on, "
                "or another --out to begin anew"
            )
        if before.machine == now.machine:
            return
        moved = [
            f"{key} {before.machine.get(key)}, now {value}"
            for key, value in now.machine.items()
            if before.machine.get(key) != value
        ]
        watch.note(
            f"the run goes on in another way than before ({'; '.join(moved)}): sums are taken in another order, so "
            "that the result is equal within rounding and no longer to the bit"
        )
    write_atomically(path, json.dumps(asdict(now), indent=1) + "\n")


def differences(before: Begun, now: Begun) -> list[str]:
    """Each value that is not what it was; a setting that is newer than the run had its default."""
    defaults = json.loads(json.dumps(asdict(Recipe())))
    found = []
    for section, settings in now.recipe.items():
        was: Mapping[str, Any] = {**defaults[section], **with_present_names(section, before.recipe.get(section, {}))}
        for key in sorted({*was, *settings}):
            if was.get(key) != settings.get(key) and f"{section}.{key}" not in FREE:
                found.append(f"{section}.{key} was {was.get(key)!r}, and is now {settings.get(key)!r}")
    if before.data != now.data:
        found.append(f"the data had fingerprint {before.data[:12]}, and now has {now.data[:12]}")
    if before.weights not in (None, now.weights):
        found.append(f"the corpora had the weights {before.weights}, and now have {now.weights}")
    if before.start_from != now.start_from:
        words = [f"weights {digest[:12]}" if digest else "nothing" for digest in (before.start_from, now.start_from)]
        found.append(f"the run began from {words[0]}, and would now begin from {words[1]}")
    return found
