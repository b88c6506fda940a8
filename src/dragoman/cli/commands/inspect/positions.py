"""`dragoman inspect positions`: position codes of a model or by name, as a picture or a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from dragoman.cli.commands.inspect.arguments import PAGE_SUFFIXES, check_suffix, note_warning
from dragoman.cli.options import NAME, OUTPUT_FILE, Command, complete_model, examples, reject_unused
from dragoman.config import ModelRecipe
from dragoman.config.model import PositionCodeName
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.inspect.positions.codes import PositionView

DEFAULT_LENGTH, DEFAULT_D_MODEL = 100, 128


@click.command(
    cls=Command,
    short_help="Position codes, and what they do to pairs of positions.",
    epilog=examples(
        "dragoman inspect positions my-model --out positions.png", "dragoman inspect positions --out positions.html"
    ),
)
@click.argument("model", type=NAME, shell_complete=complete_model, required=False)
@click.option("--code", "codes", type=click.Choice(get_args(PositionCodeName)), multiple=True,
              help="A position code to show, or to compare with the model's; may be repeated (default without MODEL: "
              "all).")  # fmt: skip
@click.option(
    "--out", type=OUTPUT_FILE, required=True, help=f"Output file: {', '.join(PAGE_SUFFIXES)} (a page to explore)."
)
@click.option("--length", type=click.IntRange(2, 4000), help="Number of positions (default: 100, or all learned ones).")
@click.option(
    "--d-model", type=click.IntRange(1), help=f"Width of the codes, without MODEL (default: {DEFAULT_D_MODEL})."
)
def command(
    model: str | None, codes: tuple[PositionCodeName, ...], out: Path, length: int | None, d_model: int | None
) -> None:
    """Show position codes: their values, and what they do to every pair of positions.

    MODEL shows the code of a model, with its weights; --code shows others, at the same sizes and with random weights.
    Without either, all codes are shown. A page (.html) compares any two of them, offline in a browser.
    """
    check_suffix(out, PAGE_SUFFIXES)
    if model is not None:
        reject_unused(("d_model",), "a model has its own width")
    from dragoman.inspect.positions.codes import code_views

    if model is None:
        recipe = ModelRecipe(d_model=d_model or DEFAULT_D_MODEL)
        length = length or DEFAULT_LENGTH
        views = code_views(codes or get_args(PositionCodeName), recipe, length)
        title = f"Position codes, d_model {recipe.d_model}"
    else:
        views, recipe, length = views_of(model, length)
        views += code_views(codes, recipe, length)
        title = f"{recipe.positions} positions, d_model {recipe.d_model}"
    if out.suffix.lower() == ".html":
        from dragoman.files import write_output
        from dragoman.inspect.positions.page import positions_page

        write_output(out, positions_page(views, title))
    else:
        from dragoman.inspect.positions.picture import draw_positions

        note_warning(draw_positions(views, out, title))


def views_of(model: str, length: int | None) -> tuple[list[PositionView], ModelRecipe, int]:
    """The views of a model, its recipe, and the number of positions shown."""
    from dragoman.inspect.positions.codes import model_views
    from dragoman.translation.translator import Translator

    translator = Translator.load(model, device="cpu", engine="torch")
    recipe = translator.recipe.model
    if recipe.positions == "learned" and length is not None and length > recipe.max_positions:
        message = f"--length {length} exceeds the {recipe.max_positions} learned positions of {model}"
        raise DragomanError(message, code="out_of_range")
    length = length or min(DEFAULT_LENGTH, recipe.max_positions if recipe.positions == "learned" else DEFAULT_LENGTH)
    return model_views(translator.engines.torch.model, length), recipe, length
