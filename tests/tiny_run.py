"""A run of training so small that it can be begun, killed and resumed a hundred times.

Its processes come from a fork server that has imported PyTorch once, so that each of them starts in milliseconds.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import dragoman.training.run
from dragoman.config import Recipe
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.errors import DragomanError
from dragoman.progress import SilentReporter
from dragoman.training.distributed.ranks import CollectiveError, Ranks, join
from dragoman.training.run import run_training

CLOCK = {"seconds", "target_tokens_per_second"}  # keys of metrics that differ between runs that are equal bit for bit
ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
TINY = (
    *("model.d_model=16", "model.n_heads=2", "model.d_ff=24", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("model.dropout=0.1", "text.vocabulary_size=300", "data.batch_tokens=300", "data.valid_pairs=20"),
    *("train.steps=14", "train.accumulate=2", "train.save_every=4", "train.evaluate_every=3", "train.log_every=3"),
    *("train.keep=2", "train.average=2", "train.ema=0.9", "train.warmup_steps=6", "train.clip=1.0"),
)


def write_corpus(directory: Path, pairs: int = 300) -> Corpus:
    """Numbers in words, in two languages; lengths differ widely."""
    draw = random.Random(5)
    rows = [[draw.randrange(10) for _ in range(draw.choice((1, 2, 3, 9, 17)))] for _ in range(pairs)]
    sides = (directory / "numbers.en", directory / "numbers.de")
    for side, words in zip(sides, (ENGLISH, GERMAN), strict=True):
        side.write_text("".join(" ".join(words[i] for i in row) + "\n" for row in rows), encoding="utf-8")
    return Corpus(*sides)


def with_trees(corpus: Corpus) -> Corpus:
    """The same with a tree for each line, in which a word hangs on the one two before it, if there is one."""
    place = corpus.source.with_suffix(".conllu")
    with place.open("w", encoding="utf-8") as file:
        for line in corpus.source.read_text(encoding="utf-8").splitlines():
            for number, word in enumerate(line.split(), 1):
                file.write(f"{number}\t{word}\t_\t_\t_\t_\t{max(0, number - 2)}\t_\t_\t_\n")
            file.write("\n")
    return replace(corpus, source_trees=place)


def recipe(*changes: str) -> Recipe:
    """The tiny recipe, with changes."""
    rival = any(change.startswith("model.architecture=") for change in changes)
    without = ("model.n_heads", "model.d_ff") if rival else ()
    return Recipe.from_changes([*(change for change in TINY if not change.startswith(without)), *changes])


def prepare_tiny(directory: Path, trees: bool = False, pairs: int = 300) -> Prepared:
    """The tiny data."""
    directory.mkdir(parents=True, exist_ok=True)
    corpus = write_corpus(directory, pairs)
    return prepare_corpora([with_trees(corpus) if trees else corpus], recipe(), directory / "prepared", processes=1)


@dataclass(frozen=True)
class Found:
    """What the tiny evaluation finds."""

    figures: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)


def evaluate(model: torch.nn.Module, check: Callable[[], None] = lambda: None) -> Found:
    """A figure that depends on every bit of every weight and jumps about, so that the best step may be any."""
    total = sum(float(p.detach().double().abs().sum()) for p in model.parameters())
    return Found({"loss": abs(math.sin(1e3 * total))})


class Telling(SilentReporter):
    """A reporter that writes notes to stderr."""

    def note(self, text: str) -> None:
        sys.stderr.write(f"note: {text}\n")


class Notes(SilentReporter):
    """Keeps what a run notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def tiny_run(
    data: Path,
    out: Path,
    *changes: str,
    reporter: Any = None,
    ranks: Ranks | None = None,
    look: Any = None,
    start_from: Path | None = None,
) -> None:
    """Train, or go on."""
    dragoman.training.run.draw_training_curves = lambda *_: None  # type: ignore[attr-defined]  # pictures are tested elsewhere
    run_training(
        Prepared.open(data / "prepared"),
        recipe(*changes),
        out,
        evaluate=look or evaluate,
        reporter=reporter or SilentReporter(),
        ranks=ranks or Ranks(),
        start_from=start_from,
    )


class Crash(BaseException):
    """Nothing catches it, as nothing catches a killed process."""


