"""`dragoman quantize`: write a copy of a model with its weights in int8."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, NAME, Command, complete_model, examples


@click.command(cls=Command, name="quantize", epilog=examples("dragoman quantize my-model --out my-small-model"))
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
def command(model: str, out: Path) -> None:
    """Store the weights of MODEL in int8: a quarter of the size, in files of at most 8 MB.

    Every engine loads the result. Translations are nearly those of the original; the C engine computes in int8 anyway.
    """
    result = api.quantize(model, out=out)
    before, after = (size / 1e6 for size in (result.bytes_before, result.bytes_after))
    click.echo(f"{out}: {after:.1f} MB of weights instead of {before:.1f} MB")
