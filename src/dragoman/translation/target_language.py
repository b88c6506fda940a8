"""The target language of a multilingual model: a language token before each source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from dragoman.errors import SearchError
from dragoman.text import Tokenizer
from dragoman.text.language_codes import normalize_language
from dragoman.translation.assembly import Ids
from dragoman.values import describe_value, suggest


def resolve_target(targets: Sequence[str], to: Any, own: Callable[[], Sequence[str]]) -> str | list[str] | None:
    """The target language of all texts, or a list with one for each; None where the model has only one.

    `targets` are the languages of a multilingual model; `own` that of another model, if it is known.
    """
    codes = _as_codes(to)
    if not targets:
        for code in codes or ():
            _check_only_language(code, own())
        return None
    if codes is None:
        raise SearchError(
            f"this model translates into {', '.join(targets)}; choose one: --to {targets[0]}, or to={targets[0]!r} in "
            "Python",
            code="target_language_missing",
        )
    for code in codes:
        if code not in targets:
            raise SearchError(
                f"this model does not translate into {code!r}{suggest(code, targets)}", code="wrong_target_language"
            )
    return codes[0] if isinstance(to, str) else codes


def _as_codes(to: Any) -> list[str] | None:
    if to is None:
        return None
    found = [to] if isinstance(to, str) else None
    if found is None and isinstance(to, Iterable) and not isinstance(to, bytes | bytearray | Set | Mapping):
        found = list(to)
    if found is None or not all(isinstance(code, str) for code in found):
        wrong = to if found is None else next(code for code in found if not isinstance(code, str))
        raise SearchError(
            f"to must be a language code, or a list with one for each text; got {describe_value(wrong)}",
            code="wrong_type",
        )
    return found


def _check_only_language(code: str, own: Sequence[str]) -> None:
    """Raise unless the code is that of the model's only target language."""
    if len(own) != 1:
        raise SearchError(
            f"to={code!r} was given, but this model has one target language and does not say which; drop --to, or "
            "use a model trained with text.targets",
            code="unknown_target_language",
        )
    if normalize_language(code) != own[0]:
        raise SearchError(
            f"to={code!r} was given, but this model translates only into {own[0]!r}; drop --to, or use another model",
            code="wrong_target_language",
        )


def language_tokens(tokenizer: Tokenizer, to: str | Sequence[str] | None, first: int, count: int) -> list[Ids]:
    """The language token, if any, before each of `count` texts from number `first` on."""
    if to is None:
        return [()] * count
    if isinstance(to, str):
        return [(tokenizer.target_id(to),)] * count
    codes = to[first : first + count]
    if len(codes) < count:
        raise SearchError(
            f"got more texts than the {len(to)} languages of `to`; give one for each, or one for all",
            code="count_mismatch",
        )
    return [(tokenizer.target_id(code),) for code in codes]
