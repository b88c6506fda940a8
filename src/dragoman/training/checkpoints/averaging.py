"""`dragoman average`: one model from several sets of weights (section 6.1), of one training or of several models."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from dragoman import __version__
from dragoman.config import Recipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, DragomanError, TrainingError
from dragoman.files import is_model, listed, staged, verify_manifest, write_manifest
from dragoman.models.directory import RECIPE, load_weights, write_model
from dragoman.text import Tokenizer, load_tokenizer, vocabulary_sizes
from dragoman.training.checkpoints.checkpoint import Checkpoints, average
from dragoman.training.run_record import RUN, TRAINING

CARD = "card.md"


@dataclass(frozen=True)
class Part:
    """One set of weights, and all that must be alike for it to be averaged with others."""

    name: str
    recipe: Recipe
    tokenizers: Mapping[str, Tokenizer]
    weights: Mapping[str, Tensor]
    card: str = ""


def checkpoints_of(run: Path) -> Checkpoints:
    """The checkpoints of a training, finished or not."""
    found = Checkpoints(run / TRAINING / "checkpoints", lambda _: None)
    if not found.steps():
        raise TrainingError(
            f"{run} has no checkpoints in {run / TRAINING / 'checkpoints'}; give the --out of a training, or two or "
            "more models"
        )
    return found


def parts_of_run(run: Path, last: int | None = None, steps: Sequence[int] = ()) -> list[Part]:
    """Checkpoints of one training: those of these steps, or the last ones, by default as many as its recipe says."""
    found = checkpoints_of(run)
    there = found.steps()
    missing = [step for step in steps if step not in there]
    if missing:
        raise TrainingError(f"{run} has no checkpoint of step {missing[0]}; there are: {', '.join(map(str, there))}")
    recipe, tokenizers = recipe_of(run), tokenizers_of(run)
    chosen = sorted(set(steps)) if steps else there[-(last if last is not None else recipe.train.average) :]
    if last is not None and last > len(there):
        raise TrainingError(
            f"{last} checkpoints were asked for, but {run} has {len(there)}: {', '.join(map(str, there))}"
        )
    if len(chosen) < 2:
        raise TrainingError(
            f"an average needs two checkpoints or more, but step {chosen[0]} alone was chosen"
            f"{'' if steps else f' (train.average={recipe.train.average})'}; {run} has: {', '.join(map(str, there))}; "
            "choose with --last or --checkpoints"
        )
    card = (run / CARD).read_text(encoding="utf-8") if (run / CARD).is_file() else ""
    return [Part(f"{run.name}, step {step}", recipe, tokenizers, found.weights(step), card) for step in chosen]


def trained(directory: Path) -> bool:
    """Whether there is something to average: a finished model, or a training."""
    return is_model(directory) or (directory / TRAINING).is_dir()


def part_of_model(directory: Path) -> Part:
    """A finished model, verified."""
    if not (directory / RECIPE).is_file():
        raise DamagedError(f"{directory} is not a model: it has no {RECIPE}; give the --out of a finished training")
    verify_manifest(directory)
    card = (directory / CARD).read_text(encoding="utf-8") if (directory / CARD).is_file() else ""
    return Part(str(directory), recipe_of(directory), tokenizers_of(directory), load_weights(directory), card)


def recipe_of(run: Path) -> Recipe:
    """The recipe of a finished model, or of a training that goes on."""
    if (run / RECIPE).is_file():
        return Recipe.load(run / RECIPE)
    path = run / TRAINING / RUN
    try:
        table = json.loads(path.read_text(encoding="utf-8"))["recipe"]
        # A recipe is TOML, which has no null: what is not set is not there.
        given = {name: {k: v for k, v in section.items() if v is not None} for name, section in table.items()}
        return Recipe.from_table(given)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DamagedError(f"{run} has neither {RECIPE} nor a {path} that can be read ({error})") from None


def tokenizers_of(run: Path) -> dict[str, Tokenizer]:
    """The tokenizers by name, out of the model or out of the data that its training prepared."""
    names = ("shared",) if recipe_of(run).text.shared else ("source", "target")
    place = run if (run / RECIPE).is_file() else Prepared.open(run / TRAINING / "prepared").tokenizers_directory
    return {name: load_tokenizer(place, name) for name in names}


def write_average(parts: Sequence[Part], out: Path) -> None:
    """Average the parts into a whole model directory, which stands at its place only when it is complete."""
    if len(parts) < 2:
        raise TrainingError(f"an average needs two sets of weights or more; got {len(parts)}")
    refuse_filled(out)
    for other in parts[1:]:
        agree(parts[0], other)
    first = parts[0]
    tokenizers = [*first.tokenizers.values()]
    mean = average([part.weights for part in parts])
    try:
        with staged(out) as staging:
            write_model(staging, first.recipe, vocabulary_sizes(tokenizers[0], tokenizers[-1]), mean)
            for name, tokenizer in first.tokenizers.items():
                tokenizer.save(staging, name)
            (staging / CARD).write_text(card(out.name, parts), encoding="utf-8")
            for file in staging.iterdir():  # safetensors writes for its owner alone; a model is there to be shared
                file.chmod((staging / CARD).stat().st_mode)
            write_manifest(staging)
            verify_manifest(staging)
    except (OSError, SafetensorError) as error:
        if isinstance(error, DragomanError):
            raise
        why = getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
        raise TrainingError(f"{out} could not be written: {why}; nothing is left of it") from None


def refuse_filled(out: Path) -> None:
    """Refuse a place that is taken: nothing is ever replaced by an average."""
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file, but --out is the directory to write; choose another name")
    if out.exists() and (found := listed(out.iterdir())):
        raise TrainingError(f"{out} is there already, with {found}; choose another --out")


def agree(one: Part, other: Part) -> None:
    """Weights can be averaged where they mean the same: one shape, one vocabulary."""
    ours, theirs = asdict(one.recipe.model), asdict(other.recipe.model)
    for key in ours:
        if ours[key] != theirs[key] and "dropout" not in key:
            raise TrainingError(
                f"{one.name} has model.{key}={ours[key]!r} but {other.name} has {theirs[key]!r}; only models of one "
                "shape can be averaged"
            )
    if [*one.tokenizers] != [*other.tokenizers]:
        raise TrainingError(
            f"{one.name} has the vocabularies {', '.join(one.tokenizers)} but {other.name} has "
            f"{', '.join(other.tokenizers)}; only models that share their vocabularies can be averaged"
        )
    for name, tokenizer in one.tokenizers.items():
        if tokenizer.fingerprint != other.tokenizers[name].fingerprint:
            raise TrainingError(
                f"the {name} vocabulary of {one.name} ({tokenizer.fingerprint[:12]}) is not that of {other.name} "
                f"({other.tokenizers[name].fingerprint[:12]}): their tokens have other numbers, so that a mean of "
                "their weights means nothing; train one from the other with --from"
            )


def card(name: str, parts: Sequence[Part]) -> str:
    """What a person should know: what was averaged, and the data that the first says it was trained on."""
    rows = "\n".join(f"| {Path(part.name).name} | `{digest(part.weights)[:16]}` |" for part in parts)
    data = re.search(r"^## Data\n.*?(?=^## |\Z)", parts[0].card, re.DOTALL | re.MULTILINE)
    unknown = "## Data\n\nNot known; write it here.\n"
    return f"""# {name}

The mean of {len(parts)} sets of weights ("Attention Is All You Need", section 6.1), made with Dragoman {__version__}.

| weights | SHA-256 of the tensors begins |
|---|---|
{rows}

{data.group() if data else unknown}
## Scores

None yet: `dragoman evaluate` gives them.
"""


def digest(weights: Mapping[str, Tensor]) -> str:
    """A SHA-256 of names and numbers, whatever file they lie in."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name].contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()
