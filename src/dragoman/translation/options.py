"""The options of one translation call, checked before anything is translated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, get_args

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.request import RequestConstraints
from dragoman.search.constraints.terms import Entries, Terms
from dragoman.search.types import Sampling, Search, check_integer
from dragoman.text import Tree
from dragoman.text.trees.dependency import TreeAligner
from dragoman.values import describe_value, suggest

Split = Literal["long", "sentences", "never"]


class SearchOptions(TypedDict, total=False):
    """Keywords of a search: a `Search`, or fields of one, which replace those of `search` if both are given."""

    search: Search | None
    beam: int | None
    length_penalty: float | None
    n_best: int | None
    extra_length: int | None
    max_length: int | None
    min_length: int | None
    no_repeat: int | None
    sampling: Sampling | None


class TranslationOptions(SearchOptions, total=False):
    """Keywords of `Translator.translate` and `Translator.stream`; what they mean is said there."""

    split: Split
    batch: int | None
    reproducible: bool
    alignment: bool
    attention: bool
    prefix: str | Iterable[str] | None
    trees: Tree | Iterable[Tree] | TreeAligner | None
    to: str | Sequence[str] | None
    require: str | Sequence[str | Sequence[str]]
    avoid: str | Sequence[str]
    terms: Terms | Entries | None
    constraints: Sequence[Constraints | None] | None


@dataclass(frozen=True)
class TranslationRequest:
    """The checked options of one call."""

    search: Search
    split: Split
    batch: int | None
    reproducible: bool
    alignment: bool
    attention: bool
    prefix: str | list[str] | None
    trees: TreeAligner | None
    to: str | list[str] | None
    constraints: RequestConstraints | None

    def __post_init__(self) -> None:
        """Raise on values of the wrong type, and on options that do not go together."""
        if self.split not in get_args(Split):
            raise SearchError(
                f"unknown split={self.split!r}{suggest(str(self.split), get_args(Split))}", code="unknown_choice"
            )
        for name in ("reproducible", "alignment", "attention"):
            if not isinstance(getattr(self, name), bool):
                raise SearchError(
                    f"{name} must be True or False; got {describe_value(getattr(self, name))}", code="wrong_type"
                )
        if self.batch is not None:
            object.__setattr__(self, "batch", check_integer("batch", self.batch, 1))
        if self.trees is not None and self.split == "sentences":
            raise SearchError(
                "split='sentences' cannot be combined with trees: a tree is that of a whole line",
                code="trees_with_splitting",
            )


def resolve_search(
    *,
    search: Search | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    n_best: int | None = None,
    extra_length: int | None = None,
    max_length: int | None = None,
    min_length: int | None = None,
    no_repeat: int | None = None,
    sampling: Sampling | None = None,
) -> Search:
    """The search of a call: `search`, or the default one, with the given fields replaced."""
    if not (search is None or isinstance(search, Search)):
        raise SearchError(
            f"search must be a Search, such as Search(beam=5); got {describe_value(search)}", code="wrong_type"
        )
    if n_best is not None and beam is None and search is None:
        beam = max(Search.beam, check_integer("n_best", n_best))
    fields = {
        "beam": beam,
        "length_penalty": length_penalty,
        "n_best": n_best,
        "extra_length": extra_length,
        "max_length": max_length,
        "min_length": min_length,
        "no_repeat": no_repeat,
        "sampling": sampling,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(search or Search(), **given)  # type: ignore[arg-type]


def check_texts(texts: object) -> None:
    """Raise if this is not an iterable of texts; a single text is not."""
    if isinstance(texts, str):
        raise SearchError("expected many texts, got one; use translate(text), or stream([text])", code="wrong_type")
    try:
        iter(texts)  # type: ignore[call-overload]
    except TypeError:
        raise SearchError(
            f"expected a text, or an iterable of texts; got {describe_value(texts)}", code="wrong_type"
        ) from None
    if isinstance(texts, bytes | bytearray):
        raise SearchError(
            f"texts must be str, not {type(texts).__name__}; decode them, as with .decode('utf-8')", code="wrong_type"
        )


def parse_prefix(prefix: object) -> str | list[str] | None:
    """The prefix of all translations, or a list with one for each."""
    if prefix is None or isinstance(prefix, str):
        return prefix
    wrong = [prefix]
    if isinstance(prefix, Iterable) and not isinstance(prefix, bytes | bytearray | Set | Mapping):
        found = list(prefix)
        wrong = [one for one in found if not isinstance(one, str)]
        if not wrong:
            return found
    raise SearchError(
        f"prefix must be a str, or a list with one for each text; got {describe_value(wrong[0])}", code="wrong_type"
    )


def as_pairs(pairs: object) -> Iterable[object]:
    """What may be pairs of a source and a target; `parse_pair` checks each."""
    return pairs if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes) else [pairs]


def parse_pair(pair: object) -> tuple[str, str]:
    """A source and a target text."""
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair):
        return pair[0], pair[1]
    raise SearchError(f"expected pairs (source, target) of texts; got {describe_value(pair)}", code="wrong_type")
