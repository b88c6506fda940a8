"""`dragoman merge`: write a base model and its adapter as one model."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, examples


@click.command(cls=Command, name="merge", epilog=examples("dragoman merge my-model medical --out my-medical-model"))
@click.argument("base", type=FILE)
@click.argument("adapter", type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
def command(base: Path, adapter: Path, out: Path) -> None:
    """Merge ADAPTER, trained with train.lora, into the weights of the model BASE.

    The result is a model like any other, which translates exactly as BASE with --adapter ADAPTER.
    """
    api.merge(base, adapter, out=out)
    click.echo(f"merged {adapter} into {base}: {out}")
