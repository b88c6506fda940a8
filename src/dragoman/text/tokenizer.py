"""The base classes of all tokenizers, and of learned subword tokenizers."""

from __future__ import annotations

import gc
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from dragoman.errors import TextError
from dragoman.text.normalization import MARK, SPACELESS, VERSION, WordCache, mark, normalize
from dragoman.text.special_tokens import N_SPECIAL, UNK
from dragoman.text.subword_sampling.segmentation import DropStream
from dragoman.text.token_table import (
    BYTE_TOKENS,
    TokenTable,
    add_language_tokens,
    check_language_codes,
    split_language_tokens,
)
from dragoman.values import MAX_THREADS, render_value

if TYPE_CHECKING:
    from dragoman.arrays import IntArray, Uint64Array
    from dragoman.text.subword_sampling.native import NativeSampler

BYTE_NAMES: Final = frozenset(BYTE_TOKENS)
ENCODE_BLOCK: Final = 1024
"""Texts encoded at once: enough to amortize a library call, few enough for the caches."""


class Tokenizer(ABC):
    """Text to ids and back: decode(encode(text)) == normalize(text) for any text, and nothing is ever unknown.

    Imported tokenizers guarantee neither; they behave like the toolkit that they come from. Saving and pickling store
    only the kind ("bpe", "unigram", "wordpiece" or "imported"), the bytes of the model, and the target languages that
    have a token (usually none).
    """

    vocabulary_size: int  # the number of ids, special ids included
    first_target: int  # the id of the first target language

    def __init__(self, kind: str, model: bytes, targets: Sequence[str]) -> None:
        self.kind, self.model, self.targets = kind, model, check_language_codes(targets)

    def __reduce__(self) -> tuple[type[Self], tuple[str, bytes, tuple[str, ...]]]:
        """Pickle the model's bytes, without caches."""
        return type(self), (self.kind, self.model, self.targets)

    @property
    @abstractmethod
    def widths(self) -> Sequence[int]:
        """How many bytes of UTF-8 each id writes, its space counted."""

    @property
    @abstractmethod
    def marks_words(self) -> bool:
        """Whether a token itself marks the beginning of a word."""

    @property
    @abstractmethod
    def resamples_in_threads(self) -> bool:
        """Whether threads can resample in parallel; if not, use processes."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""

    @abstractmethod
    def encode_marked(self, marked: str) -> list[int]:
        """The ids of normalized text, exactly as given, with or without a space before its first word."""

    @abstractmethod
    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text, as fast as possible."""

    @abstractmethod
    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Another segmentation of the same text, a function of (text, alpha, seed); alpha 0 is `encode`."""

    @abstractmethod
    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """`sample` for encoded sentences, concatenated in `ids`, with a seed for each; returns ids and lengths."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; PAD, BOS, EOS and target languages write nothing."""

    @abstractmethod
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as text, ▁ for a space."""

    @abstractmethod
    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The inverse of `tokens`."""

    def decode_many(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """`decode` for each row, as fast as possible."""
        return [self.decode(row) for row in rows]

    def decode_rows(self, ids: IntArray, lengths: IntArray) -> list[str]:
        """`decode` for rows that follow each other in one array, as fast as possible."""
        from dragoman.arrays import split_rows

        return self.decode_many(split_rows(ids, lengths))

    def tokens_many(self, rows: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """`tokens` for each row, as fast as possible."""
        return [tuple(self.tokens(row)) for row in rows]

    @cached_property
    def alphabet(self) -> frozenset[str]:
        """The characters of all tokens, except special ones and bytes."""
        names = self.tokens(range(N_SPECIAL, self.first_target))
        return frozenset(" ".join(name for name in names if name not in BYTE_NAMES)) - {MARK}

    def unknown_characters(self, text: str) -> set[str]:
        """The characters of a text without a token: they are encoded as bytes, or as the unknown token.

        Basic Latin letters and digits that are encoded as bytes are not among them.
        """
        rest = text.encode("utf-8", "ignore").translate(None, self._known_ascii)  # without surrogates
        return set(filter(self._is_unknown, {*rest.decode()} - self.alphabet)) if rest else set()

    @cached_property
    def _known_ascii(self) -> bytes:
        return "".join(filter(str.isascii, self.alphabet)).encode()

    @cached_property
    def _is_unknown(self) -> Callable[[str], bool]:
        """Whether a character has no token, even if it is normalized."""

        @lru_cache(maxsize=1 << 12)
        def is_unknown(character: str) -> bool:
            ids = self.encode(character)
            if UNK in ids:
                return True
            basic = character.isascii() and character.isalnum()  # a small vocabulary has learned its bytes
            return not basic and not BYTE_NAMES.isdisjoint(self.tokens(ids))

        return is_unknown

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the kind, the normalizer's version if it is used, the target languages and the model's bytes."""
        normalizer = "" if self.kind == "imported" else f" {VERSION}"
        languages = f" to {' '.join(self.targets)}" if self.targets else ""
        return hashlib.sha256(f"{self.kind}{normalizer}{languages}\n".encode() + self.model).hexdigest()

    def target_id(self, language: str) -> int:
        """The id of a target language's token."""
        if language not in self.targets:
            there = f"use one of: {', '.join(self.targets)}" if self.targets else "it has none"
            raise TextError(f"this vocabulary has no target language {language!r}; {there}", code="unknown_language")
        return self.first_target + self.targets.index(language)

    def with_targets(self, targets: Sequence[str]) -> Self:
        """The same tokens, followed by one for each of these target languages."""
        return type(self)(self.kind, self.model, targets)

    def check_batch(self, texts: Sequence[str], threads: int) -> None:
        """Reject a single text instead of a list, and a number of threads that is out of range."""
        if isinstance(texts, str):
            raise TextError(
                f"texts must be a list of str; got one str, {render_value(texts)}; use encode for it", code="wrong_type"
            )
        if not 1 <= threads <= MAX_THREADS:  # sentencepiece aborts the process if it cannot start a thread
            raise TextError(f"threads={threads} must be from 1 to {MAX_THREADS:,}", code="out_of_range")

    def save(self, directory: str | Path, name: str) -> list[Path]:
        """Write the files that `load_tokenizer` reads."""
        from dragoman.text.store import save_tokenizer

        return save_tokenizer(self.kind, self.model, self.vocabulary_size, directory, name, self.targets)


class SubwordTokenizer(Tokenizer):
    """Normalization, words and decoding; subclasses find and sample tokens."""

    def __init__(
        self, kind: str, model: bytes, names: Sequence[str], targets: Sequence[str] = (), scores: Sequence[float] = ()
    ) -> None:
        super().__init__(kind, model, targets)
        self.table = TokenTable(names, self.targets)
        self.vocabulary_size = len(self.table)
        self.first_target = len(names)
        self.scores = scores  # of the learned tokens, if the kind has scores
        self.words = WordCache()

    marks_words = True

    @cached_property
    def widths(self) -> Sequence[int]:
        """How many bytes of UTF-8 each id writes, its space counted."""
        return [len(output) for output in self.table.token_bytes]

    @abstractmethod
    def sample_word(self, word: str, alpha: float, draws: DropStream) -> list[int]:
        """One random segmentation of a word with its space; `alpha` is above 0."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""
        return self.encode_marked(mark(normalize(text)))

    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text."""
        self.check_batch(texts, threads)
        rows: list[list[int]] = []
        with pause_gc():
            for start in range(0, len(texts), ENCODE_BLOCK):
                rows += self.encode_block([normalize(text) for text in texts[start : start + ENCODE_BLOCK]], threads)
        return rows

    def encode_block(self, texts: list[str], threads: int) -> list[list[int]]:
        """The ids of normalized texts from cached words: faster with one thread than the libraries with two."""
        rows = self.words.encode(texts, lambda words: self.encode_marked_many([" " + word for word in words], threads))
        for number, text in enumerate(texts):
            if not text:
                rows[number] = []
            elif text >= "\u0e00" and SPACELESS.match(text):
                del rows[number][0]  # the space before such a word is a separate token
        return rows

    def encode_marked_many(self, marked: list[str], threads: int) -> list[list[int]]:
        """`encode_marked` for each."""
        return [self.encode_marked(text) for text in marked]

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Another segmentation of the same text; alpha 0 is `encode`."""
        self.check_alpha(alpha)
        if alpha == 0:
            return self.encode(text)
        draws = DropStream(seed, alpha)
        first, *rest = mark(normalize(text)).split(" ")
        words = [first] if first else []
        return [i for word in words + [" " + r for r in rest] for i in self.sample_word(word, alpha, draws)]

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """`sample` for encoded sentences, in C if there is a compiler; `ids` must come from `encode`."""
        self.check_alpha(alpha)
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(self.table):
            self.table.check_ids(ids)  # the error names it
        if alpha == 0:
            return ids, lengths
        if self.targets:
            text, text_lengths, languages = split_language_tokens(ids, lengths, self.first_target)
            return add_language_tokens(*self.resample_text(text, text_lengths, alpha, seeds), languages)
        return self.resample_text(ids, lengths, alpha, seeds)

    def resample_text(
        self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array
    ) -> tuple[IntArray, IntArray]:
        """`resample` for sentences without language tokens."""
        import numpy as np

        if self.native_sampler is not None:
            return self.native_sampler.resample(ids, lengths, alpha, seeds)
        ends = np.cumsum(lengths)
        texts = [self.table.decode(ids[end - n : end]) for end, n in zip(ends, lengths, strict=True)]
        rows = [self.sample(text, alpha, int(seed)) for text, seed in zip(texts, seeds, strict=True)]
        return np.array([*chain.from_iterable(rows)], np.int32), np.array([*map(len, rows)], np.int64)

    @property
    def resamples_in_threads(self) -> bool:
        """Whether sampling runs in C, which releases the GIL."""
        return self.native_sampler is not None

    @cached_property
    def native_sampler(self) -> NativeSampler | None:
        """The sampler in C; None if it cannot be built."""
        from dragoman.text.subword_sampling.native import NativeSampler

        text = TokenTable(self.table.names[: self.first_target]) if self.targets else self.table
        return NativeSampler.build(self.kind, text, self.scores)

    def check_alpha(self, alpha: float) -> None:
        """Reject an alpha that is not a probability."""
        if not 0 <= alpha <= 1:
            raise TextError(
                f"alpha={alpha} must be from 0 to 1; for {self.kind} it is the probability of dropping a token, 0 for "
                "plain encoding and 1 for single characters; 0.1 is usual",
                code="out_of_range",
            )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return self.table.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as text."""
        return self.table.tokens(ids)

    def decode_many(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """`decode` for each row."""
        return self.table.decode_many(rows)

    def decode_rows(self, ids: IntArray, lengths: IntArray) -> list[str]:
        """`decode` for rows that follow each other in one array."""
        return self.table.decode_rows(ids, lengths)

    def tokens_many(self, rows: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """`tokens` for each row."""
        return self.table.tokens_many(rows)

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The inverse of `tokens`."""
        return self.table.to_ids(tokens)


def vocabulary_sizes(source: Tokenizer, target: Tokenizer) -> int | tuple[int, int]:
    """The vocabulary size if both sides have the same tokens, else the size of each side.

    Imported models may have two tokenizers for one vocabulary.
    """
    sizes = source.vocabulary_size, target.vocabulary_size
    if source is target or (sizes[0] == sizes[1] and source.tokens(range(sizes[0])) == target.tokens(range(sizes[1]))):
        return sizes[0]
    return sizes


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector: scanning many live lists of ids doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
