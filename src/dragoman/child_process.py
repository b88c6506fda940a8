"""The command that runs a module of this package in a child process."""

from __future__ import annotations

import os
import sys


def module_command(module: str) -> list[str]:
    """The command of a module; it imports from the current directory only if this process does."""
    here = {"", os.getcwd()} & set(sys.path)  # noqa: PTH109  # compared with entries of sys.path
    return [sys.executable, *([] if here else ["-P"]), "-m", module]
