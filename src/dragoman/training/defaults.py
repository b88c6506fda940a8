"""Sizes by themselves: what suits an amount of data and a machine, with the reason for each choice.

The paper's base model is made for millions of pairs. On some ten thousand it learns them by heart: there a small model
with strong dropout translates better, and trains in minutes. These rules come from single runs on one
corpus (benchmarks/results/multi30k.md) and from common practice: a start, not an optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dragoman.config import IN_ATTENTION, DataRecipe, ModelRecipe
from dragoman.data.loader import Loader
from dragoman.data.shards import Split

FEW, MANY = 60_000, 400_000  # pairs
LEAST_BATCH, LEAST_EVERY, MOST_EPOCHS = 500, 20, 60
PLANNED = 2_000_000  # pairs of which an epoch is planned in a second or two
LONG, MANY_STEPS = 30_000_000, 4_000  # target tokens, steps: a minute or two of plain steps on a large GPU
AGREEMENT = 5  # the weight that the authors of R-Drop found best for translation


@dataclass(frozen=True)
class Choice:
    """A change to the recipe, as `section.key=value`, and why."""

    change: str
    reason: str


def vocabulary_choice(pairs: int, fast: bool) -> Choice:
    """More data carry more tokens; on a CPU the softmax over them is a large part of the time."""
    most = 32_000 if fast else 10_000
    size = int(min(most, max(1000, 35 * pairs**0.5)) // 100 * 100)
    fewer = ": at most, as so little text may not have so many" if size == 1000 else ""
    return Choice(f"text.vocabulary_size={size}", f"for {pairs:,} pairs{'' if fast else ' on a CPU'}{fewer}")


def model_choices(pairs: int, fast: bool) -> list[Choice]:
    """A preset by the amount of data, smaller where there is no GPU."""
    where = "" if fast else " on a CPU"
    few = f"{pairs:,} pairs are few: the base model would learn them by heart"
    if pairs < FEW and not fast:
        seldom = f"for {pairs:,} pairs{where}: a larger model would see them too seldom"
        return [Choice("model.preset=tiny", few if pairs < FEW // 6 else seldom)]
    if pairs < FEW:
        return [Choice("model.preset=small", few), Choice("model.dropout=0.3", few)]
    if pairs < MANY or not fast:
        return [Choice("model.preset=small", f"for {pairs:,} pairs{where}")]
    return [Choice("model.preset=base", f"{pairs:,} pairs can fill the paper's base model")]


def precision_choices(model: ModelRecipe, multiplies_it: Callable[[], bool]) -> list[Choice]:
    """bfloat16 on a CPU that has instructions for our kernel, where the model is large enough to gain by it."""
    measured = model.architecture == "transformer" and model.d_model >= 256
    if measured and multiplies_it():  # in this order: to ask may build a library
        why = "this CPU multiplies it faster: about 1.6 times as fast in all, and learns alike"
        return [Choice("train.precision=bfloat16", why)]
    return []


def agreement_choices(pairs: int, model: ModelRecipe, fast: bool) -> list[Choice]:
    """R-Drop where pairs are few, and there is a GPU for a second pass and for as many epochs as it needs."""
    if fast and pairs < FEW and model.architecture == "transformer" and model.dropout:
        why = "a second pass over each batch, asked to agree with the first: few pairs then teach more"
        return [Choice(f"train.r_drop={AGREEMENT}", why)]
    return []


def speed_choices(steps: int, target_tokens: int, one_gpu: bool, model: ModelRecipe) -> list[Choice]:
    """Packed batches and compiled steps on one GPU, for a run of so many steps or tokens that compiling pays.

    The kernels for packed sentences know the paper's attention; for others they would be spread over a wide grid.
    """
    usual = model.architecture == "transformer" and model.attention == "scaled_dot_product" and model.pattern == "full"
    long = steps >= MANY_STEPS or target_tokens >= LONG
    if one_gpu and long and usual and model.positions not in IN_ATTENTION:
        why = "steps on one GPU are some three times as fast; compiling them takes half a minute, once"
        return [Choice("data.layout=packed", why), Choice("train.compile=true", why)]
    return []


def steps_of_epoch(split: Split, data: DataRecipe, ranks: int, accumulate: int) -> int:
    """How many steps go once through the pairs; of very many pairs about, as their batches are nearly full."""
    if len(split) > PLANNED:
        fuller = max(int(side.lengths.sum()) for side in (split.source, split.target)) + len(split)
        batches = -(-fuller // data.batch_tokens)
    else:
        batches = len(Loader(split, replace(data, sampling=0.0), pin=False).plan(0))
    return max(1, -(-batches // (ranks * accumulate)))  # a small weight can leave an epoch without pairs


def training_choices(
    pairs: int,
    target_tokens: int,
    model: ModelRecipe,
    fast: bool,
    epoch: Callable[[int], int],
    asked: int | None = None,
) -> list[Choice]:
    """Batch, schedule and length, from the target tokens of an epoch; `asked` are the steps of a person who chose.

    `epoch` says how many steps an epoch has with batches of so many tokens.
    """
    most = 25_000 if fast else 2_000
    batch = min(most, max(LEAST_BATCH, target_tokens // (100 if fast else 200)))
    wanted = max(8, 3_000_000 // max(1, pairs)) if fast else max(3, 12_000_000 // target_tokens)
    epochs = min(MOST_EPOCHS, wanted)
    every = max(LEAST_EVERY, round(epochs * target_tokens / batch / 12)) if asked is None else part_of(asked)
    steps = 12 * every if asked is None else asked
    rate = {128: 3e-3, 256: 2e-3, 512: 1e-3}.get(model.d_model, 5e-4)
    warmup = min(max(50, min(4000, steps // 12)), steps // 2)
    why_warmup = "a twelfth of the steps" if warmup == steps // 12 else "for so few steps"
    why_warmup = "the paper's, which is enough for a longer run too" if warmup == 4000 else why_warmup
    often = f"{steps // every} times in the run" if steps >= 2 * every else "once in the run"
    in_epoch = epoch(batch)
    once = "an epoch is one step" if in_epoch == 1 else f"{in_epoch:,} steps an epoch"
    size = "as many tokens as the machine likes" if batch == most else "tokens for many steps"
    size = "the least with room for long sentences" if batch == LEAST_BATCH else size
    long = f"{max(1, round(steps / in_epoch)):,} times through {target_tokens:,} target tokens"
    if not fast and epochs < MOST_EPOCHS:
        long += ", what two cores do in about half an hour"
    if every == LEAST_EVERY:
        long += ", the fewest steps that a run has by itself"
    return [
        Choice(f"data.batch_tokens={batch}", f"{size}: {once}"),
        *([Choice(f"train.steps={steps}", long)] if asked is None else []),
        Choice(f"train.warmup_steps={warmup}", why_warmup),
        Choice("train.schedule=cosine", "the number of steps is known, so that the rate can end at nothing"),
        Choice(f"train.learning_rate={rate}", f"for d_model {model.d_model}"),
        Choice(f"train.save_every={every}", often),
        Choice(f"train.evaluate_every={every}", often),
        Choice("train.clip=1.0", "so that a rare batch cannot throw the run off"),
    ]


def part_of(steps: int) -> int:
    """A twelfth of the steps of a run, and of a short one no less than it can have."""
    return max(min(LEAST_EVERY, steps), steps // 12)
