"""`dragoman average`: average several checkpoints or models into one model."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, examples
from dragoman.errors import TrainingError


@click.command(
    name="average",
    epilog=examples(
        "dragoman average my-model --last 5 --out my-average",
        "dragoman average my-model my-other-model --out my-average",
    ),
)
@click.argument("models", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option(
    "--last", type=click.IntRange(1), help="How many of the last regular checkpoints; by default train.average."
)
@click.option("--checkpoints", "given", multiple=True, metavar="STEP,STEP...", help="The checkpoints of these steps.")
def command(models: tuple[Path, ...], out: Path, last: int | None, given: tuple[str, ...]) -> None:
    """Average weights into one model that is often better than each (section 6.1).

    MODELS is the directory of one training, whose checkpoints are averaged, or two or more finished models of the same
    shape and vocabulary.
    """
    result = api.average(models, out=out, last=last, checkpoints=parse_steps(given))
    what = "the average of: " if len(result.parts) > 1 else "a model of one checkpoint: "
    click.echo(f"{out} is {what}" + "; ".join(result.parts))


def parse_steps(values: tuple[str, ...]) -> list[int]:
    """The step numbers in values such as `1000,2000` or `step-1000 step-2000`."""
    words = [word.removeprefix("step-") for word in ",".join(values).replace(" ", ",").split(",") if word]
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong is not None or (values and not words):
        found = "none" if wrong is None else repr(wrong)
        raise TrainingError(f"--checkpoints takes step numbers, such as 1000,2000; got {found}", code="wrong_type")
    return [int(word) for word in words]
