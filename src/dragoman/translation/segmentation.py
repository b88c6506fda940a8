"""Text that is longer than the model was trained for: cut where it hurts least, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dragoman.text import Tokenizer
from dragoman.text.trees.token_depths import parsed
from dragoman.text.words import MARK, SPACELESS
from dragoman.translation.options import Split

Ids = tuple[int, ...]
CLAUSE_ENDS: Final = tuple(",;:.!?…—–)]»”、，；：。！？）」』،؛؟।")


def in_parts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    most: int,
    language: str,
    split: Split = "long",
    laid: Sequence[bytes] | None = None,
) -> list[list[Ids]]:
    """The tokens of each text, in parts where it must be; none for a text of nothing but white space.

    A text stays whole up to `most` tokens, or always, or never (`split`); `laid` has the depths of bytes in trees.
    """
    found: list[list[Ids]] = []
    for number, (text, ids) in enumerate(zip(texts, tokenizer.encode_many(texts), strict=True)):
        whole = split == "never" or (split == "long" and len(ids) <= most)
        if laid is not None:
            sizes = [len(ids)] if whole else map(len, split_tokens(ids, tokenizer, most))
            found.append([*parsed(ids, tokenizer, laid[number]).parts(sizes if ids else ())])
        elif whole:
            found.append([tuple(ids)] if ids else [])
        else:
            found.append([*map(tuple, split_text(text, tokenizer, most, language))])
    return found


def split_text(text: str, tokenizer: Tokenizer, most: int, language: str) -> list[list[int]]:
    """The tokens of each sentence, and of each part of a sentence that has more than `most` tokens."""
    from sentencex import segment

    sentences = [sentence for found in segment(language, text) if (sentence := found.strip())]
    return [part for ids in tokenizer.encode_many(sentences) for part in split_tokens(ids, tokenizer, most)]


def split_tokens(ids: list[int], tokenizer: Tokenizer, most: int) -> list[list[int]]:
    """Parts of at most `most` tokens: cut after a clause's mark where there is one, else before a word, else anywhere.

    A cut is looked for in the latter half of what fits, so that there are never more than twice as many parts as
    there must be.
    """
    names = tokenizer.tokens(ids)
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
    """Whether a word begins with this token; where no spaces are written, every token may begin one."""
    return names[place].startswith(MARK) or SPACELESS.match(names[place]) is not None


def join(texts: Sequence[str]) -> str:
    """Parts of a text as one, with spaces between them unless the script writes none."""
    joined = ""
    for text in texts:
        touching = joined and text and SPACELESS.match(joined[-1]) is not None and SPACELESS.match(text) is not None
        joined += text if touching or not joined or not text else " " + text
    return joined
