"""Warn before training on corpora whose source looks like their target language."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dragoman.data.corpora.corpus import Corpus
from dragoman.data.swapped_languages import Languages, detect_pair, sample_pairs, swapped_warning
from dragoman.errors import DragomanError
from dragoman.modeldir.info import language_codes, read_info
from dragoman.text.languages.detection import detection_available


def swapped_corpora_warning(corpora: Sequence[Corpus], valid: Sequence[Corpus], start_from: Path | None) -> str | None:
    """A warning about the first corpus or validation set that looks swapped.

    The languages are those of the base model, or of the names of the training files. If neither indicates them, a
    validation set is compared with the training data.
    """
    if not detection_available():
        return None
    with suppress(DragomanError, OSError):  # the preparation reports invalid data
        return find_swapped(corpora, valid, None if start_from is None else read_info(start_from).language_pair)
    return None


def find_swapped(corpora: Sequence[Corpus], valid: Sequence[Corpus], model: Languages | None) -> str | None:
    """Return the warning, if any; `model` is the language pair of the model to start from, if it has one."""
    named = {named_languages(corpus) for corpus in corpora}
    training = next(iter(named)) if len(named) == 1 else None
    for corpus in corpora:
        if warning := check_corpus(corpus, model or named_languages(corpus)):
            return warning
    for corpus in valid:
        expected = model or training or named_languages(corpus)
        if expected is None and len(corpora) == 1:
            expected = detect_pair(*sample_pairs(corpora[0]))
        if warning := check_corpus(corpus, expected):
            return warning
    return None


def check_corpus(corpus: Corpus, expected: Languages | None) -> str | None:
    """A warning if a corpus of known languages looks swapped."""
    return None if expected is None else swapped_warning(corpus.name, *sample_pairs(corpus), expected)


def named_languages(corpus: Corpus) -> Languages | None:
    """The languages indicated by the file names or keys of a corpus."""
    if corpus.form == "plain" and corpus.target is not None:
        names = [corpus.source.name, corpus.to or corpus.target.name]
    else:
        names = [corpus.source_key, corpus.to or corpus.target_key]
    found = [code for name in names for code in language_codes([name])]
    return (found[0], found[1]) if len(found) == 2 else None
