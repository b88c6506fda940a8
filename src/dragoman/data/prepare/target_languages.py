"""The target language of each pair, for models with several: one per corpus, or one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.corpora.compression import OpenFile
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs_with_languages
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.text import Tokenizer

LanguageIndices = npt.NDArray[np.uint16]  # index of each pair's target language in text.targets
Chunk = tuple[list[str], list[str], list[str]]  # sources, targets, and target languages


def with_targets(recipe: Recipe, corpora: Sequence[Corpus], tokenizers: Path | None = None) -> Recipe:
    """The recipe with its target languages: its own, those of the given tokenizers, or those that the corpora name.

    Corpora without a target language, or with another one, are rejected.
    """
    if not (targets := find_targets(recipe, corpora, tokenizers)):
        return recipe
    for corpus in corpora:
        check_names_target(corpus, targets)
    return replace(recipe, text=replace(recipe.text, targets=targets))


def find_targets(recipe: Recipe, corpora: Sequence[Corpus], tokenizers: Path | None) -> tuple[str, ...]:
    """The target languages in the order of their tokens; empty if nothing names one."""
    given = recipe.text.targets
    if tokenizers is None:
        return given or tuple(dict.fromkeys(code for corpus in corpora for code in read_targets(corpus)))
    known = source_tokenizer(tokenizers).targets
    if given:
        check_targets_extend(given, known, tokenizers)
        return given
    if not known and (corpus := next((corpus for corpus in corpora if corpus.names_target), None)):
        raise DataError(
            f"{corpus.name} names its target language, but the tokenizers of {tokenizers} have no language tokens; "
            "leave out `to` and `to_key`, or name all languages in the recipe to add tokens for them, such as "
            'text.targets=["de", "fr"]',
            code="unknown_language",
        )
    return known


def check_targets_extend(given: Sequence[str], known: Sequence[str], tokenizers: Path) -> None:
    """Reject target languages that are not those of the tokenizers, followed by new ones."""
    if (*given[: len(known)],) != (*known,):
        raise DataError(
            f"text.targets={list(given)} does not begin with {', '.join(known)}, the languages of the tokenizers of "
            f"{tokenizers}; leave it out, name these first and then those to add, or learn new tokenizers",
            code="language_mismatch",
        )


def source_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of the source in a directory of tokenizers."""
    from dragoman.text import load_tokenizer

    shared = (directory / "shared.json").exists() or not (directory / "source.json").exists()
    return load_tokenizer(directory, "shared" if shared else "source")


def read_targets(corpus: Corpus) -> Iterator[str]:
    """The target languages that a corpus names, possibly with repetitions; it is read if each line names its own."""
    if corpus.to:
        yield corpus.to
    elif corpus.to_key:
        for _, _, languages in read_pairs_with_languages(corpus, 1 << 14):
            yield from dict.fromkeys(code for code in languages if code)


def check_names_target(corpus: Corpus, targets: Sequence[str]) -> None:
    """Reject a corpus that names no target language, or another one."""
    if not corpus.names_target:
        raise DataError(
            f"{corpus.name} does not name its target language, and this model has {', '.join(targets)}; give `to` for "
            f"each corpus and validation set, such as {targets[0]!r}, or `to_key` for files whose lines name it",
            code="missing_language",
        )
    if corpus.to and corpus.to not in targets:
        raise DataError(
            f"{corpus.name} is translated into {corpus.to!r}, which is not one of text.targets={list(targets)}; add it "
            f"in the recipe (text.targets={json.dumps([*targets, corpus.to])}), or leave the corpus out",
            code="unknown_language",
        )


def read_with_languages(corpus: Corpus, size: int, targets: Sequence[str], open_file: OpenFile) -> Iterator[Chunk]:
    """The pairs of a corpus in chunks, each with its target language, if there are `targets`; reject unknown ones."""
    known, number = {*targets}, 0
    for sources, into, languages in read_pairs_with_languages(corpus, size, open_file):
        if not targets:
            languages = []
        elif not known.issuperset(languages):
            for i, code in enumerate(languages):
                if code not in known and (sources[i].strip() or into[i].strip()):
                    problem = f"the target language {code!r} is unknown" if code else "the pair has no target language"
                    raise DataError(
                        f"{corpus.source}, line {number + i + 1}: {problem}; expected one of text.targets="
                        f"{list(targets)}",
                        code="unknown_language" if code else "missing_language",
                    )
        number += len(sources)
        yield sources, into, languages


def language_indices(languages: Sequence[str], targets: Sequence[str]) -> LanguageIndices:
    """The index of each language in `targets`; empty lines get the first, because they are dropped."""
    indices = {code: index for index, code in enumerate(targets)}
    return np.fromiter((indices.get(code, 0) for code in languages), np.uint16, len(languages))


def count_languages(languages: LanguageIndices, targets: Sequence[str]) -> dict[str, int]:
    """The number of pairs for each target language."""
    return dict(zip(targets, np.bincount(languages, minlength=len(targets)).tolist(), strict=True))


def check_languages(languages: LanguageIndices | None, targets: Sequence[str], learned: Sequence[str] = ()) -> None:
    """Reject target languages without a pair, except those `learned` already."""
    pairs = {} if languages is None else count_languages(languages, targets)
    if missing := [code for code, number in pairs.items() if not number and code not in learned]:
        raise DataError(
            f"text.targets={list(targets)} names {', '.join(missing)}, but cleaning left no pairs for it; "
            "add a corpus, or leave it out",
            code="no_pairs_left",
        )
