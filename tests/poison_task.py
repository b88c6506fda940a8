"""A task whose worker dies at one text; workers import it, so it is a module of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.cluster.rows import Texts, Values
from dragoman.cluster.tasks import Work
from dragoman.errors import ModelNotFoundError


@dataclass(frozen=True)
class PoisonTask:
    """Returns each text; its worker kills itself at the text "poison". With `missing`, its model does not load."""

    missing: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, type] = field(default_factory=lambda: {"translation": str})

    def load(self) -> Work:
        if self.missing:
            raise ModelNotFoundError("there is no model on this machine")

        def work(texts: Texts, before: int) -> list[Values]:
            if ("poison",) in texts:
                os.kill(os.getpid(), signal.SIGKILL)
            return [{"translation": text} for (text,) in texts]

        return work
