"""`dragoman recipe`: a recipe in full, every default written out, with the size of the model it makes."""

from __future__ import annotations

import click

from dragoman.cli.options.completion import complete_recipe
from dragoman.cli.output import check_stdout
from dragoman.config import PRESETS, Recipe
from dragoman.values import MAX_INT


@click.command()
@click.argument("source", default="base", shell_complete=complete_recipe)
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one value; may be repeated.")
@click.option(
    "--vocabulary",
    type=click.IntRange(1, MAX_INT),
    default=37000,
    show_default=True,
    help="Vocabulary size for the parameter count.",
)
def command(source: str, changes: tuple[str, ...], vocabulary: int) -> None:
    """Show a recipe in full.

    SOURCE is a preset or a TOML file. What is printed is itself a recipe: save it, change it, use it.
    """
    check_stdout()
    recipe = Recipe.load(source, changes)
    click.echo(recipe.to_toml(), nl=False)
    click.echo(f"\n# {parameter_line(recipe, vocabulary)}")


command.epilog = f"Presets: {', '.join(PRESETS)}."


def parameter_line(recipe: Recipe, vocabulary: int) -> str:
    """How many weights, and where they are; counted without allocating any."""
    import torch

    from dragoman.models.loading import build_model

    sizes = vocabulary if recipe.model.tie == "all" else (vocabulary, vocabulary)
    with torch.device("meta"):
        model = build_model(recipe.model, sizes, pad=0)
    counts: dict[str, int] = {}
    for name, weights in model.named_parameters():
        part = name.partition(".")[0].removesuffix("_norm").removesuffix("_keys")  # the last norm belongs to its stack
        part = "positions" if part.endswith("_positions") else part
        counts[part] = counts.get(part, 0) + weights.numel()
    inside = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    return f"{model.parameter_count():,} parameters with a vocabulary of {vocabulary:,} ({inside})"
