"""The options by which several models translate together, the same for every verb that translates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from dragoman.cli.options.unused_options import refuse_idle
from dragoman.search.types import Mean

OPTIONS = [
    click.option(
        "--with",
        "ensemble",
        multiple=True,
        metavar="MODEL",
        help="A model that translates together with the first; once for each.",
    ),
    click.option(
        "--mean",
        type=click.Choice(get_args(Mean)),
        default="probabilities",
        show_default=True,
        help="Of what the models find at each step, with --with.",
    ),
]


def ensemble_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above, as `ensemble` and `mean`."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def together(ensemble: tuple[str, ...], mean: str) -> dict[str, Any]:
    """What `Translator.load` takes for them."""
    if not ensemble:
        refuse_idle(("mean",), "one model translates alone; add --with and a model")
    return {"ensemble": ensemble, "mean": mean}
