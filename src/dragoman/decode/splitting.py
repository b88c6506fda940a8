"""Text that is longer than the model was trained for: cut where it hurts least, and joined again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dragoman.errors import SearchError
from dragoman.text import Tokeniser
from dragoman.text.words import MARK, SPACELESS

CLAUSE_ENDS: Final = tuple(",;:.!?…—–)]»”、，；：。！？）」』،؛؟।")

# ISO 639-1: of codes with two letters, all that there are
CODES: Final = (
    " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja "
    "jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd "
    "ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu "
)


def language_of(code: str) -> str:
    """A language's code as sentencex takes it, which is silent about one that it does not know."""
    found = re.fullmatch(r"([a-z]{2,3})([-_][a-z0-9]+)*", code.lower()) if isinstance(code, str) else None
    if found is None or (len(found[1]) == 2 and f" {found[1]} " not in CODES):
        raise SearchError(
            f"language={code!r} is no code of a language; give two letters, such as 'de' or 'zh' (ISO 639-1), or three "
            "for a language that has no code of two"
        )
    return found[1]


def split_text(text: str, tokeniser: Tokeniser, most: int, language: str) -> list[list[int]]:
    """The pieces of each sentence, and of each part of a sentence that has more than `most` pieces."""
    from sentencex import segment

    sentences = [sentence for found in segment(language, text) if (sentence := found.strip())]
    return [part for ids in tokeniser.encode_many(sentences) for part in split_pieces(ids, tokeniser, most)]


def split_pieces(ids: list[int], tokeniser: Tokeniser, most: int) -> list[list[int]]:
    """Parts of at most `most` pieces: cut after a clause's mark where there is one, else before a word, else anywhere.

    A cut is looked for in the latter half of what fits, so that there are never more than twice as many parts as
    there must be.
    """
    names = tokeniser.pieces(ids)
    parts, start = [], 0
    while len(ids) - start > most:
        room = range(start + most, start + most // 2, -1)
        after_mark = (end for end in room if names[end - 1].endswith(CLAUSE_ENDS) and begins_word(names, end))
        before_word = (end for end in room if begins_word(names, end))
        whole = (end for end in room if not (names[end].startswith("<0x") and names[end - 1].startswith("<0x")))
        end = next(after_mark, None) or next(before_word, None) or next(whole, start + most)
        parts.append(ids[start:end])
        start = end
    return [*parts, ids[start:]]


def begins_word(names: Sequence[str], place: int) -> bool:
    """Whether a word begins with this piece; where no spaces are written, every piece may begin one."""
    return names[place].startswith(MARK) or SPACELESS.match(names[place]) is not None


def join(texts: Sequence[str]) -> str:
    """Parts of a text as one, with spaces between them unless the script writes none."""
    joined = ""
    for text in texts:
        touching = joined and text and SPACELESS.match(joined[-1]) is not None and SPACELESS.match(text) is not None
        joined += text if touching or not joined or not text else " " + text
    return joined
