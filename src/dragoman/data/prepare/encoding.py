"""Text on its way to ids: cleaned, it lies on the disk, so that any process can read a part of it and encode it."""

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
from dragoman.data.corpora.cleaning import EXAMPLES
from dragoman.data.prepare.job import CHUNK, Cleaned, Job, Names
from dragoman.data.prepare.target_languages import counted as languages_counted
from dragoman.data.prepared import DEPTHS, SIDES, TOKENIZERS
from dragoman.data.shards import Part, Sentences, Writer, dtype_for, mapped
from dragoman.errors import DataError
from dragoman.text.target_languages import with_heads

if TYPE_CHECKING:
    from dragoman.text import Tokenizer


def append_texts(writer: Writer, texts: Sequence[str]) -> None:
    """Sentences as UTF-8 bytes, end to end."""
    packed = [text.encode() for text in texts]
    flat = np.frombuffer(b"".join(packed), np.uint8)
    writer.append(flat, np.fromiter(map(len, packed), np.int64, len(packed)))


def append_depths(writer: Writer, laid: Sequence[bytes], chosen: Int64Array) -> None:
    """The depths of the chosen sentences' bytes, end to end."""
    stay = [laid[i] for i in chosen]
    writer.append(np.frombuffer(b"".join(stay), np.uint8), counted(map(len, stay), len(stay)))


def read_texts(directory: Path, name: str, start: int, stop: int) -> list[str]:
    """Sentences start .. stop - 1 that `append_texts` wrote; read and not mapped, as mapped pages count as memory."""
    offsets = mapped(directory / f"{name}.offsets", "int64")[start : stop + 1].tolist()
    with (directory / f"{name}.ids").open("rb") as file:
        file.seek(offsets[0])
        block = file.read(offsets[-1] - offsets[0])
    return [block[a - offsets[0] : b - offsets[0]].decode() for a, b in pairwise(offsets)]


def ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """start .. stop in tokens of `size`."""
    for begin in range(start, stop, size):
        yield begin, min(begin + size, stop)


@dataclass(frozen=True)
class Encoded:
    """One side of a chunk: ids end to end, and for each sentence its length in tokens, words and characters."""

    ids: npt.NDArray[Any]
    lengths: Int64Array
    words: Int64Array
    characters: Int64Array


@lru_cache(4)
def tokenizer_at(directory: Path, name: str) -> Tokenizer:
    """A tokenizer, loaded once in each process."""
    from dragoman.text import load_tokenizer

    return load_tokenizer(directory, name)


def encode(directory: Path, name: str, tokenizer: str, start: int, stop: int, dtype: str) -> Encoded:
    """Encode sentences start .. stop - 1 of one side of a text."""
    texts = read_texts(directory, name, start, stop)
    found = tokenizer_at(directory / TOKENIZERS, tokenizer).encode_many(texts)
    lengths, characters = counted(map(len, found), len(texts)), counted(map(len, texts), len(texts))
    ids = np.fromiter(chain.from_iterable(found), dtype, int(lengths.sum()))
    return Encoded(ids, lengths, counted((text.count(" ") + 1 for text in texts), len(texts)), characters)


def encode_pairs(
    directory: Path, name: str, tokenizers: tuple[str, str], start: int, stop: int, dtypes: tuple[str, str]
) -> tuple[Encoded, Encoded]:
    """Encode both sides of the pairs start .. stop - 1; this is what runs in every process."""
    source = encode(directory, f"{name}.source", tokenizers[0], start, stop, dtypes[0])
    return source, encode(directory, f"{name}.target", tokenizers[1], start, stop, dtypes[1])


def counted(numbers: Iterable[int], n: int) -> Int64Array:
    """n numbers as an array."""
    return np.fromiter(numbers, np.int64, n)


