"""Which language texts are translated into, by a model that knows several: a token of its own before each source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from dragoman.errors import SearchError
from dragoman.text import Tokenizer
from dragoman.text.language_codes import language_of
from dragoman.translation.assembly import Ids
from dragoman.values import describe_value, suggest

To = str | Sequence[str] | None


def asked_for(targets: Sequence[str], to: Any, own: Callable[[], Sequence[str]]) -> str | list[str] | None:
    """The target language of all texts, or a list with one for each; None where the model has but one.

    `targets` are the languages of a model that has several; `own` is that of another, if it is known.
    """
    codes = listed(to)
    if not targets:
        for code in codes or ():
            refuse_other(code, own())
        return None
    if codes is None:
        raise SearchError(
            f"this model translates into {', '.join(targets)}; say which: --to {targets[0]}, or to={targets[0]!r} in "
            "Python"
        )
    for code in codes:
        if code not in targets:
            raise SearchError(f"this model does not translate into {code!r}{suggest(code, targets)}")
    return codes[0] if isinstance(to, str) else codes


def listed(to: Any) -> list[str] | None:
    """The languages that a call names, each checked to be a text."""
    if to is None:
        return None
    found = [to] if isinstance(to, str) else None
    if found is None and isinstance(to, Iterable) and not isinstance(to, bytes | bytearray | Set | Mapping):
        found = list(to)
    if found is None or not all(isinstance(code, str) for code in found):
        wrong = to if found is None else next(code for code in found if not isinstance(code, str))
        raise SearchError(
            f"to must be a language's code, or a list with one for each text; got {describe_value(wrong)}"
        )
    return found


def refuse_other(code: str, own: Sequence[str]) -> None:
    """Refuse a language for a model that has one target language, unless it is just that one."""
    if len(own) != 1:
        raise SearchError(
            f"to={code!r} was asked for, but this model has one target language, and does not say which; leave --to "
            "out, or use a model that was trained with text.targets",
            code="unknown_target_language",
        )
    if language_of(code) != own[0]:
        raise SearchError(
            f"to={code!r} was asked for, but this model translates into {own[0]!r} alone; leave --to out, or use "
            "another model",
            code="wrong_target_language",
        )


def heads(tokenizer: Tokenizer, to: str | Sequence[str] | None, first: int, count: int) -> list[Ids]:
    """What stands before each of `count` texts from number `first` on: nothing, or the token of its language."""
    if to is None:
        return [()] * count
    if isinstance(to, str):
        return [(tokenizer.target_id(to),)] * count
    here = to[first : first + count]
    if len(here) < count:
        raise SearchError(f"there are more texts than the {len(to)} languages of to; give one for each, or one for all")
    return [(tokenizer.target_id(code),) for code in here]
