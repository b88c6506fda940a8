"""Check values that users enter, with suggestions for near misses."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dragoman.errors import RecipeError

MAX_INT = (1 << 31) - 1  # within the range that every part of the code can handle
MAX_THREADS = 1024
MIN_WEIGHT, MAX_WEIGHT = 0.0001, 10_000  # of a corpus: how often an epoch goes through it
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}"), frozenset: ("{", "}"),
}  # fmt: skip


def render_value(value: object, limit: int = 60) -> str:
    """Format a value for a message, in at most `limit` characters, without building a longer string.

    The `repr` of a value from a small file can take gigabytes: a list that holds a list twice, which holds one twice...
    """
    text = ""
    for fragment in _fragments(value, limit, 4):
        text += fragment
        if len(text) > limit:
            return text[: limit - 3] + "..."
    return text


def _fragments(value: object, limit: int, depth: int) -> Iterator[str]:
    """Yield the `repr` of plain values piece by piece; of other objects, the name of their type."""
    kind = type(value)
    if isinstance(value, str):
        yield repr(str.__getitem__(value, slice(limit + 1)))
    elif isinstance(value, bytes):
        yield repr(bytes.__getitem__(value, slice(limit + 1)))
    elif value is None or isinstance(value, bool):
        yield repr(value)
    elif isinstance(value, int):
        bits = int.bit_length(value)
        yield int.__repr__(value) if bits <= 4 * limit else f"<integer of {bits:,} bits>"
    elif isinstance(value, float):
        yield float.__repr__(value)
    elif isinstance(value, PurePath):
        yield f"{kind.__name__}({str(value)[:limit]!r})"
    elif isinstance(value, list | tuple | dict | set | frozenset) and kind in BRACKETS:
        opening, closing = BRACKETS[kind]
        if not depth:
            yield f"{opening}...{closing}"
            return
        yield opening
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _fragments(item, limit, depth - 1)
            if isinstance(value, dict):
                yield ": "
                yield from _fragments(value[item], limit, depth - 1)
        yield f",{closing}" if kind is tuple and len(value) == 1 else closing
    else:
        yield f"<{kind.__name__}>"


def describe_value(value: object) -> str:
    """A value for a message: its type, and as much of it as fits."""
    kind, text = type(value).__name__, render_value(value)
    return text if value is None or text.startswith(("<", f"{kind}(")) else f"{kind} {text}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun: 1 line, 2,000 lines; `nouns` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def rename_keys(table: Any, names: Mapping[str, str]) -> Any:
    """A dictionary read from a file, with old keys renamed to their current names."""
    return {names.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table


def close_matches(word: str, known: Sequence[str], most: int = 1, similarity: float = 0.6) -> list[str]:
    """The known names that are most similar to a word, with at least this similarity (0 to 1)."""
    from difflib import get_close_matches  # only mistakes need it, and it takes time to import

    return get_close_matches(word[:100], known, most, similarity)  # its time grows with the square of the length


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` if a known name is close, else the list of known names."""
    names = [str(name) for name in known]
    close = close_matches(word, names)
    return f"; did you mean {close[0]!r}?" if close else f"; available: {', '.join(names)}"


def suggest_directory(path: Path, matches: Callable[[Path], bool]) -> str:
    """`; did you mean ...?` for a matching directory with nearly this path, inside it or next to it."""
    similar = [Path(path.anchor)]
    for part in path.parts[1 if path.anchor else 0 :]:
        similar = [parent / name for parent in similar for name in _similar_names(parent, part)]
    parent = path.parent
    children, siblings = ([directory / name for name in _directories(directory)] for directory in (path, parent))
    for candidate in (*similar, *children):
        if _readable(candidate, matches):
            return f"; did you mean {candidate}?"
    others = [sibling.name for sibling in siblings if _readable(sibling, matches)]
    where = "here" if parent == Path() else f"in {parent}"
    return f"; available {where}: {', '.join(others[:8])}{', ...' if others[8:] else ''}" if others else ""


def _readable(directory: Path, matches: Callable[[Path], bool]) -> bool:
    """Whether a directory matches; one that may not be read does not."""
    try:
        return matches(directory)
    except OSError:
        return False


def _similar_names(parent: Path, name: str) -> list[str]:
    """The directory of that name, or else those with nearly that name."""
    return [name] if (parent / name).is_dir() else close_matches(name, _directories(parent), 3)


def _directories(parent: Path) -> list[str]:
    """The names of a directory's subdirectories; empty if it cannot be read."""
    with suppress(OSError):
        return sorted(entry.name for entry in parent.iterdir() if entry.is_dir())
    return []


def check_at_least(minimum: float, where: str, value: float, maximum: int = MAX_INT) -> None:
    """Reject numbers below `minimum`, and integers above `maximum`."""
    if not value >= minimum:
        raise RecipeError(f"{where} must be at least {minimum}; got {value}", code="out_of_range")
    if isinstance(value, int) and value > maximum:
        raise RecipeError(f"{where} must be at most {maximum:,}; got {value:,}", code="out_of_range")


def check_fields(recipe: object, section: str, minimum: float, names: str, maximum: int = MAX_INT) -> None:
    """`check_at_least` for some fields of a section, by their names."""
    for name in names.split():
        check_at_least(minimum, f"{section}.{name}", getattr(recipe, name), maximum)


def check_fractions(recipe: object, section: str, names: str) -> None:
    """Reject fields of a section outside of [0, 1), by their names."""
    for name in names.split():
        if not 0 <= (value := getattr(recipe, name)) < 1:
            raise RecipeError(f"{section}.{name} must be at least 0 and below 1; got {value}", code="out_of_range")


def check_seed(where: str, value: int) -> None:
    """Reject seeds that some random generator does not accept."""
    if not 0 <= value < 1 << 63:
        raise RecipeError(f"{where} must be at least 0 and below 2**63; got {value}", code="out_of_range")


def divisors(number: int) -> list[int]:
    """Every divisor of `number`."""
    return [d for d in range(1, number + 1) if number % d == 0]


def check_field_types(recipe: object, section: str) -> None:
    """Coerce each field of a section to its declared type, or reject it."""
    for key, kind in get_type_hints(type(recipe)).items():
        value = getattr(recipe, key)
        if value is not None or type(None) not in get_args(kind):
            object.__setattr__(
                recipe, key, coerce(value, kind, f"{section}.{key}")
            )  # frozen, but still being initialized


def coerce(value: Any, kind: Any, where: str) -> Any:
    """The value as its declared type, or a RecipeError that names the type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return coerce(value, next(k for k in get_args(kind) if k is not type(None)), where)
    if origin is Literal:
        if value not in get_args(kind):
            hint = suggest(render_value(value).strip("'"), get_args(kind))
            raise RecipeError(f"{where}={render_value(value)} is not one of the choices{hint}", code="unknown_choice")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} must be a list, such as [...]; got {render_value(value)}", code="wrong_type")
        return tuple(coerce(item, get_args(kind)[0], f"{where}[{i}]") for i, item in enumerate(value))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:  # type() and not isinstance: True is not the number 1 here
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
        raise RecipeError(f"{where} must be {names.get(kind, kind)}; got {render_value(value)}", code="wrong_type")
    return value
