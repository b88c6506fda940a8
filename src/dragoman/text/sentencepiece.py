"""BPE and unigram tokenizers of the sentencepiece library, with our normalizer instead of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from dragoman.errors import NotATokenizerError, TextError
from dragoman.text.normalization import CACHED_WORDS, MARK, has_words, mark
from dragoman.text.subword_sampling.segmentation import DropStream, Lattice, bpe_dropout, sample_path, unigram_lattice
from dragoman.text.token_table import FIRST_LEARNED, MARK_IDS, byte_ids
from dragoman.text.tokenizer import ENCODE_BLOCK, SubwordTokenizer, pause_gc


class SentencePieceTokenizer(SubwordTokenizer):
    """A sentencepiece model; a ▁ in the text itself is encoded as bytes outside of the library."""

    def __init__(self, kind: str, model: bytes, targets: Sequence[str] = ()) -> None:
        self.processor = load_processor(model)
        names = token_names(self.processor)
        scores = self.processor.get_score(list(range(FIRST_LEARNED, len(names))))
        super().__init__(kind, model, names, targets, scores)
        learned = [name.replace(MARK, " ") for name in names[FIRST_LEARNED:]]
        self.ids = {token: FIRST_LEARNED + i for i, token in enumerate(learned)}
        self.longest = max(map(len, learned), default=1)
        self.score_of = dict(zip(learned, scores, strict=True))
        self.merges: dict[str, tuple[int, list[int]]] = {}
        self.lattices: dict[tuple[str, float], Lattice] = {}

    def encode_marked(self, marked: str) -> list[int]:
        """Encode with the library; each ▁ of the text itself becomes its three bytes."""
        first, *rest = marked.split(MARK)
        ids: list[int] = self.processor.encode(first)
        for part in rest:
            ids += MARK_IDS
            ids += self.processor.encode(part)
        return ids

    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text; if the library encodes, each thread also normalizes its block."""
        if threads <= 1 or len(texts) <= ENCODE_BLOCK or (self.kind == "bpe" and has_words(texts)):
            return super().encode_many(texts, threads)
        from concurrent.futures import ThreadPoolExecutor  # short texts need no threads, and start faster without

        blocks = [texts[start : start + ENCODE_BLOCK] for start in range(0, len(texts), ENCODE_BLOCK)]
        with pause_gc(), ThreadPoolExecutor(threads) as pool:
            return [*chain.from_iterable(pool.map(super().encode_many, blocks))]

    def encode_block(self, texts: list[str], threads: int) -> list[list[int]]:
        """Encode BPE with the word cache; text without spaces, and unigram, with the library."""
        if self.kind == "bpe" and has_words(texts):
            return super().encode_block(texts, threads)
        return self.encode_marked_many([mark(text) for text in texts], threads)

    def encode_marked_many(self, marked: list[str], threads: int) -> list[list[int]]:
        """Encode with the library in one call, with its own threads."""
        rows: list[list[int]] = self.processor.encode(marked, num_threads=threads)
        for number, text in enumerate(marked):
            if MARK in text:
                rows[number] = self.encode_marked(text)
        return rows

    def sample_word(self, word: str, alpha: float, draws: DropStream) -> list[int]:
        """BPE-dropout, or a sample from the lattice of all segmentations."""
        if self.kind == "unigram":
            return self.spell(sample_path(word, self.lattice(word, alpha), draws))
        merges, plain = self.plain_merges(word)
        if draws.kept < merges:
            return self.spell(bpe_dropout(word, self.ids, draws))
        draws.kept -= merges
        return plain

    def spell(self, tokens: list[str]) -> list[int]:
        """The ids of tokens; characters without a token become bytes."""
        ids: list[int] = []
        for token in tokens:
            known = self.ids.get(token)
            ids += byte_ids(token) if known is None else (known,)
        return ids

    def plain_merges(self, word: str) -> tuple[int, list[int]]:
        """The number of BPE merges of a word, and its ids; cached."""
        known = self.merges.get(word)
        if known is None:
            tokens = bpe_dropout(word, self.ids)
            known = len(word) - len(tokens), self.spell(tokens)
            if len(self.merges) < CACHED_WORDS:
                self.merges[word] = known
        return known

    def lattice(self, word: str, alpha: float) -> Lattice:
        """The word's segmentations; cached, because sampling is cheap and building the lattice is not."""
        lattice = self.lattices.get((word, alpha))
        if lattice is None:
            lattice = unigram_lattice(word, self.score_of, self.longest, alpha)
            if len(self.lattices) < CACHED_WORDS // 4:
                self.lattices[word, alpha] = lattice
        return lattice

    def check_alpha(self, alpha: float) -> None:
        """BPE drops merges with a probability; unigram raises probabilities to a power."""
        if self.kind == "bpe":
            super().check_alpha(alpha)
        elif not 0 <= alpha < float("inf"):
            raise TextError(
                f"alpha={alpha} must be finite and at least 0; for unigram it is the exponent of the segmentations' "
                "probabilities: smaller is more varied, 0 disables sampling, 0.2 is usual",
                code="out_of_range",
            )


def load_processor(model: bytes) -> Any:
    """The library's processor for a model."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except Exception as error:  # the library's exception class differs between releases
        raise NotATokenizerError(f"these {len(model)} bytes are not a sentencepiece model: {error}") from None
    return processor


def token_names(processor: Any) -> list[str]:
    """The tokens of a processor by id; a model can hold some that are not UTF-8, and fail when it uses them."""
    try:
        names: list[str] = processor.id_to_piece(list(range(len(processor))))
    except UnicodeDecodeError as error:
        raise NotATokenizerError(f"this sentencepiece model has a token that is not UTF-8: {error}") from None
    return names
