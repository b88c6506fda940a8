"""Find a model directory by its path or name, without PyTorch, so that a fast engine starts fast."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dragoman.config import Recipe
from dragoman.errors import ModelNotFoundError, SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.layout import RECIPE, TRAINING, Kind, check_same_tokens, model_kind, verify_model_cached
from dragoman.values import describe_value, suggest, suggest_directory

HINT = "; give the output directory of a finished training"
PURPOSES: Final = {
    "forecast": ("forecasts series, not one that translates", "`dragoman forecast predict`, or another model"),
    "translation": ("translates, not one that forecasts series", "`dragoman translate`, or another model"),
}


def is_model(directory: Path) -> bool:
    """Whether a finished model is there, by the names of its files."""
    return (directory / MANIFEST).is_file() and (directory / RECIPE).is_file()


def search_path() -> list[Path]:
    """The directories in which models are found by name: `$DRAGOMAN_MODELS`, then the user's data directory."""
    listed = [Path(path) for path in os.environ.get("DRAGOMAN_MODELS", "").split(os.pathsep) if path]
    try:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    except RuntimeError:  # a user without a home
        return listed
    return [*listed, data / "dragoman" / "models"]


def model_names() -> list[str]:
    """The models that can be found by name."""
    return sorted({entry.parent.name for path in search_path() for entry in path.glob(f"*/{MANIFEST}")})


def model_name(directory: Path) -> str:
    """The name of a model in pages, pictures and reports: that of its directory, without the path."""
    return directory.resolve().name


def find_model(model: str | Path, kind: Kind = "translation") -> Path:
    """The directory of a finished model, by its path, or by its name in the search path."""
    if not isinstance(model, str | os.PathLike):
        message = f"a model is the path of a directory, or a name; got {describe_value(model)}"
        raise SearchError(message, code="wrong_type")
    path = Path(model)
    if not path.exists() and not path.is_symlink():
        found = [parent / path for parent in search_path() if (parent / path).is_dir()]
        near = suggest_directory(path, is_model)
        if not found and not (near and len(path.parts) > 1):  # a name, not a path
            names = model_names()
            known = suggest(path.name, names).removeprefix("; ") if names else "there are none"
            where = " or ".join(map(str, search_path())) or "$DRAGOMAN_MODELS"
            raise ModelNotFoundError(
                f"there is no directory {path}, and no model of that name in {where} ({known}){near or HINT}"
            )
        path = found[0] if found else path
    check_model(path, kind)
    return path


def check_model(directory: Path, kind: Kind = "translation") -> None:
    """Raise ModelNotFoundError unless a directory holds a finished model of this kind, by the names of its files."""
    if is_model(directory):
        if (found := model_kind(directory)) != kind:
            purpose, command = PURPOSES[found]
            raise ModelNotFoundError(f"{directory} is a model that {purpose}; use {command}", code="wrong_model_kind")
        return
    hint = suggest_directory(directory, is_model) or HINT
    if directory.is_symlink() and not directory.exists():
        raise ModelNotFoundError(f"{directory} is a link to {directory.readlink()}, which does not exist")
    if not directory.exists():
        raise ModelNotFoundError(f"there is no directory {directory}{hint}")
    if not directory.is_dir():
        raise ModelNotFoundError(f"{directory} is a file; a model is a directory{hint}", code="not_a_model")
    if (directory / TRAINING).is_dir():
        raise ModelNotFoundError(
            f"{directory} holds an unfinished training; its model is written at the end. Run the same `dragoman train` "
            f"again to continue it, or `dragoman finish {directory}` to make a model of its checkpoints",
            code="model_unfinished",
        )
    missing = RECIPE if not (directory / RECIPE).is_file() else MANIFEST
    raise ModelNotFoundError(f"{directory} is not a model: it has no {missing}{hint}", code="not_a_model")


def read_recipe(directory: Path) -> Recipe:
    """The recipe of a finished model."""
    check_model(directory)
    return Recipe.load(directory / RECIPE)


def find_ensemble(directory: Path, ensemble: str | Path | Iterable[str | Path] | None) -> list[Path]:
    """Find and verify the models of an ensemble with a first one; their tokens must be the same."""
    if ensemble is None or isinstance(ensemble, str | os.PathLike) or not isinstance(ensemble, Iterable):
        ensemble = [] if ensemble is None else [ensemble]
    others = [find_model(other) for other in ensemble]
    for other in others:
        verify_model_cached(other)
        check_same_tokens(directory, other)
    return others
