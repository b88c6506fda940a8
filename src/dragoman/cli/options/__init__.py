"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)
