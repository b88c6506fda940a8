"""The training loop (section 5): step, log, evaluate, save; a resumed run equals an uninterrupted one, bit for bit.

All randomness is a function of counters: the order of batches of (seed, epoch), dropout of (seed, step, batch of the
step). A checkpoint holds no state of a random generator.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dragoman.config import TrainRecipe
from dragoman.errors import DamagedError
from dragoman.nn.lora import trained_weights
from dragoman.progress import Evaluation, Reporter
from dragoman.training.checkpoints.checkpoint import Checkpoint, Checkpoints, TrainingState, Window
from dragoman.training.distributed.ranks import CollectiveError, Ranks
from dragoman.training.distributed.sharding import (
    Replica,
    Sharded,
    broadcast_tensors,
    describe_checkpoint,
    full_tensor,
    local_shard,
    shard_like,
    should_shard,
)
from dragoman.training.interrupt import EvaluationAbandonedError, InterruptedTrainingError, StopRequest
from dragoman.training.optim.optimizer import Optimizer, learning_rate
from dragoman.training.reporting.metrics import METRICS_FILE, MetricsLog
from dragoman.training.steps.cuda_graph import CudaGraphSteps
from dragoman.training.steps.eager import EagerSteps, StepResult, precision, supports_cuda_graph, wrap_task
from dragoman.training.workload import TrainingBatch, Workload

Evaluate = Callable[[nn.Module, Callable[[], None]], Evaluation]  # calls the function between batches: it may raise
HIGHER_IS_BETTER = {"loss": False, "bleu": True}


class Trainer:
    """A training run in a directory; `run` starts it, or resumes it where it stopped."""

    def __init__(
        self,
        model: nn.Module,
        recipe: TrainRecipe,
        directory: Path,
        workload: Workload,
        *,
        d_model: int,
        evaluate: Evaluate | None = None,
        fine_tuning: bool = False,
        reporter: Reporter,
        ranks: Ranks,
        writing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.writing = writing  # into the directory, on rank 0
        self.recipe, self.d_model, self.fine_tuning = recipe, d_model, fine_tuning
        self.workload, self.evaluate, self.reporter, self.ranks = workload, evaluate, reporter, ranks
        self.directory, self.metrics = directory, MetricsLog(directory / METRICS_FILE)
        self.checkpoints = Checkpoints(directory / "checkpoints", reporter.note)
        self.sharded = should_shard(recipe, model, ranks)
        self.replica = Replica(model, ranks, self.sharded)
        self.model = model if self.sharded else model.to(ranks.device)
        task = workload.loss(self.model)
        # Before the optimizer, because this shards the weights.
        self.task: nn.Module = Sharded(task, self.model, ranks) if self.sharded else task
        self.optimizer = Optimizer(self.model, recipe)
        averaged = {name: p for name, p in self.model.named_parameters() if p.requires_grad and recipe.ema}
        self.ema = {name: p.detach().clone() for name, p in averaged.items()}
        self.state = TrainingState()
        self.autocast = precision(recipe, ranks.device)
        self.steps: EagerSteps | CudaGraphSteps | None = None  # chosen by the first batch
        self.stop = StopRequest(prints=ranks.first)
        self._seconds = self._tokens = 0.0

    def run(self) -> None:
        """Train until the last step, until evaluations no longer improve, or until stopped."""
        self.resume()
        self.reporter.start_training(self.state.step, self.recipe.steps)
        try:
            if not self.finished():
                with self.workload.loader(self.state.loader) as loader, self.stop:
                    if self.fine_tuning and self.state.step == 0 and self.state.start is None:
                        self._evaluate_start()
                    if self.state.unevaluated:
                        self._evaluate_and_save([])
                    while not self.finished():
                        self.step(loader)
        finally:
            self.reporter.close()

    def finished(self) -> bool:
        """Whether the last step is done and evaluated, or patience is exhausted."""
        out_of_patience = 0 < self.recipe.patience <= self.state.without_better
        if self.state.unevaluated:
            return False
        return self.state.step >= self.recipe.steps or out_of_patience

    def step(self, loader: Iterator[Any]) -> None:
        """One step of the optimizer, and what is due after it."""
        began, state = time.perf_counter(), self.state
        batches = [next(loader) for _ in range(self.recipe.accumulate)]
        target, source, *stops = self.ranks.sum(
            sum(b.target_tokens for b in batches), sum(b.source_tokens for b in batches), *self.stop.flags()
        )
        if self.steps is None:
            self.steps = self._steps_for(batches[0])
        self.model.train()
        step = state.step + 1
        self.steps.submit(batches, step, target, source, learning_rate(self.recipe, self.d_model, step))
        state.step, state.loader = step, batches[-1].state
        results = self.steps.completed(wait=self._due(stops))
        self._seconds, self._tokens = self._seconds + time.perf_counter() - began, self._tokens + target
        for result in results:
            self._account(result)
        self._after(stops)

    def _steps_for(self, batch: TrainingBatch) -> EagerSteps | CudaGraphSteps:
        """CUDA-graph steps if such batches allow them, eager steps otherwise."""
        common = self.optimizer, self.recipe, self.autocast, self.ranks
        if not self.sharded and supports_cuda_graph(self.recipe, self.ranks, batch, self.model):
            for tensor in self.model.state_dict().values():
                self.ranks.broadcast_tensor(tensor)
            weights = dict(self.model.named_parameters())
            ema = {average: weights[name] for name, average in self.ema.items()}
            return CudaGraphSteps(self.task, *common, ema, self.workload.to_graph)
        task, work = wrap_task(self.task, self.recipe, self.ranks), self.workload
        steps = EagerSteps(task, self.model, *common, self.ema, work.to_device, work.empty_batch)
        steps.fix_bucket_order()
        return steps

    def _account(self, result: StepResult) -> None:
        """Count a completed step."""
        if result.finite:
            self.state.skipped_in_a_row = 0
            self._count(result)
            self.reporter.step_done(self.state.step, result.target, result.smoothed / result.target)
        else:
            self._skip(result)

    def _skip(self, result: StepResult) -> None:
        """Count a step whose loss or gradient is not finite; stop a run that has only such steps."""
        state = self.state
        state.skipped += 1
        state.skipped_in_a_row += 1
        loss, norm = result.smoothed, result.norm
        self.reporter.note(f"step {result.step}: loss {loss:g}, gradient norm {norm:g}; skipped")
        if state.skipped_in_a_row >= self.recipe.max_skips:
            last = max(self.checkpoints.steps(), default=0)
            raise CollectiveError(
                f"{state.skipped_in_a_row} steps in a row, up to step {result.step}, had a loss or gradient that is "
                f"not finite; they were skipped, and the last checkpoint is that of step {last}. Try a lower "
                "train.learning_rate, more train.warmup_steps, train.clip=1.0, or train.precision='float32'",
                code="diverged",
            )

    def _count(self, result: StepResult) -> None:
        window = self.state.window
        window.smoothed += result.smoothed
        window.plain += result.plain
        window.target_tokens += result.target
        window.source_tokens += result.source
        window.norm += result.norm
        window.steps += 1
        self.state.target_tokens += result.target
        self.state.source_tokens += result.source

    def _due(self, stops: list[float]) -> bool:
        """Whether what follows this step needs all steps to be complete."""
        step, recipe = self.state.step, self.recipe
        every = [recipe.log_every, recipe.save_every, *([recipe.evaluate_every] if self.evaluate is not None else [])]
        return step >= recipe.steps or any(stops) or any(step % each == 0 for each in every)

    def _after(self, stops: list[float]) -> None:
        """Log, evaluate and save if they are due; stop if a signal was received."""
        if self.state.step % self.recipe.log_every == 0 or self.state.step >= self.recipe.steps:
            self._log()
        self._evaluate_and_save(stops)

    def _evaluate_and_save(self, stops: list[float]) -> None:
        """Evaluate and save if they are due; an evaluation that is interrupted is left to the resumed run."""
        step, recipe = self.state.step, self.recipe
        if self.evaluate is not None and (step % recipe.evaluate_every == 0 or step >= recipe.steps):
            self._evaluate(self.evaluate)
            if self.state.unevaluated:
                stops = self.ranks.sum(*self.stop.flags())
        best = self.state.best_step == step  # always saved: it is a candidate at the end
        if step % recipe.save_every == 0 or best or self.finished() or any(stops):
            self.save()
        if any(stops) and not self.finished():
            raise InterruptedTrainingError(
                f"stopped after step {step}, which is saved; run the same command to resume, or "
                f"{self.workload.advice(self.directory.parent, step)}",
                signal.SIGINT if stops[0] else signal.SIGTERM,
            )

    def _evaluate_start(self) -> None:
        """Evaluate the weights that fine-tuning starts from, and save them: they are a candidate at the end."""
        if self.evaluate is None:
            return
        self.state.start = self._evaluate(self.evaluate)
        if self.state.start is None:
            stops = self.ranks.sum(*self.stop.flags())
            raise InterruptedTrainingError(
                "stopped before the first step; run the same command to start again",
                signal.SIGINT if stops[0] else signal.SIGTERM,
            )
        self.save()

    def _log(self) -> None:
        window, seconds = self.state.window, max(self._seconds, 1e-9)
        if window.steps and self.ranks.first:
            entry = {
                "step": self.state.step,
                "loss": window.smoothed / window.target_tokens,
                self.workload.figure: window.plain / window.target_tokens,
                "learning_rate": learning_rate(self.recipe, self.d_model, self.state.step),
                "gradient_norm": window.norm / window.steps,
                "target_tokens": self.state.target_tokens,
                "skipped": self.state.skipped,
                "seconds": round(seconds, 3),
                "target_tokens_per_second": round(self._tokens / seconds, 1),
            }
            with self.writing():
                self.metrics.append(entry)
            self.reporter.logged(entry)
        self.state.window = Window()
        self._seconds = self._tokens = 0.0

    def _evaluate(self, evaluate: Evaluate) -> dict[str, float] | None:
        """Evaluate on rank 0 and broadcast the scores, None if interrupted; the others wait without a time limit."""
        state, figure = self.state, self.recipe.stop_on
        evaluations: list[Evaluation] = []

        def run_evaluation() -> dict[str, float] | None:
            with suppress(EvaluationAbandonedError):
                evaluations.append(evaluate(model.eval(), self.stop.check))
            return dict(evaluations[0].figures) if evaluations else None

        with self.replica.with_replaced(self.model, self.ema) as model:
            figures = self.ranks.broadcast(run_evaluation)
        state.unevaluated = figures is None
        if figures is None:
            return None
        value, before = figures[figure], state.best_value
        improved = math.isfinite(value) and (
            before is None or (value > before if HIGHER_IS_BETTER[figure] else value < before)
        )
        if improved:
            state.best_value, state.best_step, state.without_better = value, state.step, 0
        else:
            state.without_better += 1
        for evaluation in evaluations:
            with self.writing():
                self.metrics.append({"step": state.step, "valid": dict(evaluation.figures)})
            self.reporter.evaluated(state.step, evaluation, improved)
        return figures

    def save(self) -> None:
        """Write a checkpoint of this step, from which `resume` continues bit for bit."""
        self.state.metrics_lines = self.metrics.lines
        values = self.state.to_json()
        step = values.pop("step")
        model, optimizer = self.gathered(trained_weights(self.model)), self.gathered(self.optimizer.state())
        checkpoint = Checkpoint(step, model, optimizer, self.gathered(self.ema), values)

        def write() -> None:
            with self.writing():
                self.metrics.sync()
                self.checkpoints.save(checkpoint)
                self.checkpoints.prune(self.steps_to_keep())

        self.ranks.broadcast(write)

    def gathered(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The full tensors, on rank 0; every rank must call this, because each may hold shards."""
        if not self.sharded:
            return tensors if self.ranks.first else {}
        full = ((name, full_tensor(tensor)) for name, tensor in tensors.items())
        return {name: tensor.cpu() for name, tensor in full if self.ranks.first}

    def steps_to_keep(self) -> set[int]:
        """The last few regular checkpoints (to average; at least two, in case one is damaged), the best, and this one.

        Fine-tuning keeps its starting weights too. Later ones are damaged, or the run would have resumed from them.
        """
        now, keep = self.state.step, max(2, self.recipe.keep)
        due = [step for step in self.checkpoints.regular_steps(self.recipe.save_every) if step <= now]
        start = {0} if self.state.start is not None else set()
        return {*due[-keep:], *start, now, self.state.best_step}

    def resume(self) -> None:
        """Load the newest intact checkpoint, if there is one; rank 0 reads it for all."""
        saved = self.checkpoints.load() if self.ranks.first else None
        description = self.ranks.broadcast(lambda: None if saved is None else describe_checkpoint(saved))
        if self.ranks.first:
            lines = 0 if saved is None else int(saved.state["metrics_lines"])
            if not self.metrics.truncate(lines):
                self.reporter.note(f"{self.metrics.path} has lost lines that were written before the last checkpoint")
        if description is None:
            return
        weights = trained_weights(self.model)
        if set(description["model"]) != set(weights):
            odd = sorted(set(description["model"]) ^ set(weights))[0]
            raise DamagedError(
                f"only one of the checkpoint and the model has {odd!r}: the checkpoint belongs to another run; choose "
                "another --out, or restore this run's checkpoints",
                code="checkpoint_mismatch",
            )
        for part, name, tensor in broadcast_tensors(self.ranks, saved, description):
            match part:
                case "model":
                    local_shard(weights[name]).copy_(local_shard(shard_like(tensor, weights[name])))
                case "optimizer":
                    self.optimizer.restore_tensor(name, tensor)
                case "ema":
                    self.ema[name] = shard_like(tensor, weights[name])
        self.state = TrainingState.from_json(description["state"])
        if self.ranks.first:  # a process may have been killed between a save and its pruning
            later = {step for step in self.checkpoints.steps() if step > self.state.step}
            self.checkpoints.prune(self.steps_to_keep() | later)
