"""Target languages as tokens: the one before a source says what it is translated into (Johnson et al., 2017).

Such a token belongs to the vocabulary alone: no text is ever split into it, and it writes nothing. A learned token
cannot have its name, because digits are always tokens by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.config.sections import LANGUAGE_CODE, MAX_LANGUAGE_CODE
from dragoman.errors import TextError

if TYPE_CHECKING:
    from dragoman.arrays import IntArray


def language_token(code: str) -> str:
    """The name of a language's token: `<2de>`, read as "to German"."""
    return f"<2{code}>"


def is_language_code(code: object) -> bool:
    """Whether something can name a target language: letters and digits, with hyphens between them."""
    return isinstance(code, str) and len(code) <= MAX_LANGUAGE_CODE and re.fullmatch(LANGUAGE_CODE, code) is not None


def check_language_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """The codes of target languages, each valid and named once."""
    for code in codes:
        if not is_language_code(code):
            raise TextError(
                f"{code!r} is not a language code; use letters, digits and hyphens, such as 'de' or 'zh-Hans'",
                code="invalid_language_code",
            )
    if len({*codes}) != len(codes):
        raise TextError(f"the target languages {', '.join(codes)} name one of them twice", code="duplicate_language")
    return tuple(codes)


def split_language_tokens(ids: IntArray, lengths: IntArray, first: int) -> tuple[IntArray, IntArray, IntArray]:
    """Concatenated sentences without the language token that each may begin with, their lengths, and those tokens.

    Ids from `first` on are languages; a sentence that begins with none has -1.
    """
    import numpy as np

    starts, languages = np.cumsum(lengths) - lengths, np.full(len(lengths), -1, np.int64)
    nonempty = np.flatnonzero(lengths)
    languages[nonempty] = ids[starts[nonempty]]
    languages[languages < first] = -1
    return np.delete(ids, starts[languages >= 0]), lengths - (languages >= 0), languages


def add_language_tokens(ids: IntArray, lengths: IntArray, languages: IntArray) -> tuple[IntArray, IntArray]:
    """The inverse of `split_language_tokens`: each sentence after its language token, unless that is -1."""
    import numpy as np

    starts, present = np.cumsum(lengths) - lengths, languages >= 0
    return np.insert(ids, starts[present], languages[present].astype(ids.dtype)), lengths + present
