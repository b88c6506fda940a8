"""Default settings for an amount of data and a machine, with the reason for each choice.

The paper's base model is meant for millions of pairs. On tens of thousands it overfits: there a small model
with strong dropout translates better and trains in minutes. These rules come from single runs on one
corpus (benchmarks/results/multi30k.md) and from common practice: a starting point, not an optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dragoman.config import IN_ATTENTION, DataRecipe, ModelRecipe
from dragoman.data.loader import Loader
from dragoman.data.shards import Split

SMALL_CORPUS, LARGE_CORPUS = 60_000, 400_000  # pairs
MIN_BATCH_TOKENS, MIN_INTERVAL, MAX_EPOCHS = 500, 20, 60
MAX_PLANNED_PAIRS = 2_000_000  # batches of up to this many pairs are planned in a second or two
LONG_RUN_TOKENS, LONG_RUN_STEPS = 30_000_000, 4_000  # a minute or two of eager steps on a large GPU
LEARNING_RATES, LARGE_MODEL_RATE = {128: 3e-3, 256: 2e-3, 512: 1e-3}, 5e-4  # peaks, by d_model
FINE_TUNING_RATES, LARGE_FINE_TUNING_RATE = {128: 3e-4, 256: 2e-4, 512: 1e-4}, 5e-5
FINE_TUNING_EPOCHS, FINE_TUNING_TOKENS = 10, 3_000_000  # whichever is less
EVALUATIONS = 12  # per run
R_DROP_WEIGHT = 5  # the best for translation according to the authors of R-Drop


@dataclass(frozen=True)
class Choice:
    """A change to the recipe, as `section.key=value`, and its reason."""

    change: str
    reason: str


def vocabulary_choice(pairs: int, on_gpu: bool) -> Choice:
    """A vocabulary that grows with the data; on a CPU the softmax over it takes much of the time."""
    limit = 32_000 if on_gpu else 10_000
    size = int(min(limit, max(1000, 35 * pairs**0.5)) // 100 * 100)
    note = ": an upper bound, because little text may give fewer" if size == 1000 else ""
    return Choice(f"text.vocabulary_size={size}", f"for {pairs:,} pairs{'' if on_gpu else ' on a CPU'}{note}")


def model_choices(pairs: int, on_gpu: bool) -> list[Choice]:
    """A preset for the amount of data, smaller without a GPU."""
    where = "" if on_gpu else " on a CPU"
    few = f"the base model would overfit {pairs:,} pairs"
    if pairs < SMALL_CORPUS and not on_gpu:
        seldom = f"for {pairs:,} pairs{where}: a larger model would need more epochs"
        return [Choice("model.preset=tiny", few if pairs < SMALL_CORPUS // 6 else seldom)]
    if pairs < SMALL_CORPUS:
        return [Choice("model.preset=small", few), Choice("model.dropout=0.3", few)]
    if pairs < LARGE_CORPUS or not on_gpu:
        return [Choice("model.preset=small", f"for {pairs:,} pairs{where}")]
    return [
        Choice("model.preset=base", f"{pairs:,} pairs are enough for the paper's base model"),
        Choice("model.norm_order=pre", "it learns from the first steps on; the paper's order needs many thousand"),
    ]


def precision_choices(model: ModelRecipe, has_kernel: Callable[[], bool]) -> list[Choice]:
    """bfloat16 on a CPU that supports our kernel, if the model is large enough to gain from it."""
    measured = model.architecture == "transformer" and model.d_model >= 256
    if measured and has_kernel():  # in this order: the check may build a library
        why = "this CPU computes it faster: training is about 1.6 times as fast, with equal quality"
        return [Choice("train.precision=bfloat16", why)]
    return []


def r_drop_choices(pairs: int, model: ModelRecipe, on_gpu: bool) -> list[Choice]:
    """R-Drop for few pairs, on a GPU: it needs a second pass and many epochs."""
    if on_gpu and pairs < SMALL_CORPUS and model.architecture == "transformer" and model.dropout:
        why = "R-Drop (two passes over each batch) improves translation with few pairs"
        return [Choice(f"train.r_drop={R_DROP_WEIGHT}", why)]
    return []


def speed_choices(steps: int, target_tokens: int, one_gpu: bool, model: ModelRecipe) -> list[Choice]:
    """Packed batches and compiled steps on one GPU, for runs long enough for compilation to pay off.

    The kernels for packed sentences support the paper's attention only.
    """
    usual = model.architecture == "transformer" and model.attention == "scaled_dot_product" and model.pattern == "full"
    long = steps >= LONG_RUN_STEPS or target_tokens >= LONG_RUN_TOKENS
    if one_gpu and long and usual and model.positions not in IN_ATTENTION:
        why = "steps on one GPU are about three times as fast; compiling takes half a minute, once"
        return [Choice("data.layout=packed", why), Choice("train.compile=true", why)]
    return []


def steps_of_epoch(split: Split, data: DataRecipe, ranks: int, accumulate: int) -> int:
    """Steps per epoch; an estimate for very many pairs, whose batches are nearly full."""
    if len(split) > MAX_PLANNED_PAIRS:
        tokens = max(int(side.lengths.sum()) for side in (split.source, split.target)) + len(split)
        batches = -(-tokens // data.batch_tokens)
    else:
        batches = len(Loader(split, replace(data, sampling=0.0), pin=False).plan(0))
    return max(1, -(-batches // (ranks * accumulate)))  # a small weight can leave an epoch without pairs


def training_choices(
    pairs: int,
    target_tokens: int,
    model: ModelRecipe,
    on_gpu: bool,
    epoch: Callable[[int], int],
    given_steps: int | None = None,
    *,
    fine_tuning: bool = False,
    lora: bool = False,
    evaluations: int = EVALUATIONS,
) -> list[Choice]:
    """Batch size, schedule and length, from the target tokens of an epoch; `given_steps` is the user's length, if any.

    `epoch` returns the steps of an epoch for a batch size in tokens. Fine-tuning uses larger batches, a tenth of the
    learning rate and fewer epochs: the rate for training from scratch would undo what the model has learned.
    """
    limit = 25_000 if on_gpu else 2_000
    share = 40 if fine_tuning else 100 if on_gpu else 200
    batch = min(limit, max(MIN_BATCH_TOKENS, target_tokens // share))
    if fine_tuning:
        epochs = min(FINE_TUNING_EPOCHS, max(1, FINE_TUNING_TOKENS * (10 if on_gpu else 1) // target_tokens))
    else:
        useful = max(8, 3_000_000 // max(1, pairs)) if on_gpu else max(3, 12_000_000 // target_tokens)
        epochs = min(MAX_EPOCHS, useful)
    in_epoch = epoch(batch)
    every = (
        max(MIN_INTERVAL, round((epochs * in_epoch if fine_tuning else epochs * target_tokens / batch) / evaluations))
        if given_steps is None
        else evaluation_interval(given_steps, evaluations)
    )
    steps = evaluations * every if given_steps is None else given_steps
    warmup = min(max(50, min(4000, steps // 12)), steps // 2)
    why_warmup = "a twelfth of the steps" if warmup == steps // 12 else "for this few steps"
    why_warmup = "the paper's, enough for longer runs too" if warmup == 4000 else why_warmup
    often = f"{steps // every} times per run" if steps >= 2 * every else "once per run"
    once = "an epoch is one step" if in_epoch == 1 else f"{in_epoch:,} steps per epoch"
    size = "the largest efficient batch" if batch == limit else "small, for many steps"
    size = "the smallest with room for long sentences" if batch == MIN_BATCH_TOKENS else size
    long = f"{max(1, round(steps / in_epoch)):,} passes over {target_tokens:,} target tokens"
    if every == MIN_INTERVAL:
        long += ", the shortest default run"
    return [
        Choice(f"data.batch_tokens={batch}", f"{size}: {once}"),
        *([Choice(f"train.steps={steps}", long)] if given_steps is None else []),
        Choice(f"train.warmup_steps={warmup}", why_warmup),
        Choice("train.schedule=cosine", "the number of steps is known, so the rate can decay to zero"),
        rate_choice(model.d_model, fine_tuning, lora),
        Choice(f"train.save_every={every}", often),
        Choice(f"train.evaluate_every={every}", often),
        Choice("train.clip=1.0", "a rare batch cannot derail the run"),
    ]


def rate_choice(d_model: int, fine_tuning: bool, lora: bool = False) -> Choice:
    """The peak of the learning rate."""
    if fine_tuning and lora:
        rate = LEARNING_RATES.get(d_model, LARGE_MODEL_RATE)
        why = f"for adapters with d_model {d_model}: ten times the rate for fine-tuning all weights"
        return Choice(f"train.learning_rate={rate}", why)
    if fine_tuning:
        rate = FINE_TUNING_RATES.get(d_model, LARGE_FINE_TUNING_RATE)
        return Choice(
            f"train.learning_rate={rate}",
            f"for fine-tuning with d_model {d_model}: a tenth of the rate for training from scratch, so that the model "
            "keeps what it has learned",
        )
    return Choice(f"train.learning_rate={LEARNING_RATES.get(d_model, LARGE_MODEL_RATE)}", f"for d_model {d_model}")


def evaluation_interval(steps: int, evaluations: int = EVALUATIONS) -> int:
    """The steps between evaluations: at least MIN_INTERVAL, or the whole run if it is shorter."""
    return max(min(MIN_INTERVAL, steps), steps // evaluations)
