"""`dragoman finish`: make a model of a training that was stopped."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, examples


@click.command(name="finish", epilog=examples("dragoman finish my-model"))
@click.argument("run", type=FILE)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where to evaluate the checkpoints.")
def command(run: Path, device: str | None) -> None:
    """Make a model of a stopped training, from its checkpoints.

    RUN is the --out of the training. The weights that score best on the validation set are kept, as at the end of a
    training. Run the same `dragoman train` again to train on.
    """
    api.finish(run, device=device)
