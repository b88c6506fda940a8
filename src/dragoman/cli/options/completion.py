"""What a shell completes where a word may be more than a file: models, and recipes."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Directories, and the models that are known by name."""
    from dragoman.modeldir.locate import model_names

    return [CompletionItem(incomplete, type="dir"), *beginning(incomplete, model_names())]


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, and the presets."""
    from dragoman.config import PRESETS

    return [CompletionItem(incomplete, type="file"), *beginning(incomplete, list(PRESETS))]


def beginning(incomplete: str, names: list[str]) -> list[CompletionItem]:
    """Those that begin so."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
