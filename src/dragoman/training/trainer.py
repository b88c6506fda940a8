"""The training loop (section 5): step, log, evaluate, save; stopped anywhere and resumed, the same to the bit.

All randomness is a function of counters: the order of batches of (seed, epoch), dropout of (seed, step, micro-batch,
rank). So a checkpoint holds no state of any random generator, and a resumed run cannot help but repeat itself.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from torch import Tensor, nn

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.data.loader import Loader
from dragoman.errors import DamagedError
from dragoman.training.checkpoints.checkpoint import Checkpoint, Checkpoints
from dragoman.training.distributed.broadcast import describe, tensors_for_all
from dragoman.training.distributed.ranks import AgreedError, Ranks
from dragoman.training.distributed.replica import Replica
from dragoman.training.distributed.sharding import Sharded, cut_like, own, wants_sharding, whole
from dragoman.training.interrupt import BrokenOffError, InterruptedTrainingError, StopRequest
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.optim.schedule import learning_rate
from dragoman.training.reporting.metrics import Metrics
from dragoman.training.reporting.progress import Evaluation, Progress, Watch, Window
from dragoman.training.steps.base import precision
from dragoman.training.steps.cuda_graph import QueuedSteps, suits
from dragoman.training.steps.eager import WaitedSteps, wrapped
from dragoman.training.steps.outcome import Outcome

Evaluate = Callable[[nn.Module, Callable[[], None]], Evaluation]  # calls the function now and then: it may raise
HIGHER_IS_BETTER = {"loss": False, "bleu": True}


class Trainer:
    """One run of training in one directory; `run` begins it, or goes on where it stopped."""

    def __init__(
        self,
        model: nn.Module,
        recipe: TrainRecipe,
        directory: Path,
        open_loader: Callable[[int], Loader],
        *,
        d_model: int,
        pad: int,
        evaluate: Evaluate | None = None,
        watch: Watch,
        ranks: Ranks,
    ) -> None:
        self.recipe, self.d_model = recipe, d_model
        self.open_loader, self.evaluate, self.watch, self.ranks = open_loader, evaluate, watch, ranks
        self.metrics = Metrics(directory / "metrics.jsonl")
        self.checkpoints = Checkpoints(directory / "checkpoints", watch.note)
        self.sharded = wants_sharding(recipe, model, ranks)
        self.replica = Replica(model, ranks, self.sharded)
        self.model = model if self.sharded else model.to(ranks.device)
        task = TranslationLoss(self.model, recipe.label_smoothing, pad, recipe.r_drop)  # type: ignore[arg-type]
        # Before the optimizer is made, because this cuts the weights.
        self.task: nn.Module = Sharded(task, self.model, ranks) if self.sharded else task
        self.optimizer = Optimizer(self.model, recipe)
        self.ema = {name: p.detach().clone() for name, p in self.model.named_parameters()} if recipe.ema else {}
        self.progress = Progress()
        self.autocast = precision(recipe, ranks.device)
        self.steps: WaitedSteps | QueuedSteps | None = None  # which, the first batch says
        self.stop = StopRequest(speaks=ranks.first)
        self._seconds = self._tokens = 0.0

    def run(self) -> None:
        """Train until the last step, or until nothing gets better, or until asked to stop."""
        self.resume()
        self.watch.begin(self.progress.step, self.recipe.steps)
        try:
            if not self.finished():
                with self.open_loader(self.progress.loader) as loader, self.stop:
                    if self.progress.unevaluated:
                        self._evaluate_and_save([])
                    while not self.finished():
                        self.step(loader)
        finally:
            self.watch.end()

    def finished(self) -> bool:
        """Whether the last step is done and evaluated, or patience is at its end."""
        out_of_patience = 0 < self.recipe.patience <= self.progress.without_better
        if self.progress.unevaluated:
            return False
        return self.progress.step >= self.recipe.steps or out_of_patience

    def step(self, loader: Loader) -> None:
        """One step of the optimizer, and what is due after it."""
        began, progress = time.perf_counter(), self.progress
        batches = [next(loader) for _ in range(self.recipe.accumulate)]
        target, source, *asked = self.ranks.sum(
            sum(b.target_tokens for b in batches), sum(b.source_tokens for b in batches), *self.stop.flags()
        )
        if self.steps is None:
            self.steps = self._steps_for(batches[0])
        self.model.train()
        step = progress.step + 1
        self.steps.put(batches, step, target, source, learning_rate(self.recipe, self.d_model, step))
        progress.step, progress.loader = step, batches[-1].state
        outcomes = self.steps.settled(all_of_them=self._due(asked))
        self._seconds, self._tokens = self._seconds + time.perf_counter() - began, self._tokens + target
        for outcome in outcomes:
            self._account(outcome)
        self._after(asked)

    def _steps_for(self, batch: Batch) -> WaitedSteps | QueuedSteps:
        """Steps that are queued where such batches allow it, and else those that are waited for."""
        about = self.optimizer, self.recipe, self.autocast, self.ranks
        if not self.sharded and suits(self.recipe, self.ranks, batch, self.model):
            for tensor in self.model.state_dict().values():
                self.ranks.share(tensor)
            weights = dict(self.model.named_parameters())
            return QueuedSteps(self.task, *about, {average: weights[name] for name, average in self.ema.items()})
        steps = WaitedSteps(wrapped(self.task, self.recipe, self.ranks), self.model, *about, self.ema)
        steps.settle_buckets()
        return steps

    def _account(self, outcome: Outcome) -> None:
        """Count a step that is over."""
        if outcome.finite:
            self.progress.skipped_in_a_row = 0
            self._count(outcome)
            self.watch.stepped(self.progress, outcome.target, outcome.plain / outcome.target)
        else:
            self._skip(outcome)

    def _skip(self, outcome: Outcome) -> None:
        """Count a step whose loss or gradient is not finite; a run that does nothing else is stopped."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        loss, norm = outcome.smoothed, outcome.norm
        self.watch.note(f"step {outcome.step}: loss {loss:g}, gradient norm {norm:g}; skipped")
        if progress.skipped_in_a_row >= self.recipe.max_skips:
            last = max(self.checkpoints.steps(), default=0)
            raise AgreedError(
                f"{progress.skipped_in_a_row} steps in a row, up to step {outcome.step}, had a loss or gradient that "
                f"is not finite; nothing of them was saved, and the last checkpoint is that of step {last}. Try a "
                "lower train.learning_rate, more train.warmup_steps, train.clip=1.0, or train.precision='float32'"
            )

    def _count(self, outcome: Outcome) -> None:
        window = self.progress.window
        window.smoothed += outcome.smoothed
        window.plain += outcome.plain
        window.target_tokens += outcome.target
        window.source_tokens += outcome.source
        window.norm += outcome.norm
        window.steps += 1
        self.progress.target_tokens += outcome.target
        self.progress.source_tokens += outcome.source

    def _due(self, asked: list[float]) -> bool:
        """Whether something comes after this step that wants all steps to be over."""
        step, recipe = self.progress.step, self.recipe
        every = [recipe.log_every, recipe.save_every, *([recipe.evaluate_every] if self.evaluate is not None else [])]
        return step >= recipe.steps or any(asked) or any(step % each == 0 for each in every)

    def _after(self, asked: list[float]) -> None:
        """Log, evaluate and save where the step's number says so; stop where someone asked for it."""
        if self.progress.step % self.recipe.log_every == 0 or self.progress.step >= self.recipe.steps:
            self._log()
        self._evaluate_and_save(asked)

    def _evaluate_and_save(self, asked: list[float]) -> None:
        """What follows a step's log; a request to stop that breaks an evaluation off leaves this to the next run."""
        step, recipe = self.progress.step, self.recipe
        if self.evaluate is not None and (step % recipe.evaluate_every == 0 or step >= recipe.steps):
            self._evaluate(self.evaluate)
            if self.progress.unevaluated:
                asked = self.ranks.sum(*self.stop.flags())
        best = self.progress.best_step == step  # saved always, so that it is there at the end of any run
        if step % recipe.save_every == 0 or best or self.finished() or any(asked):
            self.save()
        if any(asked) and not self.finished():
            raise InterruptedTrainingError(
                f"stopped after step {step}, which is saved; run the same command to go on from there",
                signal.SIGINT if asked[0] else signal.SIGTERM,
            )

    def _log(self) -> None:
        window, seconds = self.progress.window, max(self._seconds, 1e-9)
        if window.steps and self.ranks.first:
            entry = {
                "step": self.progress.step,
                "loss": window.smoothed / window.target_tokens,
                "nll": window.plain / window.target_tokens,
                "learning_rate": learning_rate(self.recipe, self.d_model, self.progress.step),
                "gradient_norm": window.norm / window.steps,
                "target_tokens": self.progress.target_tokens,
                "skipped": self.progress.skipped,
                "seconds": round(seconds, 3),
                "target_tokens_per_second": round(self._tokens / seconds, 1),
            }
            self.metrics.append(entry)
            self.watch.logged(entry)
        self.progress.window = Window()
        self._seconds = self._tokens = 0.0

    def _evaluate(self, evaluate: Evaluate) -> None:
        """Evaluate on the first process, and let all know what it found; the others wait for as long as it takes."""
        progress, figure = self.progress, self.recipe.stop_on
        evaluations: list[Evaluation] = []

        def look() -> float | None:
            with suppress(BrokenOffError):
                evaluations.append(evaluate(model.eval(), self.stop.check))
            return evaluations[0].figures[figure] if evaluations else None

        with self.replica.holding(self.model, self.ema) as model:
            value = self.ranks.tell(look)
        progress.unevaluated = value is None
        if value is None:
            return
        before = progress.best_value
        better = math.isfinite(value) and (
            before is None or (value > before if HIGHER_IS_BETTER[figure] else value < before)
        )
        if better:
            progress.best_value, progress.best_step, progress.without_better = value, progress.step, 0
        else:
            progress.without_better += 1
        for evaluation in evaluations:
            self.metrics.append({"step": progress.step, "valid": dict(evaluation.figures)})
            self.watch.evaluated(progress.step, evaluation, better)

    def save(self) -> None:
        """A checkpoint of this step, from which `resume` goes on to the bit."""
        self.progress.metrics_lines = self.metrics.lines
        values = self.progress.to_json()
        step = values.pop("step")
        model, optimizer = self.gathered(self.model.state_dict()), self.gathered(self.optimizer.state())
        checkpoint = Checkpoint(step, model, optimizer, self.gathered(self.ema), values)

        def write() -> None:
            self.metrics.sync()
            self.checkpoints.save(checkpoint)
            self.checkpoints.prune(self.worth_keeping())

        self.ranks.tell(write)

    def gathered(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The whole tensors, for the first process; all must ask, because each may hold a part of them."""
        if not self.sharded:
            return tensors if self.ranks.first else {}
        whole_ones = ((name, whole(tensor)) for name, tensor in tensors.items())
        return {name: tensor.cpu() for name, tensor in whole_ones if self.ranks.first}

    def worth_keeping(self) -> set[int]:
        """The last few that were due (to average; at least two, should one be damaged), the best, and this one.

        What has a later number is damaged, or it would have been resumed from.
        """
        now, keep = self.progress.step, max(2, self.recipe.keep)
        due = [step for step in self.checkpoints.steps() if step <= now and step % self.recipe.save_every == 0]
        return {*due[-keep:], now, self.progress.best_step}

    def resume(self) -> None:
        """Take up the newest whole checkpoint, if there is one: the first process reads it for all."""
        saved = self.checkpoints.load() if self.ranks.first else None
        about = self.ranks.tell(lambda: None if saved is None else describe(saved))
        if self.ranks.first:
            lines = 0 if saved is None else int(saved.progress["metrics_lines"])
            if not self.metrics.cut(lines):
                self.watch.note(f"{self.metrics.path} has lost lines that were written before the last checkpoint")
        if about is None:
            return
        weights = self.model.state_dict()
        if set(about["model"]) != set(weights):
            odd = sorted(set(about["model"]) ^ set(weights))[0]
            raise DamagedError(f"only one of the checkpoint and the model has {odd!r}; they belong to different runs")
        for part, name, tensor in tensors_for_all(self.ranks, saved, about):
            match part:
                case "model":
                    own(weights[name]).copy_(own(cut_like(tensor, weights[name])))
                case "optimizer":
                    self.optimizer.place(name, tensor)
                case "ema":
                    self.ema[name] = cut_like(tensor, weights[name])
        self.progress = Progress.from_json(about["progress"])
        self.metrics.lines = self.progress.metrics_lines
        if self.ranks.first:  # a process may have been killed between a save and its pruning
            later = {step for step in self.checkpoints.steps() if step > self.progress.step}
            self.checkpoints.prune(self.worth_keeping() | later)
