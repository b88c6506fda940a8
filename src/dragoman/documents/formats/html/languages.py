"""The languages that HTML declares: those of the source become those of the translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman.documents.edits import Edit
from dragoman.documents.formats.html.elements import meta_name
from dragoman.documents.languages import LanguageChange
from dragoman.documents.markup import Token

INLINE_LANGUAGE: Final = re.compile(
    r"""(?<=\slang=["'])[\w-]+(?=["'])|(?<=\slang=)[\w-]+(?=[\s>])|(?<=\sxml:lang=["'])[\w-]+(?=["'])"""
)


def language_edits(token: Token, language: LanguageChange) -> Iterator[Edit]:
    """Edits of the language that the tag of a block declares."""
    codes = dict.fromkeys(("lang", "xml:lang"), language.tag)
    if meta_name(token) == "og:locale":
        codes["content"] = "_".join(filter(None, language.regional))
    elif token.name == "meta" and (token.get("http-equiv") or "").lower() == "content-language":
        codes["content"] = language.tag
    for one in token.attributes:
        if one.name in codes and language.declares_source(one.value):
            yield one.start, one.end, codes[one.name]


def relabel(tag: str, language: LanguageChange) -> str:
    """The tag of an inline element in the language of the translation, if it declares that of the source."""
    return INLINE_LANGUAGE.sub(lambda one: language.tag if language.declares_source(one[0]) else one[0], tag)
