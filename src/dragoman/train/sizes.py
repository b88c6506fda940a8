"""Sizes by themselves: what suits an amount of data and a machine, with the reason for each choice.

The paper's base model is made for millions of pairs. On some ten thousand it learns them by heart: there a small model
with strong dropout translates better, and trains in minutes. These rules come from single runs on one
corpus (benchmarks/results/multi30k.md) and from common practice: a start, not an optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dragoman.config import IN_ATTENTION, ModelRecipe

FEW, MANY = 60_000, 400_000  # pairs
LONG = 30_000_000  # target tokens: about two minutes of plain steps on a large GPU


@dataclass(frozen=True)
class Choice:
    """A change to the recipe, as `section.key=value`, and why."""

    change: str
    reason: str


def vocabulary_choice(pairs: int, fast: bool) -> Choice:
    """More data carry more pieces; on a CPU the softmax over them is a large part of the time."""
    most = 32_000 if fast else 10_000
    size = int(min(most, max(1000, 35 * pairs**0.5)) // 100 * 100)
    return Choice(f"text.vocabulary_size={size}", f"for {pairs:,} pairs{'' if fast else ' on a CPU'}")


def model_choices(pairs: int, fast: bool) -> list[Choice]:
    """A preset by the amount of data, smaller where there is no GPU."""
    where = "" if fast else " on a CPU"
    if pairs < FEW and not fast:
        return [Choice("model.preset=tiny", f"for {pairs:,} pairs{where}: a larger model would see them too seldom")]
    if pairs < FEW:
        few = f"{pairs:,} pairs are few: the base model would learn them by heart"
        return [Choice("model.preset=small", few), Choice("model.dropout=0.3", few)]
    if pairs < MANY or not fast:
        return [Choice("model.preset=small", f"for {pairs:,} pairs{where}")]
    return [Choice("model.preset=base", f"{pairs:,} pairs can fill the paper's base model")]


def precision_choices(model: ModelRecipe, multiplies_it: Callable[[], bool]) -> list[Choice]:
    """bfloat16 on a CPU that has instructions for our kernel, where the model is large enough to gain by it."""
    if model.d_model >= 256 and multiplies_it():  # in this order: to ask may build a library
        why = "this CPU multiplies it faster: about 1.6 times as fast in all, and learns alike"
        return [Choice("train.precision=bfloat16", why)]
    return []


def speed_choices(target_tokens: int, one_gpu: bool, model: ModelRecipe) -> list[Choice]:
    """Packed batches and compiled steps on one GPU, for a run of so many tokens that compiling pays.

    The kernels for packed sentences know the paper's attention; for others they would be spread over a wide grid.
    """
    usual = model.architecture == "transformer" and model.attention == "scaled_dot_product" and model.pattern == "full"
    if one_gpu and target_tokens >= LONG and usual and model.positions not in IN_ATTENTION:
        why = "steps on one GPU are some three times as fast; compiling them takes half a minute, once"
        return [Choice("data.layout=packed", why), Choice("train.compile=true", why)]
    return []


def training_choices(
    pairs: int, target_tokens: int, model: ModelRecipe, fast: bool, asked: int | None = None
) -> list[Choice]:
    """Batch, schedule and length, from the target tokens of an epoch; `asked` are the steps of a person who chose."""
    batch = min(25_000 if fast else 2_000, max(500, target_tokens // (100 if fast else 200)))
    epochs = min(60, max(8, 3_000_000 // max(1, pairs))) if fast else min(60, max(3, 12_000_000 // target_tokens))
    every = max(20, round(epochs * target_tokens / batch / 12)) if asked is None else max(min(20, asked), asked // 12)
    steps = 12 * every if asked is None else asked
    few = epochs == 60  # and so a shorter run
    rate = {128: 3e-3, 256: 2e-3, 512: 1e-3}.get(model.d_model, 5e-4)
    times = f"{epochs} times through {target_tokens:,} target tokens"
    long = Choice(f"train.steps={steps}", times if fast or few else f"{times}, what two cores do in about half an hour")
    warmup = min(max(50, min(4000, steps // 12)), steps // 2)
    often = f"{steps // every} times in the run" if steps >= 2 * every else "once in the run"
    return [
        Choice(f"data.batch_tokens={batch}", "many batches an epoch, no more than the machine likes"),
        *([long] if asked is None else []),
        Choice(
            f"train.warmup_steps={warmup}", "a twelfth of the steps" if warmup == steps // 12 else "for so few steps"
        ),
        Choice("train.schedule=cosine", "the number of steps is known, so that the rate can end at nothing"),
        Choice(f"train.learning_rate={rate}", f"for d_model {model.d_model}"),
        Choice(f"train.save_every={every}", often),
        Choice(f"train.evaluate_every={every}", often),
        Choice("train.clip=1.0", "so that a rare batch cannot throw the run off"),
    ]
