"""What a call of the translator asks for, checked before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from dragoman.errors import SearchError
from dragoman.search.types import Search, whole
from dragoman.values import describe_value, suggest

Split = Literal["long", "sentences", "never"]
REQUEST: Final = ("search", "split", "batch", "reproducible", "alignment", "attention")


@dataclass(frozen=True)
class Request:
    """All that one call asks for."""

    search: Search
    split: Split
    batch: int | None
    reproducible: bool
    alignment: bool
    attention: bool


def request(
    *,
    search: Search | None = None,
    split: Split = "long",
    batch: int | None = None,
    reproducible: bool = False,
    alignment: bool = False,
    attention: bool = False,
    **settings: Any,
) -> Request:
    """What a call asks for; a setting that nobody knows gets a suggestion."""
    known = [field.name for field in fields(Search)]
    for name in settings:
        if name not in known:
            raise SearchError(f"there is no setting {name!r}{suggest(name, [*known, *REQUEST])}")
    if split not in get_args(Split):
        raise SearchError(f"split={split!r} is not one of the choices{suggest(str(split), get_args(Split))}")
    for name, flag in (("reproducible", reproducible), ("alignment", alignment), ("attention", attention)):
        if not isinstance(flag, bool):
            raise SearchError(f"{name} must be True or False; got {describe_value(flag)}")
    if not (search is None or isinstance(search, Search)):
        raise SearchError(f"search must be a Search, as in Search(beam=5); got {describe_value(search)}")
    batch = None if batch is None else whole("batch", batch, 1)
    if "n_best" in settings and "beam" not in settings and search is None:
        settings["beam"] = max(Search.beam, whole("n_best", settings["n_best"]))
    search = replace(search if search is not None else Search(), **settings)
    return Request(search, split, batch, reproducible, alignment, attention)


def check_texts(texts: object) -> None:
    """Refuse what is no collection of texts, as a text itself is none."""
    if isinstance(texts, str):
        raise SearchError("one text came where many were expected; use translate(text), or stream([text])")
    try:
        iter(texts)  # type: ignore[call-overload]
    except TypeError:
        raise SearchError(f"expected a text, or an iterable of texts; got {describe_value(texts)}") from None
    if isinstance(texts, bytes | bytearray):
        raise SearchError(f"texts are str, but {type(texts).__name__} came; decode it, as with .decode('utf-8')")


def prefixes_of(prefix: object) -> str | list[str] | None:
    """The prefix of all, or a list with one for each."""
    if prefix is None or isinstance(prefix, str):
        return prefix
    wrong = [prefix]
    if isinstance(prefix, Iterable) and not isinstance(prefix, bytes | bytearray | Set | Mapping):
        found = list(prefix)
        wrong = [one for one in found if not isinstance(one, str)]
        if not wrong:
            return found
    raise SearchError(f"prefix must be a str, or a list with one for each text; got {describe_value(wrong[0])}")


def pairs_of(pairs: object) -> Iterable[object]:
    """What may be pairs of a source and a target, each of which `pair_of` looks at."""
    return pairs if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes) else [pairs]


def pair_of(pair: object) -> tuple[str, str]:
    """A source and a target, or a refusal of what is no such pair."""
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair):
        return pair[0], pair[1]
    raise SearchError(f"expected pairs (source, target) of texts; got {describe_value(pair)}")
