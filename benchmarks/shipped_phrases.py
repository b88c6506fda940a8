"""Words and short phrases with their translations, taken from aligned sentence pairs.

Speeches hardly contain a word alone, or a heading: a model that has only read speeches translates "Solution" badly,
although its data have the word ten thousand times. So the shipped models also learn from the phrases that this module
finds: up to three words, linked with each other and with nothing else by the statistical aligner (phrase extraction of
Och and Ney, 2004), with the translation that is most frequent.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.data.alignment.statistical import align_corpus
from dragoman.data.shards import Sentences
from dragoman.progress import Reporter

MAX_WORDS = 3
MIN_COUNT = 5  # occurrences of a phrase with its translation
MIN_SHARE = 0.35  # of the occurrences of a phrase have this translation
MIN_BACK_SHARE = 0.05  # of the occurrences of the translation translate the phrase
FUNCTION_WORDS = 200  # the most frequent words; a phrase of several words neither begins nor ends with one
TOKEN = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
Phrase = tuple[str, ...]


@dataclass(frozen=True)
class PhraseCounts:
    """How often phrases are translations of each other, and how often each occurs with any translation."""

    pairs: Counter[tuple[Phrase, Phrase]]
    sides: tuple[Counter[Phrase], Counter[Phrase]]
    function_words: tuple[set[str], set[str]]


def count_phrases(pairs: Sequence[tuple[str, str]], reporter: Reporter) -> PhraseCounts:
    """Align the sentence pairs, and count the phrases that are linked with each other and with nothing else."""
    tokens = [[TOKEN.findall(pair[side]) for pair in pairs] for side in (0, 1)]
    ids: list[dict[str, int]] = [{}, {}]
    corpus = [as_sentences(lines, own) for lines, own in zip(tokens, ids, strict=True)]
    counts = PhraseCounts(Counter(), (Counter(), Counter()), (frequent(tokens[0]), frequent(tokens[1])))
    number = 0
    for found in align_corpus(corpus[0], corpus[1], (len(ids[0]), len(ids[1])), reporter):
        for start, stop in zip(found.offsets[:-1], found.offsets[1:], strict=True):
            links = [(code & 0xFFFF, code >> 16) for code in found.ids[start:stop].tolist()]
            for phrase, translation in linked_phrases(tokens[0][number], tokens[1][number], links):
                counts.pairs[phrase, translation] += 1
                counts.sides[0][phrase] += 1
                counts.sides[1][translation] += 1
            number += 1
    reporter.close()
    return counts


def as_sentences(lines: Iterable[Sequence[str]], ids: dict[str, int]) -> Sentences:
    """Lines as ids of their words, without case."""
    rows = [[ids.setdefault(word.casefold(), len(ids)) for word in line] for line in lines]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Sentences(np.array([i for row in rows for i in row], np.int32), offsets)


def frequent(lines: Iterable[Sequence[str]]) -> set[str]:
    """The most frequent words that are not capitalized."""
    counts = Counter(word for line in lines for word in line if word[0].islower())
    return {word for word, _ in counts.most_common(FUNCTION_WORDS)}


def linked_phrases(
    source: Sequence[str], target: Sequence[str], links: Sequence[tuple[int, int]]
) -> Iterator[tuple[Phrase, Phrase]]:
    """The pairs of phrases of a sentence pair whose words are linked with each other and with nothing else.

    The first word of a sentence is left out, because it is capitalized; so is whatever is not a word.
    """
    by_source, by_target = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for s, t in links:
        by_source[s].append(t)
        by_target[t].append(s)
    usable = [is_usable(source), is_usable(target)]
    for first in range(len(source)):
        for last in range(first, min(first + MAX_WORDS, len(source))):
            if not usable[0][last] or last not in by_source:
                break
            linked = [t for s in range(first, last + 1) for t in by_source.get(s, ())]
            low, high = min(linked), max(linked)
            inside = range(low, high + 1)
            if (
                first in by_source
                and high - low < MAX_WORDS
                and all(usable[1][t] and t in by_target for t in inside)
                and all(first <= s <= last for t in inside for s in by_target[t])
            ):
                yield tuple(source[first : last + 1]), tuple(target[low : high + 1])


def is_usable(tokens: Sequence[str]) -> list[bool]:
    """For each token, whether it is a word after another word: its case is its own there, not that of a sentence."""
    before = ["", *tokens[:-1]]
    return [token[0].isalpha() and bool(last) and last[0].isalnum() for last, token in zip(before, tokens, strict=True)]


def translations(counts: PhraseCounts, side: int) -> dict[str, str]:
    """The phrases of one side with their most frequent translation; only those that are clear enough."""
    best: dict[Phrase, tuple[int, Phrase]] = {}
    for pair, count in counts.pairs.items():
        phrase, translation = pair[side], pair[1 - side]
        if count >= MIN_COUNT and (count, translation) > best.get(phrase, (0, ())):
            best[phrase] = count, translation
    found = {}
    for phrase, (count, translation) in sorted(best.items()):
        shares = count / counts.sides[side][phrase], count / counts.sides[1 - side][translation]
        edges = {phrase[0], phrase[-1]} & counts.function_words[side]
        other_edges = {translation[0], translation[-1]} & counts.function_words[1 - side]
        alone = len(phrase) == 1 and len(translation) == 1
        contracted = any(mark in word for word in phrase + translation for mark in "'’")  # "don't": half of a sentence
        if (
            shares[0] >= MIN_SHARE
            and shares[1] >= MIN_BACK_SHARE
            and (alone or not (edges or other_edges or contracted))
        ):
            found[" ".join(phrase)] = " ".join(translation)
    return found


def with_cases(phrases: dict[str, str]) -> dict[str, str]:
    """The phrases as they are and capitalized; the translation of a capitalized phrase is capitalized."""
    found = {phrase: translation for phrase, translation in phrases.items() if phrase[0].islower()}
    capitalized = {
        phrase[0].upper() + phrase[1:]: translation[0].upper() + translation[1:]
        for phrase, translation in sorted(phrases.items(), key=lambda item: item[0][0].isupper())
    }
    return found | capitalized
