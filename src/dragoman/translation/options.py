"""The options of one translation call, checked before anything is translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from dragoman.config import ModelRecipe, Recipe, unused_keys
from dragoman.errors import SearchError
from dragoman.search.types import Sampling, Search, StopFlag, check_integer
from dragoman.text.languages.codes import normalize_language
from dragoman.values import describe_value, plural, suggest

if TYPE_CHECKING:
    from dragoman.search.constraints.phrases import Constraints
    from dragoman.search.constraints.request import RequestConstraints
    from dragoman.search.constraints.terms import Entries, Terms
    from dragoman.text.trees.dependency import Tree, TreeAligner

SplitMode = Literal["auto", "sentences", "never"]


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
    """Keywords of `Translator.translate` and `Translator.stream`, which document them."""

    split: SplitMode
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
    stop: StopFlag | None


@dataclass(frozen=True)
class LengthLimits:
    """Limits that apply to every model of an ensemble, or to a single model.

    `longest` is the longest source, in tokens, that is not split; `source` and `output` are the numbers of positions,
    None if they are unlimited. `tree_model` is the model that decides whether sentences need trees.
    """

    longest: int
    source: int | None
    output: int | None
    tree_model: ModelRecipe

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> LengthLimits:
        """The smallest limits of all; one model that reads trees is enough for sentences to need them."""
        models = [recipe.model for recipe in recipes]
        learned = [model for model in models if model.positions == "learned"]
        sources = [m.max_positions - 1 for m in models if m in learned or m.pattern == "low_rank"]  # 1 for EOS
        return cls(
            min([*(recipe.data.max_tokens for recipe in recipes), *sources]),
            min(sources, default=None),
            min((model.max_positions - 1 for model in learned), default=None),
            next((model for model in models if model.reads_trees), models[0]),
        )


@dataclass(frozen=True)
class TranslationRequest:
    """The checked options of one call."""

    search: Search
    split: SplitMode
    batch: int | None
    reproducible: bool
    alignment: bool
    attention: bool
    prefix: str | list[str] | None
    trees: TreeAligner | None
    to: str | list[str] | None
    constraints: RequestConstraints | None
    stop: StopFlag | None = None

    def __post_init__(self) -> None:
        """Raise on values of the wrong type, and on options that cannot be combined."""
        if self.split not in get_args(SplitMode):
            raise SearchError(
                f"unknown split={self.split!r}{suggest(str(self.split), get_args(SplitMode))}", code="unknown_choice"
            )
        for name in ("reproducible", "alignment", "attention"):
            if not isinstance(getattr(self, name), bool):
                message = f"{name} must be True or False; got {describe_value(getattr(self, name))}"
                raise SearchError(message, code="wrong_type")
        if self.batch is not None:
            object.__setattr__(self, "batch", check_integer("batch", self.batch, 1))
        if self.trees is not None and self.split == "sentences":
            raise SearchError(
                "split='sentences' cannot be combined with trees: a tree covers a whole line; drop `split` or the "
                "trees",
                code="trees_with_splitting",
            )

    @property
    def per_text(self) -> dict[tuple[str, ...], list[Any]]:
        """The options given text by text, each with a noun for messages, and its plural if irregular."""
        each = None if self.constraints is None else self.constraints.each
        options = {("prefix", "prefixes"): self.prefix, ("language",): self.to, ("constraint",): each}
        return {name: given for name, given in options.items() if isinstance(given, list)}

    def check_counts(self, n_texts: int, finished: bool = True) -> None:
        """Raise unless options given text by text are given for all texts; `finished` if no more texts follow."""
        for name, given in self.per_text.items():
            if len(given) < n_texts or (finished and len(given) > n_texts):
                message = (
                    f"got {plural(len(given), *name)} for {plural(n_texts, 'text')}; give one for each, or one for all"
                )
                raise SearchError(message, code="count_mismatch")


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
        message = f"search must be a Search, such as Search(beam=5); got {describe_value(search)}"
        raise SearchError(message, code="wrong_type")
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
        raise SearchError(f"expected an iterable of texts; got {describe_value(texts)}", code="wrong_type") from None
    if isinstance(texts, bytes | bytearray):
        raise SearchError(f"texts must be str, not {type(texts).__name__}; use .decode('utf-8')", code="wrong_type")


def parse_strings(name: str, value: object) -> str | list[str] | None:
    """An option that is one str for all texts, or a list with one for each."""
    if value is None or isinstance(value, str):
        return value
    wrong = [value]
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Set | Mapping):
        found = list(value)
        wrong = [one for one in found if not isinstance(one, str)]
        if not wrong:
            return found
    raise SearchError(
        f"{name} must be a str, or a list with one for each text; got {describe_value(wrong[0])}", code="wrong_type"
    )


def parse_constraints(require: Any, avoid: Any, terms: Any, constraints: Any) -> RequestConstraints | None:
    """The lexical constraints of a call; None without any."""
    if require == () and avoid == () and terms is None and constraints is None:
        return None
    from dragoman.search.constraints.request import RequestConstraints  # most calls have none

    return RequestConstraints.parse(require, avoid, terms, constraints)


def limit_length(search: Search, longest: int | None) -> Search:
    """The search, with `max_length` within a model's positions for outputs."""
    if longest is None or (search.max_length is not None and search.max_length <= longest):
        return search
    if search.min_length > longest:
        positions = f"learned positions for {plural(longest, 'token')}"
        message = f"min_length={search.min_length} is too large: this model has {positions}"
        raise SearchError(message, code="out_of_range")
    return replace(search, max_length=longest)


