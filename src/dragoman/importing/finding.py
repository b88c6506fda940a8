"""Which toolkit a model is of, by the files that are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ForeignError
from dragoman.importing.foreign import Foreign
from dragoman.importing.marian import is_marian, read_marian
from dragoman.values import suggest_directory


@dataclass(frozen=True)
class Asked:
    """What a person says beside the model's place."""

    one_target: bool = False


def read_foreign(path: Path, asked: Asked) -> Foreign:
    """The model at a place, whichever toolkit wrote it."""
    if not path.exists():
        raise ForeignError(f"there is no {path}{suggest_directory(path, is_marian) or '; give the model to import'}")
    if is_marian(path):
        return read_marian(path, asked.one_target)
    raise ForeignError(f"{path} is no model that can be imported")
