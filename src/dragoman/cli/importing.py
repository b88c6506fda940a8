"""`dragoman import`: a model of another toolkit as a model of ours."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command(name="import")
@click.argument("path", type=FILE)
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--one-target", is_flag=True,
              help="Opus-MT: the model has one target language, whatever pieces such as >>fra<< it has.")  # fmt: skip
def command(path: Path, out: Path, one_target: bool) -> None:
    """Make a model of PATH, which another toolkit has trained.

    PATH is a directory of Opus-MT (Hugging Face Marian). What it has and models here have not is refused, and nothing is
    written.
    """
    from dragoman.importing.finding import Asked, read_foreign
    from dragoman.importing.foreign import refuse_taken

    refuse_taken(out)
    found = read_foreign(path, Asked(one_target))
    found.write(out)
    click.echo(f"{out} is the model of {path}, which was trained with {found.toolkit}")
    for note in found.notes:
        click.echo(note)
