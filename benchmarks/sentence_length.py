"""BLEU by sentence length for the models that attention replaced, and for the Transformer, at equal numbers of weights.

    python benchmarks/sentence_length.py DATA --prefix ep. --out runs/lengths    # a GPU if there is one
    python benchmarks/sentence_length.py DATA --size small --out runs/small      # a small corpus, on a CPU
    python benchmarks/sentence_length.py --size toy --out runs/toy               # the embedded corpus, on a CPU
    python benchmarks/sentence_length.py --out runs/lengths --draw               # the picture, from results.json

DATA has train, dev (or val, valid) and test as .en and .de (--source, --target), also compressed. Every model is
trained with `dragoman.train`, on the same tokens in the same batches, and translates the same test set. Writes
results.json, table.md and sentence_length.png to --out. On a GPU all models train at the same time, in a process each;
on a CPU --jobs says how many. A finished model is skipped and one that was stopped is resumed, so the same command can
be given again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

import dragoman
from dragoman.config import Recipe
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs
from dragoman.errors import MissingExtraError
from dragoman.files import write_output
from dragoman.inspect.pictures import load_pyplot, save_figure
from dragoman.translation.translator import Translator

NO_ATTENTION = (
    "architecture=recurrent",
    "attention=none",
    "reverse_source=true",
    "encoder_layers=2",
    "decoder_layers=2",
)
# Changes to [model], then the peak learning rate; widths and layers give each about as many weights.
MODELS: dict[str, tuple[tuple[str, ...], float]] = {
    "RNN, no attention": ((*NO_ATTENTION, "cell=rnn", "d_model=576"), 0.0007),
    "LSTM, no attention": ((*NO_ATTENTION, "cell=lstm", "d_model=384"), 0.002),
    "LSTM with attention": (
        ("architecture=recurrent", "attention=additive", "d_model=320", "encoder_layers=2", "decoder_layers=2"),
        0.002,
    ),
    "ConvS2S": (
        (
            *("architecture=convolutional", "positions=learned", "max_positions=256", "d_model=256"),
            *("encoder_layers=6", "decoder_layers=6"),
        ),
        0.002,
    ),
    "Transformer": (("preset=small",), 0.002),
}


@dataclass(frozen=True)
class Size:
    """How large the models are and how long they train; `models` has changes to MODELS."""

    vocabulary: int
    dropout: float
    steps: int
    batch_tokens: int
    beam: int
    edges: tuple[int, ...]
    models: dict[str, tuple[tuple[str, ...], float]] = field(default_factory=dict)


SIZES = {
    "full": Size(8000, 0.2, 4000, 8000, 4, (10, 20, 30, 40, 50, 60)),
    "small": Size(
        *(5000, 0.2, 4000, 1500, 4, (8, 11, 14, 17)),
        {
            "RNN, no attention": (("d_model=272",), 0.001),
            "LSTM, no attention": (("d_model=184",), 0.003),
            "LSTM with attention": (("d_model=152",), 0.003),
            "ConvS2S": (("d_model=144", "encoder_layers=4", "decoder_layers=4"), 0.003),
            "Transformer": (("preset=tiny",), 0.003),
        },
    ),
    "toy": Size(
        *(1000, 0.05, 1500, 2000, 1, (7, 14, 21, 28)),
        {
            "RNN, no attention": (("d_model=168",), 0.002),
            "LSTM, no attention": (("d_model=96",), 0.006),
            "LSTM with attention": (("d_model=80",), 0.006),
            "ConvS2S": (("d_model=72", "encoder_layers=4", "decoder_layers=4"), 0.006),
            "Transformer": (("preset=tiny", "d_model=64", "d_ff=256"), 0.003),
        },
    ),
}
TOY_LINE_SENTENCES = (1, 2, 3, 4, 5)  # sentences of the embedded corpus are short, so some are joined to a line
COLORS = ("#b5651d", "#c8452d", "#7d5ba6", "#4d9a5b", "#2f5d8a")
MARKERS = "vs^Do"


def recipe_of(name: str, options: argparse.Namespace) -> Recipe:
    """The whole recipe of one model."""
    size, steps = SIZES[options.size], options.steps
    own, rate = size.models.get(name, ((), MODELS[name][1]))
    model = [*MODELS[name][0], *own, f"dropout={size.dropout}"]
    # Recurrent and convolutional models have neither packed batches nor compiled steps.
    fast = name == "Transformer" and options.device.startswith("cuda")
    layout = ("data.layout=packed", "train.compile=true") if fast else ("data.layout=padded",)
    return Recipe.from_changes(
        [
            *(f"model.{change}" for change in {each.split("=")[0]: each for each in model}.values()),
            *(f"text.vocabulary_size={size.vocabulary}", "data.max_tokens=200", *layout),
            *(f"data.batch_tokens={options.batch_tokens}", f"train.steps={steps}", "train.schedule=cosine"),
            *(f"train.warmup_steps={max(1, steps // 10)}", f"train.learning_rate={options.rate or rate}"),
            *("train.clip=1.0", "train.average=1", "train.keep=1", f"train.evaluate_every={steps}"),
            *(f"train.save_every={max(1, steps // 5)}", f"train.seed={options.seed}", f"data.seed={options.seed}"),
        ]
    )


def find(directory: Path, names: Sequence[str], language: str) -> Path:
    for name in names:
        for suffix in ("", ".xz", ".gz"):
            if (path := directory / f"{name}.{language}{suffix}").exists():
                return path
    sys.exit(f"{directory} has no {names[0]}.{language}, compressed or not")


def corpus_files(options: argparse.Namespace) -> dict[str, Corpus]:
    """The files of each split."""
    if options.size == "toy":
        return write_toy_corpus(options.out / "corpus", options.pairs)
    if options.data is None:
        sys.exit("give the directory of the data, or --size toy")
    names = {"train": ["train"], "valid": ["dev", "val", "valid"], "test": ["test"]}
    return {
        split: Corpus(*(find(options.data, [options.prefix + n for n in of], lang) for lang in options.languages))
        for split, of in names.items()
    }


def write_toy_corpus(directory: Path, pairs: int) -> dict[str, Corpus]:
    """Lines of one to five sentences of the embedded corpus."""
    from dragoman.demo import corpus

    found = {}
    directory.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", pairs), ("valid", max(20, pairs // 40)), ("test", max(50, pairs // 20))):
        sizes = [TOY_LINE_SENTENCES[i % len(TOY_LINE_SENTENCES)] for i in range(count)]
        sides = list(zip(*corpus.pairs(sum(sizes), split=split), strict=True))
        paths = [directory / f"{split}.{language}" for language in ("en", "de")]
        for path, sentences in zip(paths, sides, strict=True):
            ends = list(accumulate(sizes))
            lines = [" ".join(sentences[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found[split] = Corpus(*paths)
    return found


def buckets(sources: Sequence[str], edges: Sequence[int], least: int = 20) -> dict[str, list[int]]:
    """The sentences by number of words, up to each edge and beyond the last; buckets of fewer than `least` are merged.

    A small bucket is merged into the one before it: its BLEU would be noise.
    """
    bounds = [*zip([0, *edges], [*edges, 10**9], strict=True)]
    members = [[i for i, text in enumerate(sources) if low < len(text.split()) <= high] for low, high in bounds]
    found: list[tuple[int, int, list[int]]] = []
    for (low, high), here in zip(bounds, members, strict=True):
        if found and len(here) < least:
            first, _, before = found.pop()
            found.append((first, high, before + here))
        elif here:
            found.append((low, high, here))
    return {f"{low + 1}–{high}" if high < 10**9 else f"over {low}": here for low, high, here in found}


def score_buckets(
    texts: Sequence[str], references: Sequence[str], groups: dict[str, list[int]]
) -> tuple[float, dict[str, float]]:
    """BLEU of all sentences, and of each bucket."""
    import sacrebleu

    def bleu(chosen: Sequence[int]) -> float:
        return round(sacrebleu.corpus_bleu([texts[i] for i in chosen], [[references[i] for i in chosen]]).score, 2)

    return bleu(range(len(texts))), {name: bleu(chosen) for name, chosen in groups.items()}


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model, or resume it, and translate the test set."""
    files, out = corpus_files(options), options.out / name.replace(", ", "-").replace(" ", "-")
    begun = time.perf_counter()
    recipe = recipe_of(name, options)
    result = dragoman.train(
        corpora=[files["train"]], valid=files["valid"], out=out, recipe=recipe, device=options.device
    )
    trained = time.perf_counter() - begun
    sources, references = map(list, zip(*read_all(files["test"]), strict=True))
    translator = Translator.load(out, device=options.device, engine="torch", precision="float32")
    begun = time.perf_counter()
    texts = [t.text for t in translator.translate(sources, beam=options.beam, split="never")]
    groups = buckets(sources, options.edges)
    overall, by_length = score_buckets(texts, references, groups)
    return {
        "model": name,
        "weights": translator.engines.torch.model.parameter_count(),
        "learning_rate": recipe.train.learning_rate,
        "steps": options.steps,
        "target_tokens": next(e["target_tokens"] for e in reversed(result.curve) if "target_tokens" in e),
        "training_seconds": round(trained, 1),
        "translation_seconds": round(time.perf_counter() - begun, 1),
        "valid_loss": result.metrics["loss"],
        "bleu": overall,
        "by_length": by_length,
        "sentences": {bucket: len(chosen) for bucket, chosen in groups.items()},
        "beam": options.beam,
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else "cpu",
    }


