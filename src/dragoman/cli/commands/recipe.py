"""`dragoman recipe`: show a recipe in full, with the size of its model."""

from __future__ import annotations

from importlib.util import find_spec

import click

from dragoman.cli import note
from dragoman.cli.options import Command, complete_recipe, examples
from dragoman.cli.output import check_stdout
from dragoman.config import PRESETS, Recipe
from dragoman.values import MAX_INT


@click.command(cls=Command)
@click.argument("source", default="base", shell_complete=complete_recipe)
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting of the recipe; repeatable."
)
@click.option(
    "--vocabulary-size",
    type=click.IntRange(1, MAX_INT),
    default=37000,
    show_default=True,
    help="Vocabulary size for the parameter count.",
)
def command(source: str, changes: tuple[str, ...], vocabulary_size: int) -> None:
    """Show a recipe in full.

    SOURCE is a preset or a TOML file. The output is a recipe itself: save, edit and use it.
    """
    check_stdout()
    recipe = Recipe.load(source, changes)
    click.echo(recipe.to_toml(), nl=False)
    if find_spec("torch") is None:
        note("the number of parameters is not shown, because it needs PyTorch: pip install 'dragoman[train]'")
        return
    from dragoman.models.loading import parameter_counts

    counts = parameter_counts(recipe.model, vocabulary_size)
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    click.echo(f"\n# {sum(counts.values()):,} parameters with a vocabulary of {vocabulary_size:,} ({parts})")


command.epilog = f"Presets: {', '.join(PRESETS)}.\n\n{examples('dragoman recipe base --set model.norm_order=pre')}"
