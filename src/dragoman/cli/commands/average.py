"""`dragoman average`: one model from several checkpoints or models."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.errors import TrainingError
from dragoman.values import suggest_directory

FILE = click.Path(path_type=Path)


@click.command(name="average")
@click.argument("models", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--last", type=click.IntRange(2), help="How many of the last checkpoints; by default train.average.")
@click.option("--checkpoints", "given", multiple=True, metavar="STEP,STEP...", help="The checkpoints of these steps.")
def command(models: tuple[Path, ...], out: Path, last: int | None, given: tuple[str, ...]) -> None:
    """Average weights into one model that is often better than each (section 6.1).

    MODELS is the directory of one training, whose checkpoints are averaged, or two or more finished models of the same
    shape and vocabulary.
    """
    steps = numbers(given)
    if steps and last is not None:
        raise TrainingError("--last and --checkpoints were both given; one of them names the checkpoints")
    if len(models) > 1 and (steps or last is not None):
        raise TrainingError(
            f"--last and --checkpoints choose among the checkpoints of one training, but {len(models)} directories came"
        )
    from dragoman.training.checkpoints.averaging import (
        part_of_model,
        parts_of_run,
        refuse_filled,
        trained,
        write_average,
    )

    refuse_filled(out)

    for place in models:
        if not place.is_dir():
            hint = suggest_directory(place, trained) or "; give the --out of a training"
            raise TrainingError(f"{place} is no directory{hint}")
    parts = parts_of_run(models[0], last, steps) if len(models) == 1 else [part_of_model(place) for place in models]
    write_average(parts, out)
    click.echo(f"{out} is the average of: " + "; ".join(part.name for part in parts))


def numbers(given: tuple[str, ...]) -> list[int]:
    """Steps, however they are set apart."""
    words = ",".join(given).replace(" ", ",").split(",")
    found = [word.removeprefix("step-") for word in words if word]
    for word in found:
        if not word.isdecimal():
            raise TrainingError(f"--checkpoints takes the numbers of steps, such as 1000,2000; got {word!r}")
    if given and not found:
        raise TrainingError("--checkpoints takes the numbers of steps, such as 1000,2000; got none")
    return [int(word) for word in found]
