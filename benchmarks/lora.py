"""LoRA adapters against fine-tuning all weights: BLEU on the new and the old domain, seconds, peak memory, size.

    python benchmarks/lora.py --model MODEL --source train.en --target train.de --pairs 5000 \\
        --valid-source dev.en --valid-target dev.de --test new new.en new.de --test old old.en old.de \\
        --ranks 4,16,64 --out runs/lora [--set train.steps=200] [--device cuda]

Draws `--pairs` pairs, and trains on them with all weights and with adapters of each rank, each in a process of its own;
everything else is the default for each, or as given by --set and --set-full or --set-lora. Seconds are those of the
training steps, without evaluations; memory is the peak of the GPU, or of the process; size is what must be kept beside
the base model. A run that is finished is not repeated. Last, steps of all of them take turns in one process, on the
same batches: on a busy machine, only these times can be compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dragoman

sys.path.insert(0, str(Path(__file__).parent))
from fine_tuning import draw


def train_alone(arguments: dict[str, Any]) -> None:
    """One run, in this process; prints what it took."""
    import torch

    began = time.perf_counter()
    result = dragoman.train(**{**arguments, "valid": tuple(arguments["valid"])})
    on_gpu = torch.cuda.is_available() and arguments["device"] != "cpu"
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    taken = {
        "wall": time.perf_counter() - began,
        "seconds": sum(entry.get("seconds", 0.0) for entry in result.curve),
        "memory": torch.cuda.max_memory_allocated() if on_gpu else host,
        "steps": result.recipe.train.steps,
        "rate": result.recipe.train.learning_rate,
        "kept": result.metrics["loss"],
    }
    print(json.dumps(taken))


def run(arguments: dict[str, Any]) -> dict[str, float]:
    """Train in a separate process; its time and memory are stored beside the run."""
    note = Path(arguments["out"] + ".json")
    if not note.exists():
        command = [sys.executable, __file__, "--child", json.dumps(arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        note.write_text(done.stdout.splitlines()[-1])
    taken: dict[str, float] = json.loads(note.read_text())
    return taken


def compare_steps(runs: dict[str, Path], device: str | None, rounds: int) -> dict[str, float]:
    """The median seconds of a step of each run; they take turns."""
    import torch

    from dragoman.config import Recipe
    from dragoman.data.prepared import Prepared
    from dragoman.models.loading import build_model
    from dragoman.nn.lora import add_adapters
    from dragoman.text import vocabulary_sizes
    from dragoman.training.run_record import prepared_directory
    from dragoman.training.speed import make_steps, run_step

    place, steps, batches = torch.device(device or "cpu"), {}, []
    for name, out in runs.items():
        recipe, prepared = Recipe.load(out / "recipe.toml"), Prepared.open(prepared_directory(out))
        if not batches:
            with prepared.loader(recipe.data) as loader:
                batches = [next(loader) for _ in range(rounds)]
        model = build_model(recipe.model, vocabulary_sizes(*prepared.tokenizers), 0)
        if recipe.train.lora:
            add_adapters(model, recipe.train.lora, recipe.train.lora_scale, recipe.train.lora_projections)
        steps[name] = make_steps(model.to(place).train(), recipe.train, place, batches[0])
        for _ in range(3):
            run_step(steps[name], batches[0])
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for batch in batches:
        for name in runs:
            began = time.perf_counter()
            run_step(steps[name], batch)
            spent[name].append(time.perf_counter() - began)
    return {name: sorted(times)[len(times) // 2] for name, times in spent.items()}


def size(directory: Path) -> float:
    return sum(file.stat().st_size for file in directory.iterdir() if file.is_file()) / 1e6


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        train_alone(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--source", "--target", "--valid-source", "--valid-target", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--valid-pairs", type=int, default=500)
    parser.add_argument("--ranks", default="4,16,64")
    for name in ("--set", "--set-full", "--set-lora"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--test", nargs=3, action="append", required=True, metavar=("NAME", "SOURCE", "REFERENCE"))
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=20, help="steps of each to compare")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    source, target = draw((given.source, given.target), given.pairs, given.out / f"train-{given.pairs}")
    valid = [
        str(path) for path in draw((given.valid_source, given.valid_target), given.valid_pairs, given.out / "valid")
    ]
    names, sources, references = zip(*given.test, strict=True)

    def bleu(model: Path, adapter: Path | None = None) -> list[float]:
        found = dragoman.evaluate(
            model,
            adapter=adapter,
            source=sources,
            reference=references,
            names=names,
            metrics=["BLEU"],
            beam=given.beam,
            reporter=dragoman.SilentReporter(),
        )
        return [result.scores[0].value for result in found.results]

    before = " | ".join(f"{score:.2f}" for score in bleu(given.model))
    runs: dict[str, Path] = {}
    rows = [f"| the base model | | {before} | | | | {size(given.model):.1f} |"]
    for rank in (0, *map(int, given.ranks.split(","))):
        out = given.out / (f"lora-{rank}" if rank else "full")
        changes = [*given.set, *(given.set_lora if rank else given.set_full), *([f"train.lora={rank}"] if rank else [])]
        arguments = {
            "source": str(source), "target": str(target), "valid": valid, "out": str(out),
            "start_from": str(given.model), "changes": changes, "device": given.device,
        }  # fmt: skip
        took = run(arguments)
        scores = bleu(given.model, out) if rank else bleu(out)
        name = f"LoRA, rank {rank}" if rank else "all weights"
        runs[name] = out
        figures = [f"{score:.2f}" for score in scores]
        figures += [f"{took['seconds'] / took['steps']:.3f}", f"{took['seconds']:.0f}", f"{took['memory'] / 1e9:.2f}"]
        rows.append(f"| {name} | {took['rate']:g} | {' | '.join(figures)} | {size(out):.1f} |")
        print(rows[-1], flush=True)
    tests = " | ".join(f"BLEU, {name}" for name in names)
    print(f"\n| trained | rate | {tests} | s per step | s of training | peak GB | MB on disk |")
    print(f"|---|---|{'---|' * len(names)}---|---|---|---|")
    print("\n".join(rows))
    seconds = compare_steps(runs, given.device, given.rounds)
    print("\n| trained | median s per step, in turns | of all weights |\n|---|---|---|")
    for name, each in seconds.items():
        print(f"| {name} | {each:.4f} | {each / seconds['all weights']:.2f} |")


if __name__ == "__main__":
    main()
