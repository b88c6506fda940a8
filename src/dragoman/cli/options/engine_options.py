"""Command-line options for engines and ensembles, shared by the commands that translate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from dragoman.cli.options import reject_unused
from dragoman.engines.select import ENGINES, PRECISIONS
from dragoman.search.types import Mean

ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["auto", *ENGINES]),
        default="auto",
        show_default=True,
        help="Engine; auto takes the fastest available one (see `dragoman engines`).",
    ),
    click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1, ..."),
    click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="auto",
        show_default=True,
        help="Precision of the weights; auto is int8 on a CPU where the engine supports it.",
    ),
    click.option("--threads", type=int, help="CPU threads.  [default: OMP_NUM_THREADS, or all]"),
)
ADAPTER_HELP = "Adapter of the model, trained with train.lora: a directory or a name."
ENSEMBLE_OPTIONS = (
    click.option("--adapter", metavar="ADAPTER", help=ADAPTER_HELP),
    click.option(
        "--ensemble", "ensemble", multiple=True, metavar="MODEL", help="Another model for an ensemble; repeatable."
    ),
    click.option(
        "--mean",
        type=click.Choice(get_args(Mean)),
        default="probabilities",
        show_default=True,
        help="How --ensemble averages the models.",
    ),
)


def engine_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `engine`, `device`, `precision` and `threads` to a command."""
    for option in reversed(ENGINE_OPTIONS):
        function = option(function)
    return function


def ensemble_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `adapter`, `ensemble` and `mean` to a command."""
    for option in reversed(ENSEMBLE_OPTIONS):
        function = option(function)
    return function


def ensemble_arguments(ensemble: tuple[str, ...], mean: str, adapter: str | None) -> dict[str, Any]:
    """The arguments of `Translator.load` for an ensemble, or a model with an adapter."""
    if not ensemble:
        reject_unused(("mean",), "there is only one model: add --ensemble MODEL")
    return {"ensemble": ensemble, "mean": mean, "adapter": adapter}
