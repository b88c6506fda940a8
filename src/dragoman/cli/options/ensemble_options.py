"""Command-line options for ensembles, shared by the commands that translate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from dragoman.cli.options.unused_options import reject_unused
from dragoman.search.types import Mean

OPTIONS = [
    click.option(
        "--with",
        "ensemble",
        multiple=True,
        metavar="MODEL",
        help="A further model of an ensemble; repeatable.",
    ),
    click.option(
        "--mean",
        type=click.Choice(get_args(Mean)),
        default="probabilities",
        show_default=True,
        help="How an ensemble (--with) averages its models.",
    ),
]


def ensemble_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options above to a command, as `ensemble` and `mean`."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def ensemble_arguments(ensemble: tuple[str, ...], mean: str) -> dict[str, Any]:
    """The arguments of `Translator.load` for them."""
    if not ensemble:
        reject_unused(("mean",), "there is only one model; add --with MODEL")
    return {"ensemble": ensemble, "mean": mean}
