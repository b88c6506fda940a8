"""What every tokenizer can do, and the parts that all of them share."""

from __future__ import annotations

import gc
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from dragoman.errors import TextError
from dragoman.text.normalization import VERSION, normalize
from dragoman.text.subword_sampling import Draws
from dragoman.text.target_languages import add_language_tokens, check_language_codes, split_language_tokens
from dragoman.text.token_table import TokenTable
from dragoman.text.words import SPACELESS, WordCache, mark

if TYPE_CHECKING:
    from dragoman.arrays import IntArray, Uint64Array
    from dragoman.text.native_subword_sampling import NativeSampler

MOST_THREADS: Final = 1024
BLOCK: Final = 1024
"""Texts encoded in one go: enough to make a library's call cheap, few enough to keep them near."""


class Tokenizer(Protocol):
    """Text to ids and back: decode(encode(text)) == normalize(text) for any text, and nothing is ever unknown.

    Imported ones promise neither; they do what the toolkit does that they come from.
    """

    @property
    def kind(self) -> str:
        """Which family: "bpe", "unigram" or "wordpiece", or "imported"."""

    @property
    def vocabulary_size(self) -> int:
        """Ids are 0 to this, less one; the special ids are among them."""

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of everything that decides what comes out."""

    @property
    def widths(self) -> Sequence[int]:
        """How many bytes of UTF-8 each id writes, its space counted."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages that have a token of their own, to stand before a source; usually none."""

    def target_id(self, language: str) -> int:
        """The id of a target language's token."""

    def with_targets(self, targets: Sequence[str]) -> Tokenizer:
        """The same with a token for each of these target languages, after all others."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""

    @property
    def marks_words(self) -> bool:
        """Whether a token says by itself that a word begins with it."""

    def encode_marked(self, marked: str) -> list[int]:
        """The ids of normalized text just as it is, with or without a space before its first word."""

    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text, by the quickest way there is."""

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Another segmentation of the same text, a function of (text, alpha, seed); alpha 0 is `encode`."""

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """`sample` for encoded sentences that lie end to end in `ids`, with a seed for each; so are the new ones."""

    @property
    def resamples_in_threads(self) -> bool:
        """Whether threads can resample at the same time; where not, it takes processes."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the ids write; PAD, BOS, EOS and target languages write nothing."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as a person reads them, ▁ for a space."""

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The inverse of `tokens`."""

    def save(self, directory: Path, name: str) -> list[Path]:
        """Write the files that `load_tokenizer` reads."""