def encode_splits(
    job: Job,
    train: Cleaned,
    held: npt.NDArray[np.bool_],
    checked: Cleaned | None,
    names: Names,
) -> dict[str, dict[str, Any]]:
    """Encode all text on all cores into the files of the splits; says for each split what it holds."""
    dtypes = [dtype_for(names[side][1]) for side in SIDES]
    splits: dict[str, dict[str, Any]] = {}
    with ExitStack() as open_files:

        def writers(split: str) -> list[Writer]:
            splits[split] = {"parts": [], "pairs": 0} | {
                side: {"tokens": 0, "words": 0, "characters": 0} for side in SIDES
            }
            if targets := job.recipe.text.targets:
                splits[split]["to"] = dict.fromkeys(targets, 0)
            kinds = {**dict(zip(SIDES, dtypes, strict=True)), **({DEPTHS: "uint8"} if train.trees else {})}
            return [open_files.enter_context(Writer(job.staging, f"{split}.{of}", kind)) for of, kind in kinds.items()]

        into = writers("train")
        aside = writers("valid") if checked is not None or held.any() else []
        for part in train.parts:
            starts = into[0].count, aside[0].count if aside else 0
            for begin, chunk in encode_text(job, train, part, names, dtypes):
                mask = held[begin : begin + len(chunk[0].lengths)]
                add(job, train, begin, chunk, ~mask, into, splits["train"])
                if mask.any():
                    add(job, train, begin, chunk, mask, aside, splits["valid"])
            splits["train"]["parts"].append(asdict(replace(part, start=starts[0], stop=into[0].count)))
            if aside and checked is None:
                splits["valid"]["parts"].append(asdict(replace(part, start=starts[1], stop=aside[0].count, weight=1.0)))
        for part in checked.parts if checked is not None else ():
            assert checked is not None
            start = aside[0].count
            for begin, chunk in encode_text(job, checked, part, names, dtypes):
                add(job, checked, begin, chunk, np.ones(len(chunk[0].lengths), bool), aside, splits["valid"])
            splits["valid"]["parts"].append(asdict(replace(part, start=start, stop=aside[0].count)))
    if not splits["train"]["pairs"]:
        raise DataError(f"no pair is left: all have more than data.max_tokens={job.recipe.data.max_tokens} tokens")
    return splits


def encode_text(
    job: Job, text: Cleaned, part: Part, names: Names, dtypes: Sequence[str]
) -> Iterator[tuple[int, tuple[Encoded, Encoded]]]:
    """The chunks of one part of a text, encoded, each with the number of its first pair."""
    tokenizers = tuple(names[side][0] for side in SIDES)
    chunks = list(ranges(part.start, part.stop, CHUNK))
    tasks = ((job.staging, text.name, tokenizers, start, stop, tuple(dtypes)) for start, stop in chunks)
    for (start, stop), chunk in zip(chunks, job.workers.map(encode_pairs, tasks), strict=True):
        yield start, with_languages(job, text, names, start, chunk)
        job.reporter.advance(stop - start)


def with_languages(
    job: Job, text: Cleaned, names: Names, start: int, chunk: tuple[Encoded, Encoded]
) -> tuple[Encoded, Encoded]:
    """A chunk whose sources begin with the tokens of their target languages, where there are several."""
    if text.languages is None:
        return chunk
    first = tokenizer_at(job.staging / TOKENIZERS, names["source"][0]).target_id(job.recipe.text.targets[0])
    heads = first + text.languages[start : start + len(chunk[0].lengths)].astype(np.int64)
    ids, lengths = with_heads(chunk[0].ids, chunk[0].lengths, heads)
    return replace(chunk[0], ids=ids, lengths=lengths), chunk[1]


def add(
    job: Job,
    text: Cleaned,
    begin: int,
    chunk: tuple[Encoded, Encoded],
    chosen: npt.NDArray[np.bool_],
    writers: Sequence[Writer],
    split: dict[str, Any],
) -> None:
    """Append the chosen pairs of a chunk to a split, but for those that are too long in tokens, which are counted."""
    longest = np.maximum(chunk[0].lengths, chunk[1].lengths)
    dropped = np.flatnonzero(chosen & (longest > job.recipe.data.max_tokens))
    if len(dropped):
        shown = [
            tuple(read_texts(job.staging, f"{text.name}.{side}", begin + i, begin + i + 1)[0] for side in SIDES)
            for i in dropped[:EXAMPLES].tolist()
        ]
        text.cleaner.count("tokens", len(dropped), [(s, t) for s, t in shown])
    stay = chosen & (longest <= job.recipe.data.max_tokens)
    split["pairs"] += int(stay.sum())
    if text.languages is not None:
        here = text.languages[begin : begin + len(stay)][stay]
        for code, count in languages_counted(here, job.recipe.text.targets).items():
            split["to"][code] += count
    for writer in writers[len(SIDES) :]:
        laid = Sentences.open(job.staging, f"{text.name}.{DEPTHS}", "uint8")
        writer.append(*laid.gather(begin + np.flatnonzero(stay)))
    for side, writer, encoded in zip(SIDES, writers[: len(SIDES)], chunk, strict=True):
        lengths = encoded.lengths[stay]
        writer.append(encoded.ids[np.repeat(stay, encoded.lengths)], lengths)
        split[side]["tokens"] += int(lengths.sum())
        split[side]["words"] += int(encoded.words[stay].sum())
        split[side]["characters"] += int(encoded.characters[stay].sum())
