"""`dragoman export`: write a model for another toolkit."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, examples
from dragoman.values import plural

FORMATS = ("ctranslate2", "huggingface", "onnx")


@click.command(
    cls=Command,
    name="export",
    epilog=examples(
        "dragoman export huggingface my-model --out my-model-hf", "dragoman export onnx my-model --out my-model-onnx"
    ),
)
@click.argument("format_name", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("model", type=FILE)
@click.option("--out", type=FILE, required=True, help="The directory to write.")
@click.option(
    "--no-verify", is_flag=True, help="Do not translate with the exported model, whose engine may be missing."
)
def command(format_name: str, model: Path, out: Path, no_verify: bool) -> None:
    """Write MODEL in another toolkit's FORMAT: ctranslate2, huggingface or onnx.

    The export is verified by translating probe sentences in that toolkit. Models with parts that the format cannot
    express are rejected, and nothing is written.
    """
    result = api.export_model(model, to=format_name, out=out, verify=not no_verify)
    verified = f"verified with {plural(result.probes, 'sentence')}" if result.probes else "not verified"
    click.echo(f"exported {model} to {out} ({format_name}, {verified})")
