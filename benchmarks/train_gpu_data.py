"""Training on one GPU with real data: does the loader keep up, does the fast step learn what the plain one does?

    dragoman prepare --source train.en --target train.de --out prepared --set text.vocabulary_size=16000
    python benchmarks/train_gpu_data.py prepared --out results.json --picture curve.png

Waiting: the same steps are timed with batches from the loader and with batches that were made before. Curve: the same
batches of pairs, packed in bfloat16 by the compiled step, and padded in float32 by the plain one; each with two seeds
of dropout, which says how much of a difference is noise.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman import Transformer
from dragoman.config import PRESETS, DataRecipe, TrainRecipe
from dragoman.data.batch import Batch
from dragoman.data.prepared import Prepared
from dragoman.text.special_tokens import PAD
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.optim.optimizer import Optimizer, learning_rate
from dragoman.training.steps.cuda_graph import CudaGraphSteps
from dragoman.training.steps.eager import derive_seed, precision, to_device

DEVICE = torch.device("cuda")


def setting(preset: str, vocabulary: int, recipe: TrainRecipe) -> tuple[TranslationLoss, Optimizer]:
    torch.manual_seed(1)
    model = Transformer(replace(PRESETS[preset], dropout=0.1), vocabulary).to(DEVICE).train()
    return TranslationLoss(model, recipe.label_smoothing, PAD), Optimizer(model, recipe)  # type: ignore[arg-type]


def queue_of(preset: str, vocabulary: int, recipe: TrainRecipe) -> CudaGraphSteps:
    task, optimizer = setting(preset, vocabulary, recipe)
    return CudaGraphSteps(task, optimizer, recipe, precision(recipe, DEVICE), Ranks(device=DEVICE))


def waiting(
    prepared: Prepared, vocabulary: int, preset: str, tokens: int, steps: int, given_turn: Path | None
) -> dict[str, Any]:
    """The share of time that steps take longer with the loader than with batches that are there."""
    queue = queue_of(preset, vocabulary, TrainRecipe(compile=True))
    done = 0

    def go(batches: Any, count: int) -> float:
        nonlocal done
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            batch, done = next(batches), done + 1
            queue.submit([batch], done, batch.target_tokens, batch.source_tokens, 1e-4)
            queue.completed(wait=False)
        queue.completed(wait=True)
        return (time.perf_counter() - began) / count

    with prepared.loader(DataRecipe(layout="packed", batch_tokens=tokens)) as loader:
        ready = [next(loader) for _ in range(steps)]
        go(iter(ready), 10)
        while given_turn is not None and not given_turn.exists():
            time.sleep(0.02)
        turns = [(go(iter(ready), steps), go(loader, steps)) for _ in range(2)]
    fixed, loaded = (min(turn[i] for turn in turns) for i in range(2))
    target = sum(b.target_tokens for b in ready) / steps
    found = {
        "preset": preset, "ms_ready": fixed * 1e3, "ms_loader": loaded * 1e3, "waits": 1 - fixed / loaded,
        "target_tokens_per_second": target / loaded, "first_step_seconds": queue.first_seconds,
        "fill": target / tokens,
    }  # fmt: skip
    print("waiting", {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}, flush=True)
    return found


def padded(batch: Batch) -> Batch:
    """The same pairs, a row each."""
    n = batch.n_sentences
    sides = {}
    for name, lengths in (
        ("source", batch.source_lengths), ("target_in", batch.target_lengths), ("target_out", batch.target_lengths),
    ):  # fmt: skip
        rows = getattr(batch, name)[: int(lengths.sum())].split(lengths[:n].tolist())
        sides[name] = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=PAD)
    return replace(
        batch, layout="padded", source_lengths=batch.source_lengths[:n], target_lengths=batch.target_lengths[:n],
        pairs=batch.pairs[:n], **sides,
    )  # fmt: skip


def curve(
    prepared: Prepared, vocabulary: int, preset: str, tokens: int, steps: int, out: Path | None
) -> dict[str, Any]:
    """The loss of each step (without smoothing, per token), by both ways, twice each."""
    found: dict[str, Any] = {"preset": preset, "tokens": tokens, "seconds": {}, "losses": {}}
    for name, seed in (("packed", 1), ("packed", 2), ("padded", 1), ("padded", 2)):
        recipe = TrainRecipe(
            steps=steps, warmup_steps=200, learning_rate=2e-3, clip=1.0, compile=name == "packed", seed=seed,
            precision="auto" if name == "packed" else "float32",
        )  # fmt: skip
        losses: list[float | torch.Tensor] = []
        with prepared.loader(DataRecipe(layout="packed", batch_tokens=tokens)) as loader:
            began = time.perf_counter()
            if name == "packed":
                queue = queue_of(preset, vocabulary, recipe)
                for step in range(1, steps + 1):
                    batch = next(loader)
                    rate = learning_rate(recipe, PRESETS[preset].d_model, step)
                    queue.submit([batch], step, batch.target_tokens, batch.source_tokens, rate)
                    losses += [o.plain / o.target for o in queue.completed(wait=step == steps)]
            else:
                task, optimizer = setting(preset, vocabulary, recipe)
                for step in range(1, steps + 1):
                    batch = next(loader)
                    torch.manual_seed(derive_seed(seed, step))
                    loss = task(to_device(padded(batch), DEVICE))
                    (loss.smoothed / batch.target_tokens).backward()
                    torch.nn.utils.clip_grad_norm_(task.parameters(), recipe.clip)
                    optimizer.step(learning_rate(recipe, PRESETS[preset].d_model, step))
                    optimizer.clear_gradients()
                    losses.append(loss.plain / batch.target_tokens)
        found["losses"][f"{name} {seed}"] = [float(x) for x in losses]
        found["seconds"][f"{name} {seed}"] = time.perf_counter() - began
        seconds = found["seconds"][f"{name} {seed}"]
        print("curve", name, seed, f"{seconds:.1f} s, last 50:", mean(found, f"{name} {seed}"), flush=True)
        if out:  # what there is of it, should the rest fail
            out.write_text(json.dumps({"curve": found}), encoding="utf-8")
    return found


def mean(found: dict[str, Any], name: str, last: int = 50) -> float:
    values = found["losses"][name][-last:]
    return sum(values) / len(values)


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    words = {"packed": "packed, compiled, bfloat16", "padded": "padded, float32"}
    for name, losses in found["losses"].items():
        kind, seed = name.split()
        for axes, start in ((left, 0), (right, len(losses) * 3 // 5)):
            axes.plot(
                range(start + 1, len(losses) + 1), losses[start:], lw=0.8, color="C0" if kind == "packed" else "C1",
                alpha=0.9 if seed == "1" else 0.5, label=f"{words[kind]}, dropout seed {seed}",
            )  # fmt: skip
    left.set(xlabel="step", ylabel="cross-entropy of a target token", title="the same batches")
    right.set(xlabel="step", title="the last two fifths")
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--only", nargs="+", default=["waiting", "curve"], choices=["waiting", "curve"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--steps", type=int, default=500, help="of each curve")
    parser.add_argument("--presets", nargs="+", default=["base", "small"], help="for the waiting")
    parser.add_argument("--after", type=Path, help="time the waiting only when this file is there")
    given = parser.parse_args()
    prepared = Prepared.open(given.prepared)
    vocabulary = prepared.tokenizers[0].vocabulary_size
    found: dict[str, Any] = {}
    if "waiting" in given.only:
        found["waiting"] = [waiting(prepared, vocabulary, preset, 32768, 60, given.after) for preset in given.presets]
    if "curve" in given.only:
        found["curve"] = curve(prepared, vocabulary, "small", 8192, given.steps, given.out)
        if given.picture:
            draw(found["curve"], given.picture)
    if given.out:
        given.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
