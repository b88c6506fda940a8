"""Shell completion of models and recipes."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


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
