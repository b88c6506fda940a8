"""Average the weights of several checkpoints or models into one model (section 6.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman import __version__
from dragoman.config import Recipe
from dragoman.data.prepared import Prepared
from dragoman.errors import ModelNotFoundError, TrainingError
from dragoman.files import check_new_directory
from dragoman.modeldir.info import ModelInfo, data_section, license_section, read_info
from dragoman.modeldir.layout import RECIPE, TRAINING, load_tokenizers, verify_model
from dragoman.modeldir.locate import check_model, is_model, model_name, read_recipe
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, load_weights
from dragoman.text import Tokenizer
from dragoman.text.line_lengths import common_lengths
from dragoman.training.checkpoints.checkpoint import Checkpoints, average_weights
from dragoman.training.reporting.card import trained_model_info
from dragoman.training.run_record import RUN, RunRecord, prepared_directory
from dragoman.values import check_at_least, suggest_directory


@dataclass(frozen=True)
class AveragePart:
    """One set of weights to average, and the properties that must be equal in all of them."""

    name: str
    directory: Path
    recipe: Recipe
    info: ModelInfo
    tokenizers: tuple[Tokenizer, Tokenizer]
    weights: Mapping[str, Tensor]


def checkpoints_of(run: Path) -> Checkpoints:
    """The checkpoints of a training run, finished or not."""
    found = Checkpoints(run / TRAINING / "checkpoints", lambda _: None)
    if not found.steps():
        raise TrainingError(
            f"{run} has no checkpoints in {run / TRAINING / 'checkpoints'}; give the --out of a training run, or two "
            "or more models",
            code="checkpoint_not_found",
        )
    return found


def parts_of_run(run: Path, last: int | None = None, steps: Sequence[int] = ()) -> list[AveragePart]:
    """Checkpoints of one training run: those of `steps`, or the `last` ones (by default train.average of its recipe).

    The last ones are regular: multiples of train.save_every, and the end of the run. Checkpoints left by Ctrl-C, an
    evaluation or the start of fine-tuning are averaged only if given by their step.
    """
    checkpoints = checkpoints_of(run)
    recipe, info, tokenizers = describe_run(run)
    if recipe.train.lora:
        raise TrainingError(
            f"{run} trains adapters, whose checkpoints are not models; use its adapter with --adapter, or "
            "`dragoman merge` several adapted models and average those",
            code="wrong_model_kind",
        )
    if steps:
        chosen, known = sorted(set(steps)), checkpoints.steps()
        missing = [step for step in chosen if step not in known]
        if missing:
            raise TrainingError(
                f"{run} has no checkpoint of step {missing[0]}; available: {', '.join(map(str, known))}",
                code="checkpoint_not_found",
            )
    else:
        end = {recipe.train.steps} & set(checkpoints.steps())
        regular = sorted({*checkpoints.regular_steps(recipe.train.save_every), *end})
        chosen = last_steps(run, regular, last, recipe.train.average)
    return [
        AveragePart(f"{model_name(run)}, step {step}", run, recipe, info, tokenizers, checkpoints.weights(step))
        for step in chosen
    ]


def last_steps(run: Path, regular: Sequence[int], last: int | None, average: int) -> list[int]:
    """The last regular checkpoints; `last` of them, or train.average of the recipe."""
    known = ", ".join(map(str, regular)) or "none"
    if last is not None:
        check_at_least(1, "--last", last)
    if last is not None and last > len(regular):
        raise TrainingError(
            f"--last {last} is more than the {len(regular)} regular checkpoints that {run} has ({known}); use a "
            "smaller number, choose steps with --checkpoints, or train with a larger train.keep",
            code="too_few_checkpoints",
        )
    chosen = list(regular[-(last if last is not None else average) :])
    if last is None and len(chosen) < 2:
        raise TrainingError(
            f"too few checkpoints to average: train.average={average}, but the regular ones of {run} are {known}; "
            f"choose with --last or --checkpoints, or use `dragoman finish {run}` to write a model of a stopped run",
            code="too_few_checkpoints",
        )
    return chosen


def load_parts(directories: Sequence[Path], last: int | None = None, steps: Sequence[int] = ()) -> list[AveragePart]:
    """Checkpoints of one training run, or several finished models."""
    for directory in directories:
        if not directory.is_dir():
            hint = suggest_directory(directory, is_run_or_model) or "; give the --out of a training run"
            raise ModelNotFoundError(f"{directory} is not a directory{hint}")
    if len(directories) == 1:
        return parts_of_run(directories[0], last, steps)
    places = [directory.resolve() for directory in directories]
    twice = next((given for i, given in enumerate(directories) if places[i] in places[:i]), None)
    if twice is not None:
        raise TrainingError(
            f"{twice} is given twice, which does not change an average; give each model once, or, to average the "
            "checkpoints of one training, its directory alone",
            code="duplicate_model",
        )
    return [part_of_model(directory) for directory in directories]


def is_run_or_model(directory: Path) -> bool:
    """Whether there is something to average: a finished model, or a training run."""
    return is_model(directory) or (directory / TRAINING).is_dir()


def part_of_model(directory: Path) -> AveragePart:
    """Verify and load a finished model."""
    recipe = read_recipe(directory)
    verify_model(directory)
    info, tokenizers = read_info(directory), load_tokenizers(directory)
    return AveragePart(str(directory), directory, recipe, info, tokenizers, load_weights(directory))


def describe_run(run: Path) -> tuple[Recipe, ModelInfo, tuple[Tokenizer, Tokenizer]]:
    """Recipe, languages and tokenizers of a run: from its model if it is finished, else from its record and data."""
    if is_model(run):
        check_model(run)  # a forecaster is not averaged here
    if (run / RECIPE).is_file():
        return Recipe.load(run / RECIPE), read_info(run), load_tokenizers(run)
    record, prepared = RunRecord.read(run / TRAINING / RUN), Prepared.open(prepared_directory(run))
    return record.full_recipe(), trained_model_info(prepared, record.base_model()), prepared.tokenizers


def write_average(parts: Sequence[AveragePart], out: Path) -> None:
    """Average the parts into a new model directory."""
    check_new_directory(out)
    for other in parts[1:]:
        check_compatible(parts[0], other)
    first, info = parts[0], common_info([part.info for part in parts])
    mean = average_weights([part.weights for part in parts])
    save_model(
        out,
        recipe=first.recipe,
        info=info,
        weights=as_arrays(mean),
        tokenizers=first.tokenizers,
        card=average_card(out.name, parts, info),
    )


def common_info(infos: Sequence[ModelInfo]) -> ModelInfo:
    """The languages and license on which all models that have them agree; otherwise unknown."""
    sources = {info.source_languages for info in infos if info.source_languages}
    targets = {info.target_languages for info in infos if info.target_languages}
    licenses = {info.license for info in infos if info.license}
    return ModelInfo(
        infos[0].vocabulary,
        sources.pop() if len(sources) == 1 else (),
        targets.pop() if len(targets) == 1 else (),
        licenses.pop() if len(licenses) == 1 else "",
        common_lengths(info.line_lengths for info in infos),
    )


def check_compatible(one: AveragePart, other: AveragePart) -> None:
    """Raise TrainingError unless weights can be averaged: one shape, one vocabulary."""
    settings, other_settings = asdict(one.recipe.model), asdict(other.recipe.model)
    for key, value in settings.items():
        if value != other_settings[key] and "dropout" not in key:
            raise TrainingError(
                f"{one.name} has model.{key}={value!r} but {other.name} has {other_settings[key]!r}; only models with "
                "the same settings can be averaged",
                code="shape_mismatch",
            )
    for side, ours, theirs in zip(("source", "target"), one.tokenizers, other.tokenizers, strict=True):
        if ours.fingerprint != theirs.fingerprint:
            raise TrainingError(
                f"the {side} vocabulary of {one.name} ({ours.fingerprint[:12]}) is not that of {other.name} "
                f"({theirs.fingerprint[:12]}): the same id means different tokens, so their weights cannot be "
                "averaged; train one from the other with --from",
                code="vocabulary_mismatch",
            )


def average_card(name: str, parts: Sequence[AveragePart], info: ModelInfo) -> str:
    """The card of an average: what was averaged, and the data of the first part."""
    rows = "\n".join(f"| {Path(part.name).name} | `{weights_digest(part.weights)[:16]}` |" for part in parts)
    mean = f'The mean of {len(parts)} sets of weights ("Attention Is All You Need", section 6.1)'
    what = mean if len(parts) > 1 else "The weights of one checkpoint of a training run"
    return f"""# {name}

{what}, written by Dragoman {__version__}.

| weights | SHA-256 of the tensors begins |
|---|---|
{rows}

{data_section(parts[0].directory)}
{license_section(info)}
## Scores

None yet: run `dragoman evaluate`.
"""


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of the names and values of tensors, independent of the file format."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name].contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()
