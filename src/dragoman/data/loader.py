"""Batches prepared in advance, in an order that depends only on (seed, epoch).

The loader's state is one number, `epoch * 2**32 + batches of that epoch handed out to all ranks`: a loader created with
it continues exactly there, with any number of workers or ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from dragoman.config import DataRecipe
from dragoman.data.alignment.batch_links import batch_links
from dragoman.data.batch import Batch, FlatSentences, make_batch
from dragoman.data.batching import (
    EpochPlan,
    PackedShape,
    draw_pairs,
    fill_tiles,
    packed_shape,
    plan_packed,
    plan_padded,
)
from dragoman.data.shards import Split
from dragoman.data.subword_sampling import SubwordSampler
from dragoman.errors import DataError
from dragoman.values import plural

EPOCH_STRIDE = 1 << 32


class Loader:
    """Iterate over the batches of one rank, epoch after epoch, up to epoch `epochs` if given.

    Rank r of w takes the batches r, r + w, r + 2w ... of an epoch. Every rank gets the same number of batches; if the
    epoch does not divide evenly, the last ones are empty, so no pair is repeated or left out.
    """

    def __init__(
        self,
        split: Split,
        recipe: DataRecipe,
        *,
        rank: int = 0,
        world: int = 1,
        state: int = 0,
        epochs: int | None = None,
        sampler: SubwordSampler | None = None,
        pin: bool | None = None,
    ) -> None:
        if not len(split):
            raise DataError("there are no pairs to batch", code="no_pairs_left")
        self.split, self.recipe, self.rank, self.world, self.epochs = split, recipe, rank, world, epochs
        self.sampler = sampler if recipe.sampling else None
        self.weights = recipe.weights or tuple(part.weight for part in split.parts)
        if len(self.weights) != len(split.parts):
            names = [part.name for part in split.parts]
            raise DataError(
                f"data.weights has {plural(len(self.weights), 'number')} for "
                f"{plural(len(names), 'corpus', 'corpora')}: {names}",
                code="count_mismatch",
            )
        self.pin = has_cuda() if pin is None else pin
        self.state = state
        growth = self.sampler.growth if self.sampler else (1.0, 1.0)
        longest = int(max(split.source.lengths.max(), split.target.lengths.max())) + 1
        # Lengths for planning: they count EOS, and sampled segmentations are longer than plain ones.
        self.source_lengths = (split.source.lengths * growth[0]).astype("int64").clip(max=longest - 1) + 1
        self.target_lengths = (split.target.lengths * growth[1]).astype("int64").clip(max=longest - 1) + 1
        self.shape: PackedShape | None = None
        if recipe.layout == "packed":
            self.shape = packed_shape(
                self.source_lengths, self.target_lengths, recipe.batch_tokens, recipe.batch_sentences, longest
            )
        self._cursor = divmod(state, EPOCH_STRIDE)
        self._pending: deque[Future[Batch]] = deque()
        self._plans: dict[int, Future[EpochPlan]] = {}
        self._planner = ThreadPoolExecutor(1, "dragoman-plan")
        self._makers = ThreadPoolExecutor(recipe.workers, "dragoman-batch")

    def plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch, of all ranks."""
        recipe = self.recipe
        pairs = draw_pairs(self.split.parts, self.weights, recipe.seed, epoch)
        source, target = self.source_lengths[pairs], self.target_lengths[pairs]
        if self.shape is not None:
            return plan_packed(pairs, source, target, self.shape, recipe.seed, epoch)
        return plan_padded(pairs, source, target, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, epoch)

    def batches(self, epoch: int) -> int:
        """The number of batches per rank in an epoch."""
        return -(-len(self._planned(epoch)) // self.world)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self.state // EPOCH_STRIDE

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        while len(self._pending) <= self.recipe.ahead and self._submit():
            pass
        if not self._pending:
            raise StopIteration
        batch = self._pending.popleft().result()
        self.state = batch.state
        return batch

    def close(self) -> None:
        """Stop preparing batches; a loader used as a context manager closes itself."""
        for pool in (self._makers, self._planner):
            pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()
        if self.sampler is not None:
            self.sampler.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _planned(self, epoch: int) -> EpochPlan:
        """The plan of an epoch; starts planning the next in the background and discards older plans."""
        last = self.epochs is not None and epoch + 1 >= self.epochs
        for number in (epoch,) if last else (epoch, epoch + 1):
            if number not in self._plans:
                self._plans[number] = self._planner.submit(self.plan, number)
        plan = self._plans[epoch].result()
        for old in [e for e in self._plans if e < epoch]:
            del self._plans[old]
        return plan

    def _submit(self) -> bool:
        """Submit one more batch; False if the last epoch is over."""
        while True:
            epoch, done = self._cursor
            if self.epochs is not None and epoch >= self.epochs:
                return False
            plan = self._planned(epoch)
            if done != len(plan):
                break
            self._cursor = (epoch + 1, 0)  # a small weight can leave an epoch without pairs
        if done > len(plan):
            raise DataError(
                f"the loader's state is at batch {done} of epoch {epoch}, which has only {len(plan)} batches; "
                "the state belongs to other data or settings",
                code="checkpoint_mismatch",
            )
        after = (epoch, done + self.world) if done + self.world < len(plan) else (epoch + 1, 0)
        self._cursor = after
        self._pending.append(
            self._makers.submit(self._make, plan, done + self.rank, epoch, after[0] * EPOCH_STRIDE + after[1])
        )
        return True

    def _make(self, plan: EpochPlan, number: int, epoch: int, state: int) -> Batch:
        pairs = plan[number] if number < len(plan) else plan.pairs[:0]
        source, target = (FlatSentences(*side.gather(pairs)) for side in (self.split.source, self.split.target))
        if self.sampler is not None:
            rooms = (self.shape.source, self.shape.target) if self.shape else (None, None)
            planned = self.source_lengths[pairs], self.target_lengths[pairs]
            source = self.sampler.sample(0, source, pairs, epoch, planned[0], rooms[0])
            target = self.sampler.sample(1, target, pairs, epoch, planned[1], rooms[1])
        if self.shape is not None:  # after sampling, which decides in random order which sentences may grow
            order = fill_tiles(source.lengths + 1, target.lengths + 1)
            pairs, source, target = pairs[order], source.reorder(order), target.reorder(order)
        trees = self.split.depths
        depths = None if trees is None else trees.of_tokens(pairs, source.ids, source.lengths)
        links = batch_links(self.split, pairs, source, target, resampled=self.sampler is not None)
        batch = make_batch(pairs, source, target, self.shape, state, depths, links)
        return batch.pin() if self.pin else batch


def has_cuda() -> bool:
    """Whether there is a GPU, for which pinned memory is useful."""
    import torch

    return bool(torch.cuda.is_available())
