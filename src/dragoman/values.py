"""Values that a person chose: refused in words where they cannot be, with the word that was meant where one is near."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dragoman.errors import RecipeError

MOST = (1 << 31) - 1  # a whole number that every part of the machinery can still count with

LEAST_WEIGHT, MOST_WEIGHT = 0.0001, 10_000  # of a corpus: how often an epoch may go through it


def shown(value: object) -> str:
    """What came, for a message: its type, and as much of it as fits."""
    kind, words = type(value).__name__, repr(value)
    words = words if len(words) <= 60 else words[:57] + "..."
    return words if value is None or words.startswith(f"{kind}(") else f"{kind} {words}"


def renamed(table: Any, names: Mapping[str, str]) -> Any:
    """A dictionary of a file with the names that its keys have now, where the file was written before they had them."""
    return {names.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` where something known is close, and the whole list where nothing is."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(names)}"


def suggest_directory(path: Path, wanted: Callable[[Path], bool]) -> str:
    """`; did you mean ...?` where a directory that is wanted has nearly this path, is inside it or stands beside it."""
    near = [Path(path.anchor)]
    for part in path.parts[1 if path.anchor else 0 :]:
        near = [place / name for place in near for name in _near_names(place, part)]
    parent = path.parent
    inside, beside = ([place / name for name in _directories(place)] for place in (path, parent))
    for found in (*near, *inside):
        if wanted(found):
            return f"; did you mean {found}?"
    others = [place.name for place in beside if wanted(place)]
    where = "here" if parent == Path() else f"in {parent}"
    return f"; {where} there are: {', '.join(others[:8])}{', ...' if others[8:] else ''}" if others else ""


def _near_names(place: Path, name: str) -> list[str]:
    """The directory of that name, or else those with nearly that name."""
    return [name] if (place / name).is_dir() else difflib.get_close_matches(name, _directories(place))


def _directories(place: Path) -> list[str]:
    """The names of the directories in one; none where it cannot be read."""
    with suppress(OSError):
        return sorted(entry.name for entry in place.iterdir() if entry.is_dir())
    return []


def at_least(least: float, where: str, value: float, most: int = MOST) -> None:
    """Refuse numbers under `least`, and whole numbers over `most`, which no machine could work with."""
    if not value >= least:
        raise RecipeError(f"{where} must be at least {least}; got {value}")
    if isinstance(value, int) and value > most:
        raise RecipeError(f"{where} must be at most {most:,}; got {value:,}")


def fraction(where: str, value: float) -> None:
    """Refuse what is not a probability that leaves something over."""
    if not 0 <= value < 1:
        raise RecipeError(f"{where} must be at least 0 and under 1; got {value}")


def seed(where: str, value: int) -> None:
    """Refuse what is no seed of every generator that is used."""
    if not 0 <= value < 1 << 63:
        raise RecipeError(f"{where} must be at least 0 and under 2**63; got {value}")


def divisors(number: int) -> list[int]:
    """Every whole number that divides `number`."""
    return [d for d in range(1, number + 1) if number % d == 0]


def check_kinds(recipe: object, section: str) -> None:
    """Have each value of a section be of its declared kind, or refuse it: Python itself checks nothing."""
    for key, kind in get_type_hints(type(recipe)).items():
        value = getattr(recipe, key)
        if value is not None or type(None) not in get_args(kind):
            object.__setattr__(recipe, key, conform(value, kind, f"{section}.{key}"))  # frozen, but not yet made


def conform(value: Any, kind: Any, where: str) -> Any:
    """The value as its declared type, or a RecipeError that names the type in words."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return conform(value, next(k for k in get_args(kind) if k is not type(None)), where)
    if origin is Literal:
        if value not in get_args(kind):
            raise RecipeError(f"{where}={value!r} is not one of the choices{suggest(str(value), get_args(kind))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} must be a list, such as [...]; got {value!r}")
        return tuple(conform(item, get_args(kind)[0], f"{where}[{i}]") for i, item in enumerate(value))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:  # type() and not isinstance: True is not the number 1 here
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
        raise RecipeError(f"{where} must be {words.get(kind, kind)}; got {value!r}")
    return value
