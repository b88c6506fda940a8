"""Options that would do nothing are refused: who gives one expects something of it."""

from __future__ import annotations

import click
from click.core import ParameterSource


def given(*names: str) -> list[str]:
    """Those of the parameters that the command line has, as they are written there."""
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT
    ]


def refuse_idle(names: tuple[str, ...], why: str) -> None:
    """Refuse the first of the parameters that was given, with the reason for which it would do nothing here."""
    for option in given(*names)[:1]:
        raise click.UsageError(f"{option} would do nothing here: {why}")
