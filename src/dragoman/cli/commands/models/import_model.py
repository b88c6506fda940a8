"""`dragoman import`: convert a model of another toolkit."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, NAME, Command, examples


@click.command(
    cls=Command,
    name="import",
    epilog=examples(
        "dragoman import opus-mt-en-de --out en-de",
        "dragoman import hf:Helsinki-NLP/opus-mt-en-de --out en-de",
        "dragoman import model.ende.intgemm.alphas.bin --out en-de",
    ),
)
@click.argument("path", type=NAME)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--tokenizer", type=FILE,
              help="Subword model of the text, if PATH does not have it: sentencepiece, or subword-nmt codes. "
                   "Without it, text must be given as tokens separated by spaces.")  # fmt: skip
@click.option("--target-tokenizer", type=FILE, help="Subword model of the target, if it has its own.")
@click.option("--vocabulary", type=FILE, help="fairseq, Marian: directory of the vocabularies, if not next to PATH.")
@click.option("--one-target", is_flag=True,
              help="Opus-MT: the model has one target language, even with tokens such as >>fra<<.")  # fmt: skip
def command(
    path: str,
    out: Path,
    tokenizer: Path | None,
    target_tokenizer: Path | None,
    vocabulary: Path | None,
    one_target: bool,
) -> None:
    """Convert the model in PATH, which was trained with another toolkit.

    PATH is an Opus-MT (Hugging Face Marian) or JoeyNMT directory, a fairseq checkpoint, a model file of Marian (.npz,
    .bin) or its directory, or an Opus-MT model of the Hugging Face Hub, which is downloaded first. Models with parts
    that Dragoman does not support are rejected, and nothing is written.
    """
    result = api.import_model(
        path,
        out=out,
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        vocabulary=vocabulary,
        one_target=one_target,
    )
    click.echo(f"converted {path}, trained with {result.toolkit}, to {out}")
    for note in result.notes:
        click.echo(note)
