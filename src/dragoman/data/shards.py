"""Sentences as ids, concatenated in memory-mapped files, so that memory does not grow with the corpus."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.arrays import Int64Array, ranges
from dragoman.errors import DataError


@dataclass(frozen=True)
class Sentences:
    """Sentence i is `ids[offsets[i] : offsets[i + 1]]`, on disk or in memory."""

    ids: npt.NDArray[Any]
    offsets: Int64Array

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]], dtype: npt.DTypeLike = np.uint16) -> Sentences:
        """Sentences in memory, for tests and small corpora."""
        arrays = [np.asarray(s, dtype=dtype) for s in sentences]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype), offsets)

    @classmethod
    def open(cls, directory: Path, name: str, dtype: str) -> Sentences:
        """The sentences that a `SentenceWriter` of the same name wrote."""
        ids, offsets = map_file(directory / f"{name}.ids", dtype), map_file(directory / f"{name}.offsets", "int64")
        if not len(offsets) or offsets[0] or offsets[-1] != len(ids):
            raise DataError(
                f"{directory / name}.ids has {len(ids):,} numbers, but its offsets end at "
                f"{int(offsets[-1]) if len(offsets) else 0:,}; the files do not match: prepare the data again",
                code="file_damaged",
            )
        return cls(ids, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """The length of each sentence."""
        lengths = np.diff(self.offsets)
        if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= len(self.ids):
            wrong = int(np.flatnonzero((lengths < 0) | (lengths > len(self.ids)))[0])
            raise DataError(
                f"sentence {wrong:,} has {int(lengths[wrong]):,} tokens by its offsets, which are damaged; prepare the "
                "data again",
                code="file_damaged",
            )
        return lengths.astype(np.int32)

    def gather(self, indices: Int64Array) -> tuple[npt.NDArray[Any], Int64Array]:
        """The chosen sentences, concatenated, and the length of each; vectorized, because every batch uses it."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        return self.ids[ranges(starts, lengths)], lengths


def map_file(path: Path, dtype: str) -> npt.NDArray[Any]:
    """A file of numbers as a memory-mapped array."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; prepare the data again", code="file_missing") from None
    if size % np.dtype(dtype).itemsize:
        raise DataError(
            f"{path} has {size:,} bytes, which is not a multiple of {dtype}; prepare the data again",
            code="file_damaged",
        )
    # A plain view: slicing a `memmap` object costs more than the slice itself.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray) if size else np.zeros(0, dtype)


def dtype_for(vocabulary_size: int) -> str:
    """The smallest dtype that holds every id of a vocabulary."""
    return "uint16" if vocabulary_size <= 1 << 16 else "uint32"


class SentenceWriter:
    """Append sentences to `name.ids` and `name.offsets`; closing syncs them to disk."""

    def __init__(self, directory: Path, name: str, dtype: str) -> None:
        self.directory, self.name, self.dtype = directory, name, dtype
        self.total = 0
        self.count = 0
        self.ids = (directory / f"{name}.ids").open("wb")
        self.offsets = (directory / f"{name}.offsets").open("wb")
        self.offsets.write(np.zeros(1, np.int64).tobytes())

    def append(self, flat: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
        """Append sentences, which are concatenated in `flat`."""
        ends = self.total + np.cumsum(lengths, dtype=np.int64)
        self.ids.write(np.ascontiguousarray(flat, self.dtype).data)
        self.offsets.write(ends.tobytes())
        self.total += len(flat)
        self.count += len(lengths)

    def __enter__(self) -> SentenceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in (self.ids, self.offsets):
            if kind is None:
                file.flush()
                os.fsync(file.fileno())
            file.close()

    def read(self) -> Sentences:
        """The sentences written; available once closed."""
        return Sentences.open(self.directory, self.name, self.dtype)


@dataclass(frozen=True)
class TreeDepths:
    """Depths in dependency trees of the bytes of source sentences; `widths` are the bytes of each token."""

    of_bytes: Sentences
    widths: Int64Array

    def of_tokens(self, indices: Int64Array, ids: npt.NDArray[Any], lengths: Int64Array) -> Int64Array:
        """The depth of each token of the chosen sentences, which are concatenated: that of its first byte.

        Like `depths_of_tokens` of dragoman.text.trees.dependency, but for many sentences, with NumPy.
        """
        depths, sizes = self.of_bytes.gather(indices)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.widths[ids])])
        last = np.cumsum(lengths)
        written = ends[last] - ends[last - lengths]
        mismatched = np.flatnonzero((written - sizes) // 2)  # the difference is 0, or 1 for the first word's space
        if len(mismatched):
            first = mismatched[0]
            raise DataError(
                f"the tokens of sentence {int(indices[first]):,} write {written[first]:,} bytes, but its tree has "
                f"{sizes[first]:,}; they do not match: prepare the data again",
                code="file_damaged",
            )
        origin = np.cumsum(sizes) - written  # one byte early if the first word's space is not in the text
        positions = np.repeat(origin - ends[last - lengths], lengths) + ends[:-1]
        found: Int64Array = depths[np.maximum(positions, np.repeat(np.cumsum(sizes) - sizes, lengths))].astype(np.int64)
        return found


@dataclass(frozen=True)
class Alignment:
    """Links `target << 16 | source` between the tokens of each pair; `widths` are the bytes of each token, by side."""

    links: Sentences
    widths: tuple[Int64Array, Int64Array]


@dataclass(frozen=True)
class SplitPart:
    """The pairs start .. stop - 1 of a split, from one corpus; `weight` is the number of passes per epoch."""

    name: str
    start: int
    stop: int
    weight: float = 1.0


@dataclass(frozen=True)
class Split:
    """Encoded pairs, without BOS and EOS."""

    source: Sentences
    target: Sentences
    parts: tuple[SplitPart, ...]
    depths: TreeDepths | None = None
    alignment: Alignment | None = None

    def __post_init__(self) -> None:
        """Reject sides that do not match."""
        if len(self.source) != len(self.target):
            raise DataError(
                f"{len(self.source):,} source sentences but {len(self.target):,} target sentences in one split",
                code="count_mismatch",
            )
        if self.depths is not None and len(self.depths.of_bytes) != len(self.source):
            raise DataError(
                f"{len(self.source):,} source sentences but {len(self.depths.of_bytes):,} trees in one split",
                code="count_mismatch",
            )
        if self.alignment is not None and len(self.alignment.links) != len(self.source):
            raise DataError(
                f"{len(self.source):,} pairs but {len(self.alignment.links):,} alignments in one split",
                code="count_mismatch",
            )
        if not self.parts or self.parts[0].start or self.parts[-1].stop != len(self.source):
            raise DataError(
                f"the parts of a split must cover its {len(self.source):,} pairs; got {self.parts}",
                code="count_mismatch",
            )

    @classmethod
    def of(cls, sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]]) -> Split:
        """Encoded pairs in memory, for tests and small corpora."""
        source, target = Sentences.of(sources, np.uint32), Sentences.of(targets, np.uint32)
        return cls(source, target, (SplitPart("memory", 0, len(source)),))

    def __len__(self) -> int:
        return len(self.source)