class CrashAt(SilentReporter):
    """A reporter that crashes after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        if step == self.step:
            raise Crash


def outcome(out: Path) -> dict[str, Any]:
    """All that a run leaves, as raw bytes; of the log, all but what the clock says."""
    left: dict[str, Any] = {}
    for path in sorted((out / "training" / "checkpoints").rglob("*")):
        if path.is_file():
            left[str(path.relative_to(out))] = path.read_bytes()
    weights = next(out.glob("*.safetensors"))  # of a model or an adapter
    left[weights.name] = weights.read_bytes()
    left["card.md"] = (out / "card.md").read_bytes()
    left["metrics"] = metrics(out)
    return left


def metrics(out: Path) -> list[dict[str, Any]]:
    lines = (out / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCK} for line in lines]


def weights_of(out: Path, step: int) -> dict[str, torch.Tensor]:
    """What a checkpoint of a run holds."""
    place = out / f"training/checkpoints/step-{step:08d}"
    return {**load_file(place / "model.safetensors"), **load_file(place / "optimizer.safetensors")}


def assert_alike(one: Path, other: Path, step: int) -> None:
    """Two runs came to the same within rounding: weights and moments of a step, and what was logged."""
    ours, theirs = weights_of(one, step), weights_of(other, step)
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=2e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")
    for mine, yours in zip(metrics(one), metrics(other), strict=True):
        assert mine["step"] == yours["step"]
        assert mine.get("target_tokens") == yours.get("target_tokens")
        for figure, near in (("loss", 1e-5), ("nll", 1e-5), ("gradient_norm", 1e-4)):
            assert math.isclose(mine.get(figure, 0), yours.get(figure, 0), rel_tol=near), (figure, mine, yours)


def assert_crashes_leave_no_trace(data: Path, folder: Path, *changes: str) -> None:
    """A run that crashes again and again comes to the bits of one that does not; they are `m` and `whole`."""
    tiny_run(data, folder / "whole", *changes)
    for step in (2, 7, 11):
        try:
            tiny_run(data, folder / "m", *changes, reporter=CrashAt(step))
        except Crash:
            continue
        raise AssertionError(f"step {step} did not crash")
    tiny_run(data, folder / "m", *changes)
    assert difference(outcome(folder / "whole"), outcome(folder / "m")) == ""


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In words, where two outcomes differ; empty where they do not."""
    odd = sorted(set(one) ^ set(other))
    if odd:
        return f"only one has {odd}"
    return ", ".join(name for name in one if one[name] != other[name])


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["dragoman.training.run", "dragoman.data.prepare.pipeline", "safetensors.torch", "sacrebleu", "torch._dynamo"]
)


def start(target: Callable[..., None], *args: Any, stderr: Path | None = None, **environment: str) -> Any:
    """A process of its own that does this."""
    process = CONTEXT.Process(target=_inside, args=(target, args, stderr, environment), daemon=True)
    process.start()
    return process


def _inside(
    target: Callable[..., None], args: tuple[Any, ...], stderr: Path | None, environment: dict[str, str]
) -> None:
    if stderr is not None:
        os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        target(*args)
    except CollectiveError as error:
        sys.stderr.write(f"dragoman: {error}\n")
        sys.exit(error.exit_code)
    except DragomanError as error:
        sys.stderr.write(f"dragoman: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


class Team:
    """Processes of one run, with the store that they meet in."""

    def __init__(self, world: int, target: Callable[..., None], *args: Any, folder: Path, **environment: str) -> None:
        import torch.distributed as dist

        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.errors = [folder / f"stderr-{rank}" for rank in range(world)]
        meeting = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "WORLD_SIZE": str(world),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            **environment,
        }
        self.members = [
            start(target, *args, stderr=self.errors[rank], RANK=str(rank), LOCAL_RANK=str(rank), **meeting)
            for rank in range(world)
        ]

    def wait(self, seconds: float = 60) -> list[int | None]:
        """The exit codes; who has not ended by then is killed."""
        for member in self.members:
            member.join(seconds)
            if member.is_alive():
                member.kill()
        for member in self.members:
            member.join()
        return [member.exitcode for member in self.members]

    def said(self) -> str:
        """All that was written to stderr."""
        return "\n".join(path.read_text() for path in self.errors if path.exists())


def member(target: Callable[..., None], *args: Any) -> None:
    """What a member of a team does: join, work, leave."""
    ranks = join(torch.device("cpu"))
    with ranks.guard():
        target(ranks, *args)


def train_as_member(ranks: Ranks, data: Path, out: Path, changes: tuple[str, ...]) -> None:
    """The tiny run among others."""
    tiny_run(data, out, *changes, reporter=Telling() if ranks.first else None, ranks=ranks)
