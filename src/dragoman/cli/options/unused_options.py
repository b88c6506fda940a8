"""Reject command-line options that have no effect in the current mode."""

from __future__ import annotations

import click
from click.core import ParameterSource


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
