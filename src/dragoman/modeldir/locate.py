"""Find a model directory by its path or name, without PyTorch, so that a fast engine starts fast."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dragoman.config import Recipe
from dragoman.errors import ModelNotFoundError, SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.layout import RECIPE, TRAINING, Kind, check_same_tokens, model_kind, verify_model_cached
from dragoman.values import describe_value, suggest, suggest_directory

DATA_PACKAGE: Final = "dragoman_models"  # a namespace package: each data package adds a folder with its name
HINT = "; give the output directory of a finished training run"
PURPOSES: Final = {
    "forecast": ("forecasts series", "`dragoman forecast predict`, or another model"),
    "translation": ("translates", "`dragoman translate`, or another model"),
    "adapter": ("only adapts another one", "`--adapter` with its base model, or `dragoman merge` both"),
}


def is_model(directory: Path) -> bool:
    """Whether a directory has the files of a finished model."""
    return (directory / MANIFEST).is_file() and (directory / RECIPE).is_file()


def model_sources() -> list[tuple[str, Path]]:
    """Return the directories that are searched for models, each with what it is, for people.

    `$DRAGOMAN_MODELS` comes first, then installed data packages, `models/` of a checkout of the repository, and the
    user's data directory.
    """
    found = [
        ("$DRAGOMAN_MODELS", Path(path)) for path in os.environ.get("DRAGOMAN_MODELS", "").split(os.pathsep) if path
    ]
    packages = find_spec(DATA_PACKAGE)
    locations = [] if packages is None else packages.submodule_search_locations or []
    found += [("data package", Path(location)) for location in locations]
    root = Path(__file__).resolve().parents[3]
    if (root / "pyproject.toml").is_file() and (root / "models").is_dir():  # an editable install
        found.append(("repository", root / "models"))
    with suppress(RuntimeError):  # the user has no home directory
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        found.append(("user folder", data / "dragoman" / "models"))
    return found


def search_path() -> list[Path]:
    """Return the directories that are searched for models."""
    return [folder for _, folder in model_sources()]


def model_names() -> list[str]:
    """Return the names of all models in the search path."""
    return sorted({entry.parent.name for path in search_path() for entry in path.glob(f"*/{MANIFEST}")})


def model_name(directory: Path) -> str:
    """Return the name of a model for pages, pictures and reports: its directory without the path."""
    return directory.resolve().name


def find_model(model: str | Path, kind: Kind = "translation") -> Path:
    """Find the directory of a finished model by path, or by name in the search path."""
    if not isinstance(model, str | os.PathLike):
        message = f"a model is given by the path of its directory or by its name; got {describe_value(model)}"
        raise SearchError(message, code="wrong_type")
    path = find_directory(Path(model))
    if not path.exists() and not path.is_symlink():
        if is_language_pair(str(path)):
            raise ModelNotFoundError(missing_pair(str(path)))
        near = suggest_directory(path, is_model)
        if not (near and len(path.parts) > 1):  # a name, not a path
            names = model_names()
            known = f" ({suggest(path.name, names).removeprefix('; ')})" if names else ""
            where = " or ".join(map(str, search_path())) or "$DRAGOMAN_MODELS"
            raise ModelNotFoundError(
                f"there is no model {path}: no such directory, and no model with this name in {where}"
                f"{known}{near or f'; see `dragoman models`, or {HINT[2:]}'}"
            )
    check_model(path, kind)
    return path


def is_language_pair(name: str) -> bool:
    """Whether a name is two language codes, such as en-de."""
    from dragoman.text.languages.codes import KNOWN_CODES  # imported here, because only errors need it

    codes = name.replace("_", "-").split("-")
    return len(codes) == 2 and KNOWN_CODES.issuperset(codes)


def missing_pair(name: str) -> str:
    """The error for a language pair without a model; a similar name would have other languages."""
    names = model_names()
    if (same := name.replace("_", "-")) in names and same != name:
        return f"there is no model {name}; did you mean {same}?"
    installed = f"installed: {', '.join(names)}; see `dragoman models`" if names else "no models are installed"
    return (
        f"there is no model {name} ({installed}); give a model directory, or convert an Opus-MT model with "
        "`dragoman import`"
    )


def find_directory(path: Path) -> Path:
    """The directory of a model that is given by its name; any other path as it is."""
    if path.exists() or path.is_symlink():
        return path
    return next((parent / path for parent in search_path() if (parent / path).is_dir()), path)


def check_model(directory: Path, kind: Kind = "translation") -> None:
    """Raise ModelNotFoundError unless a directory has the files of a finished model of this kind."""
    if is_model(directory):
        if (found := model_kind(directory)) != kind:
            if kind == "adapter":
                message = f"{directory} is a whole model, not an adapter; give what `train.lora` has written"
                raise ModelNotFoundError(message, code="wrong_model_kind")
            purpose, command = PURPOSES[found]
            raise ModelNotFoundError(f"{directory} is a model that {purpose}; use {command}", code="wrong_model_kind")
        return
    hint = suggest_directory(directory, is_model) or HINT
    if directory.is_symlink() and not directory.exists():
        raise ModelNotFoundError(f"{directory} is a symbolic link to {directory.readlink()}, which does not exist")
    if not directory.exists():
        raise ModelNotFoundError(f"there is no directory {directory}{hint}")
    if not directory.is_dir():
        raise ModelNotFoundError(f"{directory} is a file; a model is a directory{hint}", code="not_a_model")
    if (directory / TRAINING / "prepared").is_dir() and not (directory / TRAINING / "run.json").exists():
        raise ModelNotFoundError(
            f"{directory} holds prepared data, and no model yet; train it with `dragoman train`",
            code="model_unfinished",
        )
    if (directory / TRAINING).is_dir():
        raise ModelNotFoundError(
            f"{directory} holds an unfinished training; its model is written at the end. Run the same `dragoman train` "
            f"again to continue it, or `dragoman finish {directory}` to make a model of its checkpoints",
            code="model_unfinished",
        )
    missing = RECIPE if not (directory / RECIPE).is_file() else MANIFEST
    raise ModelNotFoundError(f"{directory} is not a model: it has no {missing}{hint}", code="not_a_model")


def read_recipe(directory: Path, kind: Kind = "translation") -> Recipe:
    """Read the recipe of a finished model, or of an adapter."""
    check_model(directory, kind)
    return Recipe.load(directory / RECIPE)


def find_ensemble(directory: Path, ensemble: str | Path | Iterable[str | Path] | None) -> list[Path]:
    """Find and verify the other models of an ensemble; their vocabularies must match the first."""
    if ensemble is None or isinstance(ensemble, str | os.PathLike) or not isinstance(ensemble, Iterable):
        ensemble = [] if ensemble is None else [ensemble]
    others = [find_model(other) for other in ensemble]
    for other in others:
        verify_model_cached(other)
        check_same_tokens(directory, other)
    return others
