"""The training loop (section 5): step, log, evaluate, save; stopped anywhere and resumed, the same to the bit.

All randomness is a function of counters: the order of batches of (seed, epoch), dropout of (seed, step, micro-batch,
rank). So a checkpoint holds no state of any random generator, and a resumed run cannot help but repeat itself.
"""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.data.loading import Loader
from dragoman.errors import TrainingError
from dragoman.models import Seq2Seq, State
from dragoman.text.special import BOS, EOS, PAD
from dragoman.train.checkpoint import Checkpoint, Checkpoints
from dragoman.train.loss import TranslationLoss
from dragoman.train.metrics import Metrics
from dragoman.train.optimiser import Optimiser
from dragoman.train.parallel import Ranks
from dragoman.train.progress import Evaluation, Progress, Watch, Window
from dragoman.train.schedule import learning_rate

Evaluate = Callable[[nn.Module], Evaluation]
HIGHER_IS_BETTER = {"loss": False, "bleu": True}


class InterruptedTrainingError(TrainingError):
    """The run was asked to stop (Ctrl-C, SIGTERM), and saved before it did."""


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
        self.model, self.recipe, self.d_model = model.to(ranks.device), recipe, d_model
        self.open_loader, self.evaluate, self.watch, self.ranks = open_loader, evaluate, watch, ranks
        self.metrics = Metrics(directory / "metrics.jsonl")
        self.checkpoints = Checkpoints(directory / "checkpoints", watch.note)
        self.optimiser = Optimiser(model, recipe)
        self.ema = {name: p.detach().clone() for name, p in model.named_parameters()} if recipe.ema else {}
        self.progress = Progress()
        self.task = self._wrapped(model, pad)
        self.autocast = precision(recipe, ranks.device)
        self._stop = False
        self._logged_at = time.perf_counter()

    def _wrapped(self, model: Seq2Seq[State] | nn.Module, pad: int) -> nn.Module:
        task: nn.Module = TranslationLoss(model, self.recipe.label_smoothing, pad)  # type: ignore[arg-type]
        if self.ranks.world > 1:
            ids = [self.ranks.device.index] if self.ranks.device.type == "cuda" else None
            task = DistributedDataParallel(task, device_ids=ids, broadcast_buffers=False)
        if self.recipe.compile:
            task = torch.compile(task, dynamic=True)  # type: ignore[assignment]
        return task

    def run(self) -> None:
        """Train until the last step, or until nothing gets better, or until asked to stop."""
        self.resume()
        self.watch.begin(self.progress.step, self.recipe.steps)
        try:
            with self.open_loader(self.progress.loader) as loader, self._signals():
                while not self.finished():
                    self.step(loader)
        finally:
            self.watch.end()

    def finished(self) -> bool:
        """Whether the last step is done, or patience is at its end."""
        out_of_patience = 0 < self.recipe.patience <= self.progress.without_better
        return self.progress.step >= self.recipe.steps or out_of_patience

    def step(self, loader: Loader) -> None:
        """One step of the optimiser, and what is due after it."""
        progress = self.progress
        batches = [next(loader) for _ in range(self.recipe.accumulate)]
        counts = self.ranks.sum(
            sum(b.target_tokens for b in batches), sum(b.source_tokens for b in batches), float(self._stop)
        )
        self.model.train()
        step, sums = progress.step + 1, torch.zeros(2, dtype=torch.float64, device=self.ranks.device)
        for number, batch in enumerate(batches):
            torch.manual_seed(seed_of(self.recipe.seed, step, number, self.ranks.rank))
            with self._quiet(number + 1 < len(batches)):
                with self.autocast():
                    loss = self.task(present(batch, self.ranks.device))
                # The mean that DistributedDataParallel takes over processes is undone here: we divide once, by tokens.
                (loss.smoothed * (self.ranks.world / counts[0])).backward()
            sums += torch.stack([loss.smoothed.detach(), loss.plain]).double()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip or float("inf"), foreach=True)
        smoothed, plain = self.ranks.sum(*sums.tolist())
        progress.step, progress.loader = step, batches[-1].state
        if self._finite(smoothed, norm):
            self.optimiser.step(learning_rate(self.recipe, self.d_model, step))
            self._follow()
            self._count(smoothed, plain, counts[0], counts[1], float(norm))
        self.optimiser.forget_gradients()
        self.watch.stepped(progress, counts[0], plain / counts[0])
        self._after(asked_to_stop=counts[2] > 0)

    def _finite(self, loss: float, norm: Tensor) -> bool:
        """Skip a step whose loss or gradient is not finite; a run that does nothing else is stopped."""
        progress, recipe = self.progress, self.recipe
        if bool(norm.isfinite()) and loss - loss == 0:
            progress.skipped_in_a_row = 0
            return True
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.watch.note(f"step {progress.step}: loss {loss:g}, gradient norm {float(norm):g}; skipped")
        if progress.skipped_in_a_row >= recipe.max_skips:
            last = max(self.checkpoints.steps(), default=0)
            raise TrainingError(
                f"{progress.skipped_in_a_row} steps in a row, up to step {progress.step}, had a loss or gradient that "
                f"is not finite; nothing of them was saved, and the last checkpoint is that of step {last}. Try a "
                "lower train.learning_rate, more train.warmup_steps, train.clip=1.0, or train.precision='float32'"
            )
        return False

    def _follow(self) -> None:
        """Let the moving average follow the weights."""
        if self.ema:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    self.ema[name].lerp_(parameter, 1 - self.recipe.ema)

    def _count(self, smoothed: float, plain: float, target: float, source: float, norm: float) -> None:
        window = self.progress.window
        window.smoothed += smoothed
        window.plain += plain
        window.target_tokens += target
        window.source_tokens += source
        window.norm += norm
        window.steps += 1
        self.progress.target_tokens += target
        self.progress.source_tokens += source

    def _after(self, asked_to_stop: bool) -> None:
        """Log, evaluate and save where the step's number says so; stop where someone asked for it."""
        step, recipe = self.progress.step, self.recipe
        last = step >= recipe.steps
        if step % recipe.log_every == 0 or last:
            self._log()
        if self.evaluate is not None and (step % recipe.evaluate_every == 0 or last):
            self._evaluate()
        if step % recipe.save_every == 0 or self.finished() or asked_to_stop:
            self.save()
        if asked_to_stop and not self.finished():
            raise InterruptedTrainingError(
                f"stopped after step {step}, which is saved; run the same command to go on from there"
            )

    def _log(self) -> None:
        window, now = self.progress.window, time.perf_counter()
        if window.steps and self.ranks.first:
            entry = {
                "step": self.progress.step,
                "loss": window.smoothed / window.target_tokens,
                "nll": window.plain / window.target_tokens,
                "learning_rate": learning_rate(self.recipe, self.d_model, self.progress.step),
                "gradient_norm": window.norm / window.steps,
                "target_tokens": self.progress.target_tokens,
                "skipped": self.progress.skipped,
                "seconds": round(now - self._logged_at, 3),
                "target_tokens_per_second": round(window.target_tokens / (now - self._logged_at), 1),
            }
            self.metrics.append(entry)
            self.watch.logged(entry)
        self.progress.window, self._logged_at = Window(), now

    def _evaluate(self) -> None:
        """Evaluate on the first process, and let all know whether it got better."""
        progress, figure = self.progress, self.recipe.stop_on
        value = 0.0
        if self.ranks.first and self.evaluate is not None:
            with self.averaged() if self.ema else nullcontext():
                evaluation = self.evaluate(self.model.eval())
            value = evaluation.figures[figure]
        value = self.ranks.sum(value)[0]  # the others add 0, and wait here until it is there
        better = progress.best_value is None or (
            value > progress.best_value if HIGHER_IS_BETTER[figure] else value < progress.best_value
        )
        if better:
            progress.best_value, progress.best_step, progress.without_better = value, progress.step, 0
        else:
            progress.without_better += 1
        if self.ranks.first:
            self.metrics.append({"step": progress.step, "valid": dict(evaluation.figures)})
            self.watch.evaluated(progress.step, evaluation, better)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with the moving average in the place of its weights."""
        own = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.model.load_state_dict(self.ema, strict=False)
        try:
            yield
        finally:
            self.model.load_state_dict(own, strict=False)

    def save(self) -> None:
        """A checkpoint of this step, from which `resume` goes on to the bit."""
        if self.ranks.first:
            self.progress.metrics_bytes = self.metrics.size()
            values = self.progress.to_json()
            step = values.pop("step")
            self.checkpoints.save(Checkpoint(step, self.model.state_dict(), self.optimiser.state(), self.ema, values))
            self.checkpoints.prune(self.worth_keeping())
        self.ranks.wait()

    def worth_keeping(self) -> set[int]:
        """The last few that were due (to average), the best, and the newest."""
        steps = self.checkpoints.steps()
        due = [step for step in steps if step % self.recipe.save_every == 0]
        return {*due[-self.recipe.keep :], *steps[-1:], self.progress.best_step}

    def resume(self) -> None:
        """Take up the newest whole checkpoint, if there is one."""
        saved = self.checkpoints.load()
        if saved is None:
            self.metrics.cut(0)
            return
        self.model.load_state_dict(saved.model)
        self.optimiser.restore(saved.optimiser)
        self.ema = {name: tensor.to(self.ranks.device) for name, tensor in saved.ema.items()}
        self.progress = Progress.from_json({**saved.progress, "step": saved.step})
        if self.ranks.first:
            self.metrics.cut(self.progress.metrics_bytes)
        self.ranks.wait()

    def _quiet(self, more_to_come: bool) -> AbstractContextManager[None]:
        """Hold back the exchange of gradients until the last micro-batch of a step."""
        if more_to_come and isinstance(self.task, DistributedDataParallel):
            quiet: AbstractContextManager[None] = self.task.no_sync()
            return quiet
        return nullcontext()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask the loop to save and stop; a second Ctrl-C stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self._stop and number == signal.SIGINT:
                raise KeyboardInterrupt
            self._stop = True
            self.watch.note("asked to stop: finishing this step and saving (again to stop at once)")

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def present(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device; a rank whose epoch is over takes part with a sentence that counts nothing."""
    if batch.n_sentences or batch.layout == "packed":
        return batch.to(device)
    one = torch.ones(1, 1, dtype=torch.long)
    return replace(
        batch,
        source=one * EOS,
        source_lengths=one[0],
        target_in=one * BOS,
        target_out=one * PAD,
        target_lengths=one[0],
    ).to(device)


def seed_of(*counters: int) -> int:
    """A seed for the random numbers of one place in the run."""
    text = "/".join(map(str, counters)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def precision(recipe: TrainRecipe, device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """Autocast to bfloat16 where the recipe or the device asks for it."""
    wanted = recipe.precision == "bfloat16" or (recipe.precision == "auto" and device.type == "cuda")
    if not wanted:
        return nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)