class SubwordTokenizer(ABC):
    """The shared part: normalizing, words, decoding; the ways to find and to sample tokens are the subclasses'."""

    def __init__(
        self, kind: str, model: bytes, names: Sequence[str], targets: Sequence[str] = (), scores: Sequence[float] = ()
    ) -> None:
        self.kind = kind
        self.model = model
        self.targets = check_language_codes(targets)
        self.table = TokenTable(names, self.targets)
        self.first_target = len(names)
        self.scores = scores  # of the learned tokens, where there are any
        self.words = WordCache()

    def __reduce__(self) -> tuple[type[SubwordTokenizer], tuple[str, bytes, tuple[str, ...]]]:
        """Processes are handed the model's bytes, and start with an empty cache."""
        return type(self), (self.kind, self.model, self.targets)

    marks_words = True

    @property
    def vocabulary_size(self) -> int:
        """Ids are 0 to this, less one."""
        return len(self.table)

    @cached_property
    def fingerprint(self) -> str:
        """Of the kind, the normalizer's version and the model's bytes."""
        languages = f" to {' '.join(self.targets)}" if self.targets else ""
        return hashlib.sha256(f"{self.kind} {VERSION}{languages}\n".encode() + self.model).hexdigest()

    @cached_property
    def widths(self) -> Sequence[int]:
        """How many bytes of UTF-8 each id writes, its space counted."""
        return [len(written) for written in self.table.written]

    def target_id(self, language: str) -> int:
        """The id of a target language's token."""
        if language not in self.targets:
            there = f"there are: {', '.join(self.targets)}" if self.targets else "it has none"
            raise TextError(
                f"there is no target language {language!r} in this vocabulary; {there}", code="unknown_target"
            )
        return self.first_target + self.targets.index(language)

    def with_targets(self, targets: Sequence[str]) -> SubwordTokenizer:
        """The same tokens, and after them one for each of these target languages."""
        from dragoman.text.store import from_model

        return from_model(self.kind, self.model, targets)

    @abstractmethod
    def encode_marked(self, marked: str) -> list[int]:
        """The ids of normalized text that has the space of its first word."""

    @abstractmethod
    def sample_word(self, word: str, alpha: float, draws: Draws) -> list[int]:
        """One random segmentation of a word with its space; `alpha` is above 0."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""
        return self.encode_marked(mark(normalize(text)))

    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text."""
        if isinstance(texts, str):
            raise TextError(
                f"texts come as a list of str; got one text, {texts!r:.60}; use encode for it", code="wrong_type"
            )
        if not 1 <= threads <= MOST_THREADS:  # sentencepiece ends the process where the system refuses it a thread
            raise TextError(
                f"threads={threads}: encoding needs from 1 to {MOST_THREADS:,} threads", code="out_of_range"
            )
        rows: list[list[int]] = []
        with collector_paused():
            for start in range(0, len(texts), BLOCK):
                rows += self.encode_block([normalize(text) for text in texts[start : start + BLOCK]], threads)
        return rows

    def encode_block(self, texts: list[str], threads: int) -> list[list[int]]:
        """The ids of some normalized texts, by words, which one thread does quicker than the libraries do with two."""
        rows = self.words.encode(texts, lambda words: self.encode_marked_many([" " + word for word in words], threads))
        for number, text in enumerate(texts):
            if not text:
                rows[number] = []
            elif text >= "\u0e00" and SPACELESS.match(text):
                del rows[number][0]  # the space in front of such a word is a token of its own
        return rows

    def encode_marked_many(self, marked: list[str], threads: int) -> list[list[int]]:
        """`encode_marked` for each."""
        return [self.encode_marked(text) for text in marked]

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Another segmentation of the same text; alpha 0 is `encode`."""
        self.check_alpha(alpha)
        if alpha == 0:
            return self.encode(text)
        draws = Draws(seed, alpha)
        first, *rest = mark(normalize(text)).split(" ")
        words = [first] if first else []
        return [i for word in words + [" " + r for r in rest] for i in self.sample_word(word, alpha, draws)]

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """`sample` for encoded sentences, in C where there is a compiler; `ids` must be as `encode` makes them."""
        self.check_alpha(alpha)
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(self.table):
            self.table.checked(ids)  # says which
        if alpha == 0:
            return ids, lengths
        if self.targets:
            text, text_lengths, heads = split_language_tokens(ids, lengths, self.first_target)
            return add_language_tokens(*self.resample_text(text, text_lengths, alpha, seeds), heads)
        return self.resample_text(ids, lengths, alpha, seeds)

    def resample_text(
        self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array
    ) -> tuple[IntArray, IntArray]:
        """`resample` for sentences without the language that may stand before them."""
        import numpy as np

        if self.native_sampler is not None:
            return self.native_sampler.resample(ids, lengths, alpha, seeds)
        ends = np.cumsum(lengths)
        texts = [self.table.decode(ids[end - n : end]) for end, n in zip(ends, lengths, strict=True)]
        rows = [self.sample(text, alpha, int(seed)) for text, seed in zip(texts, seeds, strict=True)]
        return np.array([*chain.from_iterable(rows)], np.int32), np.array([*map(len, rows)], np.int64)

    @property
    def resamples_in_threads(self) -> bool:
        """C lets other threads run, Python does not."""
        return self.native_sampler is not None

    @cached_property
    def native_sampler(self) -> NativeSampler | None:
        """What resamples in C; None where it cannot be built."""
        from dragoman.text.native_subword_sampling import NativeSampler

        text = TokenTable(self.table.names[: self.first_target]) if self.targets else self.table
        return NativeSampler.build(self.kind, text, self.scores)

    def check_alpha(self, alpha: float) -> None:
        """Dropout needs a probability."""
        if not 0 <= alpha <= 1:
            raise TextError(
                f"alpha={alpha} cannot be sampled with; for {self.kind} it is the probability to leave a token out, "
                "from 0 (none, plain encoding) to 1 (all: single characters); 0.1 is usual",
                code="out_of_range",
            )

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the ids write."""
        return self.table.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as a person reads them."""
        return self.table.tokens(ids)

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The inverse of `tokens`."""
        return self.table.to_ids(tokens)

    def save(self, directory: Path, name: str) -> list[Path]:
        """Write the files that `load_tokenizer` reads."""
        from dragoman.text.store import save

        return save(self.kind, self.model, self.vocabulary_size, directory, name, self.targets)


def vocabulary_sizes(source: Tokenizer, target: Tokenizer) -> int | tuple[int, int]:
    """The number of tokens where an id means the same token on both sides, else those of each side.

    Imported models may cut the two sides in two ways and have one vocabulary all the same.
    """
    sizes = source.vocabulary_size, target.vocabulary_size
    if source is target or (sizes[0] == sizes[1] and source.tokens(range(sizes[0])) == target.tokens(range(sizes[1]))):
        return sizes[0]
    return sizes


@contextmanager
def collector_paused() -> Iterator[None]:
    """Many lists of numbers are made and none is garbage; looking through them again and again doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
