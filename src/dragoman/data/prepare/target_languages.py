"""Which language each pair is translated into, where one model learns several: of a corpus, or of each of its lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.corpora.compression import Tick
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_addressed
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.text import Tokenizer

Languages = npt.NDArray[np.uint16]  # of each pair, the place of its target language in text.targets
Chunk = tuple[list[str], list[str], list[str]]


def with_targets(recipe: Recipe, corpora: Sequence[Corpus], tokenizers: Path | None = None) -> Recipe:
    """The recipe with the target languages of its corpora: as it names them, as tokenizers to use have them, or as the
    corpora say. Corpora that do not say theirs, or another one, are refused."""
    if not (targets := settled(recipe, corpora, tokenizers)):
        return recipe
    for corpus in corpora:
        check_says(corpus, targets)
    return replace(recipe, text=replace(recipe.text, targets=targets))


def settled(recipe: Recipe, corpora: Sequence[Corpus], tokenizers: Path | None) -> tuple[str, ...]:
    """The target languages, in the order of their tokens; none where nobody names one."""
    asked = recipe.text.targets
    if tokenizers is None or not tokenizers.is_dir():  # which is refused elsewhere
        return asked or tuple(dict.fromkeys(code for corpus in corpora for code in said_by(corpus)))
    theirs = source_tokenizer(tokenizers).targets
    if asked:
        check_keeps(asked, theirs, tokenizers)
        return asked
    if not theirs and (said := next((corpus for corpus in corpora if corpus.addressed), None)):
        raise DataError(
            f"{said.name} says its target language, but the tokenizers of {tokenizers} have no tokens for any; leave "
            "--to and --to-key out, or name all languages to add tokens for them, such as --set "
            '\'text.targets=["de", "fr"]\''
        )
    return theirs


def check_keeps(asked: Sequence[str], theirs: Sequence[str], tokenizers: Path) -> None:
    """Refuse target languages that are not those of tokenizers to use, with new ones after them."""
    if (*asked[: len(theirs)],) != (*theirs,):
        raise DataError(
            f"text.targets={list(asked)} was asked for, but the tokenizers of {tokenizers} have tokens for "
            f"{', '.join(theirs)}; leave it out, name these first and those to add after them, or learn tokenizers anew"
        )


def source_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of the source in a directory of tokenizers."""
    from dragoman.text import load_tokenizer

    shared = (directory / "shared.json").exists() or not (directory / "source.json").exists()
    return load_tokenizer(directory, "shared" if shared else "source")


def said_by(corpus: Corpus) -> Iterator[str]:
    """The target languages that a corpus names, some perhaps many times; it is read where each line names its own."""
    if corpus.to:
        yield corpus.to
    elif corpus.to_key:
        for _, _, languages in read_addressed(corpus, 1 << 14):
            yield from dict.fromkeys(code for code in languages if code)


def check_says(corpus: Corpus, targets: Sequence[str]) -> None:
    """Refuse a corpus that does not say its target language, and one of another."""
    if not corpus.addressed:
        raise DataError(
            f"{corpus.name} does not say which language it is translated into, and this model learns "
            f"{', '.join(targets)}; give --to for each corpus (--valid-to for a validation set), such as --to "
            f"{targets[0]}, or --to-key for files whose lines say it"
        )
    if corpus.to and corpus.to not in targets:
        raise DataError(
            f"{corpus.name} is translated into {corpus.to!r}, which is not one of text.targets={list(targets)}; add it "
            f"there (--set 'text.targets={json.dumps([*targets, corpus.to])}'), or leave the corpus out"
        )


def addressed(corpus: Corpus, size: int, targets: Sequence[str], tick: Tick) -> Iterator[Chunk]:
    """The pairs of a corpus in chunks, each with its target language; a line with another one is refused.

    Where there are no targets to choose from, nobody names any.
    """
    known, number = {*targets}, 0
    for sources, into, languages in read_addressed(corpus, size, tick):
        if not targets:
            languages = []
        elif not known.issuperset(languages):
            for i, code in enumerate(languages):
                if code not in known and (sources[i].strip() or into[i].strip()):
                    what = (
                        f"is translated into {code!r}" if code else "does not say which language it is translated into"
                    )
                    raise DataError(
                        f"{corpus.source}, line {number + i + 1}: the pair {what}; expected one of text.targets="
                        f"{list(targets)}"
                    )
        number += len(sources)
        yield sources, into, languages


def numbered(languages: Sequence[str], targets: Sequence[str]) -> Languages:
    """The place of each language among the targets; an empty line's is the first, as it goes away."""
    places = {code: place for place, code in enumerate(targets)}
    return np.fromiter((places.get(code, 0) for code in languages), np.uint16, len(languages))


def counted(languages: Languages, targets: Sequence[str]) -> dict[str, int]:
    """How many pairs there are into each language."""
    return dict(zip(targets, np.bincount(languages, minlength=len(targets)).tolist(), strict=True))


def check_languages(languages: Languages | None, targets: Sequence[str], learned: Sequence[str] = ()) -> None:
    """Refuse a target language that there would be nothing to learn of, but for those that are `learned` already."""
    pairs = {} if languages is None else counted(languages, targets)
    if none := [code for code, number in pairs.items() if not number and code not in learned]:
        raise DataError(
            f"text.targets={list(targets)} names {', '.join(none)}, but no pair that cleaning leaves is translated "
            "into it; give a corpus with it, or leave it out"
        )