def read_all(corpus: Corpus) -> list[tuple[str, str]]:
    return [pair for chunk in read_pairs(corpus, 4096) for pair in zip(*chunk, strict=True)]


def result_file(out: Path, name: str) -> Path:
    return out / f"{name.replace(', ', '-').replace(' ', '-')}.json"


def train_all(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Train what is not finished, in a process each: together on a GPU, `--jobs` at a time on a CPU."""
    waiting = [name for name in MODELS if not result_file(options.out, name).exists()]
    if waiting:
        corpus_files(options)  # reports missing files, and writes the toy corpus once
    together = len(waiting) if options.device.startswith("cuda") else options.jobs
    failed = []
    for start in range(0, len(waiting), together):
        running = []
        for name in waiting[start : start + together]:
            log = result_file(options.out, name).with_suffix(".log").open("w", encoding="utf-8")
            command = [sys.executable, __file__, *arguments, "--only", name]
            running.append((name, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT), log))
        for name, process, log in running:
            failed += [name] if process.wait() else []
            log.close()
            print(f"{name}: {'failed, see ' + log.name if name in failed else 'finished'}", flush=True)
    if failed:
        sys.exit("give the same command again to resume what was stopped")


def table(results: Sequence[dict[str, Any]]) -> str:
    """The figures as a Markdown table: a row for each model, a column for each bucket."""
    names = list(results[0]["sentences"])
    head = [f"{name} words ({results[0]['sentences'][name]:,})" for name in names]
    lines = [f"| model | weights | rate | loss | all | {' | '.join(head)} |", f"|{'---|' * (len(names) + 5)}"]
    for r in results:
        figures = [
            f"{r['weights'] / 1e6:.2f} M",
            f"{r['learning_rate']:g}",
            f"{r['valid_loss']:.3f}",
            f"{r['bleu']:.1f}",
        ]
        figures += [f"{r['by_length'][name]:.1f}" for name in names]
        lines.append(f"| {r['model']} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """BLEU over the length of the source, a line for each model, named at its end."""
    plot = load_pyplot()
    figure, axis = plot.subplots(figsize=(8.6, 5.0), layout="constrained")
    names, order = list(results[0]["sentences"]), list(MODELS)
    ends = []
    for r in results:
        number, values = order.index(r["model"]), [r["by_length"][name] for name in names]
        axis.plot(values, color=COLORS[number], marker=MARKERS[number], markersize=6, linewidth=2)
        ends.append((values[-1], f"{r['model']} ({r['bleu']:.1f})", COLORS[number]))
    top = max(max(r["by_length"].values()) for r in results)
    place = -1.0
    for value, label, color in sorted(ends):  # labels that would overlap are moved up
        place = max(value, place + 0.052 * top)
        axis.text(len(names) - 0.9, place, label, color=color, va="center", fontsize=10.5)
    axis.set_xticks(range(len(names)), [f"{n}\n{results[0]['sentences'][n]:,} sentences" for n in names], fontsize=9)
    axis.set(xlim=(-0.2, len(names) + 0.75), ylim=(0, top * 1.08), xlabel="words of the source", ylabel="BLEU")
    axis.set_title("BLEU by sentence length at equal numbers of weights (in brackets: all sentences)", fontsize=11.5)
    axis.grid(axis="y", color="0.9", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="The directory of the corpus.")
    parser.add_argument("--prefix", default="", help="What file names start with, such as `ep.`.")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--out", type=Path, default=Path("runs/sentence_length"))
    parser.add_argument("--size", choices=SIZES, default="full", help="toy: tiny models on the embedded corpus.")
    parser.add_argument("--jobs", type=int, default=1, help="Models at a time on a CPU.")
    parser.add_argument("--pairs", type=int, default=10_000, help="Lines of the toy corpus.")
    parser.add_argument("--steps", type=int, help="Training steps (default: by size).")
    parser.add_argument("--batch-tokens", type=int, help="Tokens in a batch (default: by size).")
    parser.add_argument("--rate", type=float, help="A learning rate instead of each model's own.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beam", type=int, help="Beams of the search (default: by size).")
    parser.add_argument("--edges", type=int, nargs="+", help="Last number of words of each bucket.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", choices=MODELS, help="Train and score one model.")
    parser.add_argument("--draw", action="store_true", help="Only draw the picture again, from results.json.")
    options = parser.parse_args(arguments)
    options.languages = (options.source, options.target)
    for name in ("steps", "batch_tokens", "beam", "edges"):
        setattr(options, name, getattr(options, name) or getattr(SIZES[options.size], name))
    options.out.mkdir(parents=True, exist_ok=True)
    summary = options.out / "results.json"
    if options.only:
        path = result_file(options.out, options.only)
        if not path.exists():
            write_output(path, json.dumps(measure(options.only, options), indent=1, ensure_ascii=False) + "\n")
        return
    if not options.draw:
        train_all(options, arguments)
        found = [json.loads(result_file(options.out, name).read_text(encoding="utf-8")) for name in MODELS]
        write_output(summary, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    results = json.loads(summary.read_text(encoding="utf-8"))
    write_output(options.out / "table.md", table(results))
    print(table(results))
    try:
        draw(results, options.out / "sentence_length.png")
    except MissingExtraError:
        print(f"matplotlib is not installed; copy {summary} to a machine that has it, and give --draw")


if __name__ == "__main__":
    main(sys.argv[1:])