def parse_trees(model: ModelRecipe, trees: Tree | Iterable[Tree] | TreeAligner | None) -> TreeAligner | None:
    """The trees of a call, taken one by one; raise if a model needs them, or does not read them."""
    if model.reads_trees and trees is None:
        raise SearchError(
            "this model reads each sentence with its dependency tree (model.positions='syntax'); give the trees: "
            "--source-trees FILE.conllu on the command line, trees=... in Python",
            code="missing_trees",
        )
    if trees is not None and not model.reads_trees:
        why = "positions" if "positions" not in unused_keys(model.architecture) else "architecture"
        raise SearchError(
            f"a model with model.{why}={getattr(model, why)!r} does not read trees; drop them, or use a model that was "
            "trained with model.positions='syntax'",
            code="unsupported_trees",
        )
    if trees is None:
        return None
    from dragoman.text.trees.dependency import TreeAligner  # few models read trees

    if isinstance(trees, TreeAligner):
        return trees
    if not isinstance(trees, Iterable) or isinstance(trees, str | bytes):
        trees = [trees]  # one tree for one text; anything else is rejected when it is taken
    return TreeAligner(trees)


def resolve_target(targets: Sequence[str], to: object, own: Callable[[], Sequence[str]]) -> str | list[str] | None:
    """The target language of all texts, or a list with one for each; None if the model has only one.

    `targets` are the languages of a multilingual model; `own` is the language of another model, if known.
    """
    codes = parse_strings("to", to)
    listed = [codes] if isinstance(codes, str) else codes or []
    if not targets:
        for code in listed:
            _check_only_language(code, own())
        return None
    if codes is None:
        raise SearchError(
            f"this model translates into {', '.join(targets)}; choose one: --to {targets[0]} on the command line, "
            f"to={targets[0]!r} in Python",
            code="missing_language",
        )
    for code in listed:
        if code not in targets:
            message = f"this model does not translate into {code!r}{suggest(code, targets)}"
            raise SearchError(message, code="unknown_language")
    return codes


def _check_only_language(code: str, own: Sequence[str]) -> None:
    """Raise unless the code is that of the model's only target language."""
    if len(own) != 1:
        raise SearchError(
            f"to={code!r} has no effect: this model has a single target language; drop `to`",
            code="unknown_language",
        )
    if normalize_language(code) != own[0]:
        message = f"to={code!r} is not supported: this model translates only into {own[0]!r}; use another model"
        raise SearchError(message, code="unknown_language")
