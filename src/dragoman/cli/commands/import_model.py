"""`dragoman import`: a model of another toolkit as a model of ours."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api

FILE = click.Path(path_type=Path)


@click.command(name="import")
@click.argument("path", type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--tokenizer", type=FILE,
              help="What the text was cut with, where PATH does not have it: a sentencepiece model, or codes of "
                   "subword-nmt. Without it, text comes as tokens with spaces between them.")  # fmt: skip
@click.option("--target-tokenizer", type=FILE, help="The same for the target, where it has its own.")
@click.option("--vocabulary", type=FILE, help="fairseq: the directory with dict.xx.txt, if they are not beside PATH.")
@click.option("--one-target", is_flag=True,
              help="Opus-MT: the model has one target language, whatever tokens such as >>fra<< it has.")  # fmt: skip
def command(
    path: Path,
    out: Path,
    tokenizer: Path | None,
    target_tokenizer: Path | None,
    vocabulary: Path | None,
    one_target: bool,
) -> None:
    """Make a model of PATH, which another toolkit has trained.

    PATH is a directory of Opus-MT (Hugging Face Marian) or of JoeyNMT, or a checkpoint of fairseq. What it has and
    models here have not is refused, and nothing is written.
    """
    result = api.import_model(
        path,
        out=out,
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        vocabulary=vocabulary,
        one_target=one_target,
    )
    click.echo(f"{out} is the model of {path}, which was trained with {result.toolkit}")
    for note in result.notes:
        click.echo(note)
