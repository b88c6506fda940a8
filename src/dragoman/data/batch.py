"""One batch as tensors, padded or packed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dragoman.arrays import Int64Array, ranges
from dragoman.data.batching import PackedShape
from dragoman.text.special_tokens import BOS, EOS, PAD

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids. `source` and `target_out` end with EOS, `target_in` begins with BOS.

    Padded: ids are `[B, S]` and `[B, T]`, padded with PAD on the right. Packed: ids are `[N]`, sentences end to end in
    order, PAD after the last; `source_lengths`, `target_lengths` and `pairs` have a fixed size, with 0 and -1 after
    the last sentence. Lengths count BOS or EOS. A rank that has no pairs left in an epoch gets a batch with
    `n_sentences == 0`. `state` is the loader's state after this batch. Tiles are added if a kernel needs them.
    `source_depths` is the depth of each source token in its dependency tree, 0 at EOS, if there are trees. `links
    [M, 2]` are the word alignments for guided alignment: the place in `target_in`, flattened, of a target token, and
    the position in its sentence of a source token. `link_weights [M]` of a target token sum to 1; filler has 0.
    """

    layout: Literal["padded", "packed"]
    source: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor
    pairs: Tensor
    n_sentences: int
    source_tokens: int
    target_tokens: int
    longest: int
    state: int
    source_tiles: Tensor | None = None
    target_tiles: Tensor | None = None
    source_depths: Tensor | None = None
    links: Tensor | None = None
    link_weights: Tensor | None = None

    @property
    def fixed_shape(self) -> bool:
        """Whether all batches of a run have this shape."""
        return self.layout == "packed"

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device; from pinned memory, the copy is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Batch:
        """The same batch in pinned memory."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> Batch:
        import torch

        tensors = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: change(t) for name, t in tensors.items() if isinstance(t, torch.Tensor)})


@dataclass(frozen=True)
class FlatSentences:
    """Concatenated sentences and their lengths, without BOS and EOS."""

    ids: npt.NDArray[Any]
    lengths: Int64Array

    def reorder(self, order: Int64Array) -> FlatSentences:
        """The same sentences in another order."""
        lengths = self.lengths[order]
        return FlatSentences(self.ids[ranges((np.cumsum(self.lengths) - self.lengths)[order], lengths)], lengths)


@dataclass(frozen=True)
class BatchLinks:
    """Alignment links of a batch: the sentence, target position and source position of each, in order."""

    sentence: Int64Array
    target: Int64Array
    source: Int64Array

    def tensors(self, starts: Int64Array, shape: PackedShape | None) -> dict[str, Tensor]:
        """The tensors of `Batch`, with `starts` of the targets; packed batches have room for two links per token."""
        import torch

        size = len(self.target) if shape is None else 2 * shape.target
        n = min(size, len(self.target))
        places = starts[self.sentence[:n]] + self.target[:n] + 1  # `target_in` begins with BOS
        links, weights = np.zeros((size, 2), np.int64), np.zeros(size, np.float32)
        links[:n, 0], links[:n, 1] = places, self.source[:n]
        weights[:n] = 1.0 / np.bincount(places, minlength=1)[places] if n else 0.0
        return {"links": torch.from_numpy(links), "link_weights": torch.from_numpy(weights)}


def make_batch(
    pairs: Int64Array,
    source: FlatSentences,
    target: FlatSentences,
    shape: PackedShape | None,
    state: int,
    depths: Int64Array | None = None,
    links: BatchLinks | None = None,
) -> Batch:
    """Build the tensors of these sentences: packed into `shape` if given, else padded; `depths` are the source's."""
    import torch

    tensor, n = torch.from_numpy, len(pairs)
    rows = n if shape is None else shape.sentences
    source_grid = shape_and_offsets(source.lengths + 1, None if shape is None else shape.source)
    target_grid = shape_and_offsets(target.lengths + 1, None if shape is None else shape.target)
    longest = [int(side.lengths.max(initial=0)) + 1 for side in (source, target)]
    return Batch(
        layout="padded" if shape is None else "packed",
        source=tensor(fill_tensor(source, source_grid, last=EOS)),
        source_lengths=tensor(pad_to(source.lengths + 1, rows, 0)),
        target_in=tensor(fill_tensor(target, target_grid, first=BOS)),
        target_out=tensor(fill_tensor(target, target_grid, last=EOS)),
        target_lengths=tensor(pad_to(target.lengths + 1, rows, 0)),
        pairs=tensor(pad_to(pairs, rows, -1)),
        n_sentences=n,
        source_tokens=len(source.ids) + n,
        target_tokens=len(target.ids) + n,
        longest=max(longest) if shape is None else shape.longest,
        state=state,
        source_depths=None
        if depths is None
        else tensor(fill_tensor(FlatSentences(depths, source.lengths), source_grid, filler=0)),
        **({} if links is None else links.tensors(target_grid[1], shape)),
    )


def shape_and_offsets(lengths: Int64Array, size: int | None) -> tuple[tuple[int, ...], Int64Array]:
    """The shape of a tensor for sentences of these lengths, and where each begins in the flattened tensor."""
    if size is not None:
        return (size,), np.cumsum(lengths) - lengths
    width = int(lengths.max(initial=1))
    return (len(lengths), width), np.arange(len(lengths)) * width


def fill_tensor(
    sentences: FlatSentences,
    grid: tuple[tuple[int, ...], Int64Array],
    first: int | None = None,
    last: int | None = None,
    filler: int = PAD,
) -> Int64Array:
    """A tensor of the sentences, with a special token before or after each."""
    shape, starts = grid
    tensor = np.full(shape, filler, np.int64)
    flat = tensor.reshape(-1)
    flat[ranges(starts + (first is not None), sentences.lengths)] = sentences.ids
    if first is not None:
        flat[starts] = first
    if last is not None:
        flat[starts + sentences.lengths] = last
    return tensor


def pad_to(values: Int64Array, size: int, filler: int) -> Int64Array:
    """The values, then filler up to `size`."""
    padded = np.full(size, filler, np.int64)
    padded[: len(values)] = values
    return padded
