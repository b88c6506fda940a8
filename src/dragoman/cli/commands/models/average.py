"""`dragoman average`: average several checkpoints or models into one model."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, examples
from dragoman.errors import TrainingError


@click.command(
    cls=Command,
    name="average",
    epilog=examples(
        "dragoman average my-model --last 5 --out my-average",
        "dragoman average my-model my-other-model --out my-average",
    ),
)
@click.argument("models", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--last", type=click.IntRange(1), help="Number of last regular checkpoints.  [default: train.average]")
@click.option(
    "--checkpoints",
    "given",
    multiple=True,
    metavar="STEP,STEP...",
    help="Steps of the checkpoints to average, such as 1000,2000.",
)
def command(models: tuple[Path, ...], out: Path, last: int | None, given: tuple[str, ...]) -> None:
    """Average weights into one model, which often scores better than each of them (section 6.1).

    MODELS is the directory of one run, whose checkpoints are averaged, or two or more finished models with the same
    architecture and vocabulary.
    """
    result = api.average(models, out=out, last=last, checkpoints=parse_steps(given))
    what = "the average of: " if len(result.parts) > 1 else "the model of one checkpoint: "
    click.echo(f"{out} is {what}" + "; ".join(result.parts))


def parse_steps(values: tuple[str, ...]) -> list[int]:
    """The step numbers in values such as `1000,2000` or `step-1000 step-2000`."""
    words = [word.removeprefix("step-") for word in ",".join(values).replace(" ", ",").split(",") if word]
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong is not None or (values and not words):
        found = "none" if wrong is None else repr(wrong)
        raise TrainingError(f"--checkpoints takes step numbers, such as 1000,2000; got {found}", code="wrong_type")
    return [int(word) for word in words]
