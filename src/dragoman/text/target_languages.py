"""Target languages as tokens: which one stands before a source says what it is translated into (Johnson et al., 2017).

Such a token is the vocabulary's own: no text is ever cut into it, and it writes nothing. A learned token cannot have
its name, because digits are always tokens by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.config.sections import LANGUAGE_CODE, MAX_LANGUAGE_CODE
from dragoman.errors import TextError

if TYPE_CHECKING:
    from dragoman.arrays import IntArray


def token_of(code: str) -> str:
    """How the token of a language is called: `<2de>`, read as "to German"."""
    return f"<2{code}>"


def is_code(code: object) -> bool:
    """Whether something can name a target language: letters and digits, with hyphens between them."""
    return isinstance(code, str) and len(code) <= MAX_LANGUAGE_CODE and re.fullmatch(LANGUAGE_CODE, code) is not None


def checked_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Target languages, each named once and by a code; refused where one is not."""
    for code in codes:
        if not is_code(code):
            raise TextError(
                f"{code!r} cannot name a target language; use a code of letters, digits and hyphens, such as 'de' or "
                "'zh-Hans'"
            )
    if len({*codes}) != len(codes):
        raise TextError(f"the target languages {', '.join(codes)} name one of them twice; each has one token")
    return tuple(codes)


def without_heads(ids: IntArray, lengths: IntArray, first: int) -> tuple[IntArray, IntArray, IntArray]:
    """Sentences that lie end to end without the language that each may begin with, their lengths, and those languages.

    Ids from `first` on are languages; a sentence that begins with none has -1.
    """
    import numpy as np

    starts, heads = np.cumsum(lengths) - lengths, np.full(len(lengths), -1, np.int64)
    there = np.flatnonzero(lengths)
    heads[there] = ids[starts[there]]
    heads[heads < first] = -1
    return np.delete(ids, starts[heads >= 0]), lengths - (heads >= 0), heads


def with_heads(ids: IntArray, lengths: IntArray, heads: IntArray) -> tuple[IntArray, IntArray]:
    """The inverse of `without_heads`: each sentence with its head before it, where that is no -1."""
    import numpy as np

    starts, there = np.cumsum(lengths) - lengths, heads >= 0
    return np.insert(ids, starts[there], heads[there].astype(ids.dtype)), lengths + there
