"""Arguments that the functions of the API share: paths, texts and changes to a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from dragoman.errors import DataError, missing_extra
from dragoman.values import describe_value

PathLike = str | Path
Paths = PathLike | Sequence[PathLike]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def as_paths(value: Paths) -> list[Path]:
    """A list of paths; reject what is not a name or a path."""
    given = [value] if isinstance(value, PathLike) or not isinstance(value, Sequence) else value
    for each in given:
        if not isinstance(each, PathLike):
            raise DataError(f"files must be given by name or path; got {describe_value(each)}", code="wrong_type")
    return [Path(each) for each in given]


def as_path(name: str, value: PathLike) -> Path:
    """A path; reject what is neither a name nor a path."""
    if not isinstance(value, PathLike):
        raise DataError(f"{name} must be a name or a path; got {describe_value(value)}", code="wrong_type")
    return Path(value)


def as_texts(value: str | Sequence[str]) -> list[str]:
    """A list of texts; a single one is a list of one."""
    return [value] if isinstance(value, str) else list(value)


def names_missing_extra(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn a failed import of a package of an extra into the error that names the pip line."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*args, **options)
        except ModuleNotFoundError as error:
            raise missing_extra(error, f"`{function.__name__}`") or error from None

    return wrapped
