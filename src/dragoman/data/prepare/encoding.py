"""Encode cleaned text: it is on disk, and every process reads and encodes a part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dragoman.arrays import Int64Array
from dragoman.data.alignment.pharaoh import Links, TokenWords, token_links, word_starts
from dragoman.data.corpora.cleaning import EXAMPLES
from dragoman.data.prepare.staging import PAIRS_PER_CHUNK, CleanText, PrepareContext, SideTokenizers
from dragoman.data.prepare.target_languages import count_languages
from dragoman.data.prepared import DEPTHS, LINKS, SIDES, TOKENIZERS
from dragoman.data.shards import Sentences, SentenceWriter, SplitPart, dtype_for, map_file
from dragoman.errors import DataError
from dragoman.text.token_table import add_language_tokens
from dragoman.text.word_groups import is_punctuation

if TYPE_CHECKING:
    from dragoman.text import Tokenizer


def append_bytes(writer: SentenceWriter, sentences: Sequence[bytes]) -> None:
    """Sentences as UTF-8, or the depths of their bytes, end to end."""
    writer.append(np.frombuffer(b"".join(sentences), np.uint8), int_array(map(len, sentences), len(sentences)))


def read_texts(directory: Path, name: str, start: int, stop: int) -> list[str]:
    """Sentences start .. stop - 1 that `append_bytes` wrote; read, not mapped, because mapped pages count as memory."""
    offsets = map_file(directory / f"{name}.offsets", "int64")[start : stop + 1].tolist()
    with (directory / f"{name}.ids").open("rb") as file:
        file.seek(offsets[0])
        block = file.read(offsets[-1] - offsets[0])
    return [block[a - offsets[0] : b - offsets[0]].decode() for a, b in pairwise(offsets)]


def chunk_ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """start .. stop in steps of `size`."""
    for begin in range(start, stop, size):
        yield begin, min(begin + size, stop)


@dataclass(frozen=True)
class EncodedSide:
    """One side of a chunk: ids end to end, and for each sentence its length in tokens, words and characters."""

    ids: npt.NDArray[Any]
    lengths: Int64Array
    words: Int64Array
    characters: Int64Array


@lru_cache(4)
def cached_tokenizer(directory: Path, name: str, version: int = 0) -> Tokenizer:
    """A tokenizer, loaded once in each process; `version` tells apart those of two preparations with the same path."""
    from dragoman.text import load_tokenizer

    return load_tokenizer(directory, name)


def encode_side(directory: Path, name: str, tokenizer: str, start: int, stop: int, dtype: str) -> EncodedSide:
    """Encode sentences start .. stop - 1 of one side of a text."""
    texts = read_texts(directory, name, start, stop)
    version = (directory / TOKENIZERS / f"{tokenizer}.json").stat().st_mtime_ns
    found = cached_tokenizer(directory / TOKENIZERS, tokenizer, version).encode_many(texts)
    lengths, characters = int_array(map(len, found), len(texts)), int_array(map(len, texts), len(texts))
    ids = np.fromiter(chain.from_iterable(found), dtype, int(lengths.sum()))
    return EncodedSide(ids, lengths, int_array((text.count(" ") + 1 for text in texts), len(texts)), characters)


def encode_chunk(
    directory: Path, name: str, tokenizers: tuple[str, str], start: int, stop: int, dtypes: tuple[str, str]
) -> tuple[EncodedSide, EncodedSide]:
    """Encode both sides of the pairs start .. stop - 1; runs in every process."""
    source = encode_side(directory, f"{name}.source", tokenizers[0], start, stop, dtypes[0])
    return source, encode_side(directory, f"{name}.target", tokenizers[1], start, stop, dtypes[1])


def int_array(numbers: Iterable[int], n: int) -> Int64Array:
    """n numbers as an array."""
    return np.fromiter(numbers, np.int64, n)


def encode_splits(
    context: PrepareContext,
    train: CleanText,
    held_out: npt.NDArray[np.bool_],
    valid: CleanText | None,
    tokenizers: SideTokenizers,
) -> dict[str, dict[str, Any]]:
    """Encode all text into the files of the splits; return the content of each split."""
    dtypes = [dtype_for(tokenizers[side].vocabulary_size) for side in SIDES]
    splits: dict[str, dict[str, Any]] = {}
    with ExitStack() as open_files:

        def open_split(split: str) -> list[SentenceWriter]:
            splits[split] = {"parts": [], "pairs": 0} | {
                side: {"tokens": 0, "words": 0, "characters": 0} for side in SIDES
            }
            if targets := context.recipe.text.targets:
                splits[split]["to"] = dict.fromkeys(targets, 0)
            kinds = {**dict(zip(SIDES, dtypes, strict=True)), **({DEPTHS: "uint8"} if train.trees else {})}
            kinds |= {LINKS: "uint32"} if split == "train" and train.aligned else {}
            return [
                open_files.enter_context(SentenceWriter(context.staging, f"{split}.{of}", kind))
                for of, kind in kinds.items()
            ]

        names = ["train", "valid"] if valid is not None or held_out.any() else ["train"]
        writers = {name: open_split(name) for name in names}
        texts = [(train, held_out, names if valid is None else ["train"])]
        texts += [] if valid is None else [(valid, np.ones(len(valid), bool), ["valid"])]
        for text, for_valid, fed in texts:
            for part in text.parts:
                starts = {name: writers[name][0].count for name in fed}
                for begin, chunk in encode_text(context, text, part, tokenizers, dtypes):
                    mask = for_valid[begin : begin + len(chunk[0].lengths)]
                    for name in fed:
                        chosen = mask if name == "valid" else ~mask
                        append_pairs(context, text, begin, chunk, chosen, writers[name], splits[name])
                for name in fed:
                    weight = 1.0 if name == "valid" and text is train else part.weight
                    written = replace(part, start=starts[name], stop=writers[name][0].count, weight=weight)
                    splits[name]["parts"].append(asdict(written))
    if not splits["train"]["pairs"]:
        raise DataError(
            f"no pair is left: all have more than data.max_tokens={context.recipe.data.max_tokens} tokens; raise it",
            code="no_pairs_left",
        )
    return splits


def encode_text(
    context: PrepareContext, text: CleanText, part: SplitPart, tokenizers: SideTokenizers, dtypes: Sequence[str]
) -> Iterator[tuple[int, tuple[EncodedSide, EncodedSide]]]:
    """The encoded chunks of one part of a text, each with the number of its first pair."""
    names = tuple(tokenizers[side].name for side in SIDES)
    chunks = list(chunk_ranges(part.start, part.stop, PAIRS_PER_CHUNK))
    tasks = ((context.staging, text.name, names, start, stop, tuple(dtypes)) for start, stop in chunks)
    for (start, stop), chunk in zip(chunks, context.workers.map(encode_chunk, tasks), strict=True):
        yield start, with_language_tokens(context, text, tokenizers, start, chunk)
        context.reporter.advance(stop - start)


def with_language_tokens(
    context: PrepareContext,
    text: CleanText,
    tokenizers: SideTokenizers,
    start: int,
    chunk: tuple[EncodedSide, EncodedSide],
) -> tuple[EncodedSide, EncodedSide]:
    """A chunk whose sources begin with the tokens of their target languages, if there are several."""
    if text.languages is None:
        return chunk
    tokenizer = cached_tokenizer(context.staging / TOKENIZERS, tokenizers["source"].name)
    first = tokenizer.target_id(context.recipe.text.targets[0])
    languages = first + text.languages[start : start + len(chunk[0].lengths)].astype(np.int64)
    ids, lengths = add_language_tokens(chunk[0].ids, chunk[0].lengths, languages)
    return replace(chunk[0], ids=ids, lengths=lengths), chunk[1]


def append_pairs(
    context: PrepareContext,
    text: CleanText,
    begin: int,
    chunk: tuple[EncodedSide, EncodedSide],
    chosen: npt.NDArray[np.bool_],
    writers: Sequence[SentenceWriter],
    split: dict[str, Any],
) -> None:
    """Append the chosen pairs of a chunk to a split, except those with too many tokens, which are counted."""
    longest = np.maximum(chunk[0].lengths, chunk[1].lengths)
    dropped = np.flatnonzero(chosen & (longest > context.recipe.data.max_tokens))
    if len(dropped):
        examples = [
            tuple(read_texts(context.staging, f"{text.name}.{side}", begin + i, begin + i + 1)[0] for side in SIDES)
            for i in dropped[:EXAMPLES].tolist()
        ]
        text.cleaner.count_dropped("tokens", len(dropped), [(s, t) for s, t in examples])
    kept = chosen & (longest <= context.recipe.data.max_tokens)
    split["pairs"] += int(kept.sum())
    if text.languages is not None:
        languages = text.languages[begin : begin + len(kept)][kept]
        for code, count in count_languages(languages, context.recipe.text.targets).items():
            split["to"][code] += count
    for writer in writers[len(SIDES) :]:
        if writer.name.endswith(LINKS):
            append_links(context, text, begin, chunk, kept, writer)
            continue
        depths = Sentences.open(context.staging, f"{text.name}.{DEPTHS}", "uint8")
        writer.append(*depths.gather(begin + np.flatnonzero(kept)))
    for side, writer, encoded in zip(SIDES, writers[: len(SIDES)], chunk, strict=True):
        lengths = encoded.lengths[kept]
        writer.append(encoded.ids[np.repeat(kept, encoded.lengths)], lengths)
        split[side]["tokens"] += int(lengths.sum())
        split[side]["words"] += int(encoded.words[kept].sum())
        split[side]["characters"] += int(encoded.characters[kept].sum())


def append_links(
    context: PrepareContext,
    text: CleanText,
    begin: int,
    chunk: tuple[EncodedSide, EncodedSide],
    kept: npt.NDArray[np.bool_],
    writer: SentenceWriter,
) -> None:
    """Append the links between the tokens of the kept pairs of a chunk, from links between their words."""
    links = Sentences.open(context.staging, f"{text.name}.{LINKS}", "uint32")
    sides = [token_words(token_names(context, side), encoded, kept) for side, encoded in zip(SIDES, chunk, strict=True)]
    codes, counts = links.gather(begin + np.flatnonzero(kept))
    words = codes.astype(np.int64)
    sentences = np.repeat(np.arange(len(counts)), counts)
    writer.append(*token_links((sentences, words & 0xFFFF, words >> 16), sides[0], sides[1]))


def append_word_links(writer: SentenceWriter, links: Sequence[Links]) -> None:
    """Append the links between the words of some pairs, as `target << 16 | source`."""
    codes = [min(target, 0xFFFF) << 16 | min(source, 0xFFFF) for pair in links for source, target in pair]
    writer.append(np.array(codes, np.uint32), int_array(map(len, links), len(links)))


def token_names(context: PrepareContext, side: str) -> list[str]:
    """The vocabulary of a side."""
    name = "shared" if (context.staging / TOKENIZERS / "shared.json").exists() else side
    tokenizer = cached_tokenizer(context.staging / TOKENIZERS, name)
    return tokenizer.tokens(range(tokenizer.vocabulary_size))


def token_words(names: Sequence[str], encoded: EncodedSide, kept: npt.NDArray[np.bool_]) -> TokenWords:
    """The words of the tokens of the kept sentences; language tokens come before the first word."""
    ids, lengths = encoded.ids[np.repeat(kept, encoded.lengths)], encoded.lengths[kept]
    begins = word_starts(names)[ids]
    total = np.cumsum(begins)
    first, full = np.cumsum(lengths) - lengths, lengths > 0
    before = np.repeat(np.concatenate([[0], total])[first[full]], lengths[full])
    marks = np.array([*map(is_punctuation, names)])
    return TokenWords(lengths.astype(np.int64), total - before - 1, marks[ids])
