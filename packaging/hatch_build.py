"""Hatch's build hook: add the compiled library to a wheel, and name the platform (see wheels.py).

Without the environment variables the wheel has the C sources only, and the library is compiled on first use.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SharedLibraryHook(BuildHookInterface[Any]):
    """Adds the library of $DRAGOMAN_WHEEL_LIBRARY to a wheel for $DRAGOMAN_WHEEL_TAG."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change the data of one build. One wheel serves all versions of Python: ctypes loads the library."""
        library = os.environ.get("DRAGOMAN_WHEEL_LIBRARY")
        if not library:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['DRAGOMAN_WHEEL_TAG']}"
        build_data["force_include"][library] = f"dragoman/native/{Path(library).name}"
