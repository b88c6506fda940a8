"""The alignment links of a batch, also when its subwords were sampled."""

from __future__ import annotations

import numpy as np

from dragoman.arrays import Int64Array, ranges
from dragoman.data.batch import BatchLinks, FlatSentences
from dragoman.data.shards import Split


def batch_links(
    split: Split, pairs: Int64Array, source: FlatSentences, target: FlatSentences, resampled: bool
) -> BatchLinks | None:
    """The links of some pairs, whose tokens are those of the corpus or were sampled again; None without alignments."""
    if split.alignment is None:
        return None
    codes, counts = split.alignment.links.gather(pairs)
    sentence = np.repeat(np.arange(len(pairs)), counts)
    at_target, at_source = codes.astype(np.int64) >> 16, codes.astype(np.int64) & 0xFFFF
    if not resampled:
        return link_rest_to_eos(BatchLinks(sentence, at_target, at_source), (sentence, at_target), source, target)
    widths = split.alignment.widths
    first, n = zip(
        new_tokens(FlatSentences(*split.source.gather(pairs)), source, widths[0], sentence, at_source),
        new_tokens(FlatSentences(*split.target.gather(pairs)), target, widths[1], sentence, at_target),
        strict=True,
    )
    each = n[0] * n[1]  # every new source token with every new target token
    number = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
    per_target = np.repeat(np.maximum(n[0], 1), each)
    found = BatchLinks(
        np.repeat(sentence, each),
        np.repeat(first[1], each) + number // per_target,
        np.repeat(first[0], each) + number % per_target,
    )
    return link_rest_to_eos(found, (np.repeat(sentence, n[1]), ranges(first[1], n[1])), source, target)


def link_rest_to_eos(
    found: BatchLinks, linked: tuple[Int64Array, Int64Array], source: FlatSentences, target: FlatSentences
) -> BatchLinks:
    """The links in order, and in sentences that have some, links of the other target tokens to the source's EOS token.

    `linked` has the sentences and positions of the target tokens of linked words, also of those that lost their links
    because no new token begins in the source token.
    """
    starts = np.cumsum(target.lengths) - target.lengths
    alone = np.repeat(np.isin(np.arange(len(target.lengths)), linked[0]), target.lengths)
    alone[starts[linked[0]] + linked[1]] = False
    place = np.flatnonzero(alone)
    sentence = np.searchsorted(starts, place, side="right") - 1
    rest = BatchLinks(sentence, place - starts[sentence], source.lengths[sentence])
    sides = zip((found.sentence, found.target, found.source), (rest.sentence, rest.target, rest.source), strict=True)
    every = [np.concatenate(side) for side in sides]
    order = np.lexsort(every[::-1])
    return BatchLinks(every[0][order], every[1][order], every[2][order])


def new_tokens(
    plain: FlatSentences, sampled: FlatSentences, widths: Int64Array, sentence: Int64Array, token: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """For tokens of the plain segmentation, the first token of the sampled one that begins in each, and their number.

    Both segmentations write the same bytes.
    """
    plain_ends, sampled_ends = np.cumsum(widths[plain.ids]), np.cumsum(widths[sampled.ids])
    starts = [np.cumsum(side.lengths) - side.lengths for side in (plain, sampled)]
    before = [
        np.concatenate([[0], ends])[start] for ends, start in zip((plain_ends, sampled_ends), starts, strict=True)
    ]
    begins = sampled_ends - widths[sampled.ids] + np.repeat(before[0] - before[1], sampled.lengths)
    place = starts[0][sentence] + token
    bounds = plain_ends[place] - widths[plain.ids][place], plain_ends[place]
    first, last = (np.searchsorted(begins, bound, side="left") for bound in bounds)
    low, high = starts[1][sentence], (starts[1] + sampled.lengths)[sentence]
    first, last = np.clip(first, low, high), np.clip(last, low, high)
    return first - low, last - first
