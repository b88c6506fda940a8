"""Measure the speed of training steps before a run: the number of threads to use, the time and the memory it takes.

The steps are real ones, of a throwaway model with real batches: no weight, no random state and no file of the run
changes. Threads that share a step wait for each other; where other programs occupy a core, one thread can be many
times as fast as two.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn

from dragoman.config import Recipe, TrainRecipe
from dragoman.cpu import available_cores
from dragoman.data.batch import Batch
from dragoman.data.prepared import Prepared
from dragoman.models.loading import build_model
from dragoman.nn.lora import add_adapters
from dragoman.text import vocabulary_sizes
from dragoman.text.special_tokens import PAD
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps.cuda_graph import CudaGraphSteps
from dragoman.training.steps.eager import EagerSteps, precision, supports_cuda_graph, wrap_task

ROUNDS, BUDGET_SECONDS = 3, 8.0  # each number of threads runs once in a round; no round starts after the budget
GPU_ROUNDS: Final = 10
MEASURED_TOKENS: Final = 4_000  # larger batches of a CPU are measured by smaller ones
WORTHWHILE: Final = 0.9  # more threads are used if they need at most this share of the time
THREADS_VARIABLE: Final = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class Speed:
    """Seconds per target token of one process, with the number of threads that is fastest here; `memory` in bytes.

    `timings` has the seconds per target token of each number of threads that was tried. `startup_seconds` is the time
    of the first step, in which a GPU's step is compiled.
    """

    threads: int
    seconds_per_token: float
    seconds_per_evaluation: float
    parameters: int
    memory: int
    timings: dict[int, float]
    startup_seconds: float = 0.0


def thread_options(device: torch.device, world: int) -> list[int]:
    """The numbers of threads to choose from: one number if the user has set it, or if there is nothing to choose."""
    if device.type != "cpu" or world > 1 or os.environ.get(THREADS_VARIABLE):
        return [torch.get_num_threads()]
    cores = available_cores()
    return sorted({1, cores, *(2**power for power in range(1, cores.bit_length()) if 2**power <= cores)})


def fastest_threads(timings: dict[int, float]) -> int:
    """The number of threads to use: more only if they are worth it."""
    chosen = min(timings)
    for threads in sorted(timings):
        if timings[threads] < WORTHWHILE * timings[chosen]:
            chosen = threads
    return chosen


def measure_speed(
    recipe: Recipe,
    prepared: Prepared,
    device: torch.device,
    options: Sequence[int],
    evaluation_seconds: Callable[[nn.Module], float] = lambda _: 0.0,
) -> Speed:
    """Time a few training steps with each number of threads, and an evaluation; leaves the fastest number set."""
    limit = recipe.data.batch_tokens
    if device.type == "cpu":
        limit = max(recipe.data.max_tokens + 1, min(limit, MEASURED_TOKENS))
    data = replace(recipe.data, batch_tokens=limit)
    settings = replace(recipe.train, compile=recipe.train.compile and device.type == "cuda", accumulate=1)
    with random_state_kept(), prepared.loader(data) as loader:
        batches = [next(loader) for _ in range(ROUNDS if device.type == "cpu" else GPU_ROUNDS)]
        model = build_model(recipe.model, vocabulary_sizes(*prepared.tokenizers), PAD)
        if settings.lora:
            add_adapters(model, settings.lora, settings.lora_scale, settings.lora_projections)
        model = model.to(device).train()
        before, started = peak_memory(device), time.perf_counter()
        steps = make_steps(model, settings, device, batches[0])
        for _ in range(2):  # the first step allocates memory and compiles, the second is captured
            run_step(steps, batches[0])
        startup = time.perf_counter() - started
        timings = time_steps(steps, batches, options)
        threads = fastest_threads(timings)
        if device.type == "cpu":
            torch.set_num_threads(threads)
        evaluation = evaluation_seconds(model.eval())
    parameters = sum(p.numel() for p in model.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    fixed = 4 * parameters + 12 * trained  # weights, gradients and two moments, in float32
    used = max(peak_memory(device) - before, fixed)
    activations = max(0, used - fixed) * recipe.data.batch_tokens / limit
    memory = before + fixed + int(activations) + (4 * trained if recipe.train.ema else 0)
    return Speed(threads, timings[threads], evaluation, parameters, memory, timings, startup)


def make_steps(
    model: nn.Module, recipe: TrainRecipe, device: torch.device, batch: Batch
) -> EagerSteps | CudaGraphSteps:
    """The steps that a run with this recipe has on this device."""
    task = TranslationLoss(model, recipe.label_smoothing, PAD, recipe.r_drop)  # type: ignore[arg-type]
    ranks = Ranks(device=device)
    common = Optimizer(model, recipe), recipe, precision(recipe, device), ranks
    if supports_cuda_graph(recipe, ranks, batch, model):
        return CudaGraphSteps(task, *common)
    return EagerSteps(wrap_task(task, recipe, ranks), model, *common, {})


def time_steps(
    steps: EagerSteps | CudaGraphSteps, batches: Sequence[Batch], options: Sequence[int]
) -> dict[int, float]:
    """Seconds per target token with each number of threads; they take turns, so that all run under the same load."""
    spent, tokens = dict.fromkeys(options, 0.0), dict.fromkeys(options, 0)
    began = time.perf_counter()
    for batch in batches:
        for threads in options:
            if steps.ranks.device.type == "cpu":
                torch.set_num_threads(threads)
            started = time.perf_counter()
            run_step(steps, batch)
            spent[threads] += time.perf_counter() - started
            tokens[threads] += batch.target_tokens
        if time.perf_counter() - began > BUDGET_SECONDS:
            break
    return {threads: spent[threads] / max(1, tokens[threads]) for threads in options}


def run_step(steps: EagerSteps | CudaGraphSteps, batch: Batch) -> None:
    """One step with a learning rate of 0, complete on the device when it returns."""
    steps.submit([batch], 1, max(1, batch.target_tokens), batch.source_tokens, 0.0)
    steps.completed(wait=True)
    if steps.ranks.device.type == "cuda":
        torch.cuda.synchronize()


def peak_memory(device: torch.device) -> int:
    """The most memory that was in use so far, in bytes: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore PyTorch's random state afterwards, of the CPU and of all GPUs."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def threads_kept() -> Iterator[None]:
    """Restore PyTorch's number of threads afterwards."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
