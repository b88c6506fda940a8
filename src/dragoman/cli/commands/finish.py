"""`dragoman finish`: write a model from the checkpoints of a stopped run."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, examples


@click.command(cls=Command, name="finish", epilog=examples("dragoman finish my-model"))
@click.argument("run", type=FILE)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Device that evaluates the checkpoints.",
)
def command(run: Path, device: str | None) -> None:
    """Write a model from the checkpoints of a stopped run.

    RUN is the --out directory of `dragoman train`. The weights that score best on the validation set are kept, as at
    the end of a complete run. To continue training, run the same `dragoman train` command again.
    """
    api.finish(run, device=device)
