"""Options that commands share; completion of their values, and the check that each has an effect."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

FILE = click.Path(path_type=Path)


def given_options(*names: str) -> list[str]:
    """The options among these parameters that the user passed, such as `--beam`."""
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT
    ]


def reject_unused(names: tuple[str, ...], reason: str) -> None:
    """Raise a usage error if the user passed any of `names`."""
    for option in given_options(*names)[:1]:
        raise click.UsageError(f"{option} has no effect: {reason}")


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Directories, and the models that have a name."""
    from dragoman.modeldir.locate import model_names

    return [CompletionItem(incomplete, type="dir"), *matching(incomplete, model_names())]


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, and presets."""
    from dragoman.config import PRESETS

    return [CompletionItem(incomplete, type="file"), *matching(incomplete, list(PRESETS))]


def matching(incomplete: str, names: list[str]) -> list[CompletionItem]:
    """The names that start with the incomplete word."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
