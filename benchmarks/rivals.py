"""The Transformer beside the rivals of the paper's sections 1 and 2: one corpus, one number of target tokens.

    python benchmarks/rivals.py                        # all four, on the embedded corpus: some ten minutes
    python benchmarks/rivals.py --only transformer     # one of them; the table shows all that were measured so far

Every model has about as many weights, the same tokenizer and the same batches in the same order. Each has the learning
rate that did best for it in short runs (benchmarks/results/rivals.md has them). Prints the share of unseen lines
that are translated without a mistake, BLEU, and target tokens a second, trained and translated (greedily, by PyTorch).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from dragoman.demo.corpus import pairs
from dragoman.translation.translator import Translator

COMMON = [
    *("text.vocabulary_size=1000", "data.max_tokens=100", "data.batch_tokens=600", "train.precision=float32"),
    *("model.preset=tiny", "model.dropout=0.05", "train.label_smoothing=0.05", "train.clip=1.0", "train.average=1"),
    *("train.schedule=cosine", "train.log_every=50"),
]
MODELS = {
    "transformer": ["encoder_layers=2", "decoder_layers=2"],
    "recurrent, LSTM, additive": [
        *("architecture=recurrent", "attention=additive", "encoder_layers=2", "decoder_layers=2"),
    ],
    "recurrent, GRU, dot product": ["architecture=recurrent", "cell=gru", "encoder_layers=3", "decoder_layers=3"],
    "convolutional": [
        *("architecture=convolutional", "positions=learned", "max_positions=128"),
        *("encoder_layers=4", "decoder_layers=4"),
    ],
}
RATES = {
    "transformer": 0.003,
    "recurrent, LSTM, additive": 0.006,
    "recurrent, GRU, dot product": 0.006,
    "convolutional": 0.006,
}


def write_corpus(directory: Path, size: int) -> list[str]:
    """The files of the embedded corpus, as options of `dragoman train`."""
    directory.mkdir(parents=True, exist_ok=True)
    options = []
    for split, count in (("train", size), ("valid", 500)):
        sides = zip(*pairs(count, split=split), strict=True)  # type: ignore[arg-type]
        for side, language, lines in zip(("source", "target"), ("en", "de"), sides, strict=True):
            path = directory / f"{split}.{language}"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            options += [f"--{'valid-' if split == 'valid' else ''}{side}", str(path)]
    return options


def measure(name: str, model: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Train one model, and translate lines that it never saw."""
    out = options.out / f"{name.replace(', ', '-').replace(' ', '-')}-{options.seed}"
    steps = options.steps
    rate = options.rate or RATES.get(name, RATES["transformer"])
    changes = [
        *(*COMMON, *(f"model.{change}" for change in model)),
        *(f"train.steps={steps}", f"train.warmup_steps={steps // 10}", f"train.learning_rate={rate}"),
        *(f"train.save_every={steps}", f"train.evaluate_every={steps}"),
        *(f"train.seed={options.seed}", f"data.seed={options.seed}"),
    ]
    command = [sys.executable, "-m", "dragoman", "train", *write_corpus(options.out / "data", options.pairs)]
    command += ["--device", "cpu", "--out", str(out), *(x for change in changes for x in ("--set", change))]
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = time.perf_counter() - begun
    log = [json.loads(line) for line in (out / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [entry for entry in log if "seconds" in entry]
    translator = Translator.load(out, device="cpu", engine="torch", precision="float32")
    sources, references = map(list, zip(*pairs(1000, split="test"), strict=True))
    translator.translate(sources[:50], beam=1)
    begun = time.perf_counter()
    ours = translator.translate(sources, beam=1)
    translating = time.perf_counter() - begun
    import sacrebleu

    texts = [translation.text for translation in ours]
    seconds = sum(entry["seconds"] for entry in logged)
    return {
        "model": name,
        "weights": translator.engines.torch.model.parameter_count(),
        "rate": rate,
        "seed": options.seed,
        "steps": steps,
        "target_tokens": logged[-1]["target_tokens"],
        "training_seconds": round(seconds, 1),
        "training_tokens_per_second": round(logged[-1]["target_tokens"] / seconds),
        "command_seconds": round(whole, 1),
        "valid_loss": round(next(entry["valid"]["loss"] for entry in reversed(log) if "valid" in entry), 4),
        "exact": sum(a == b for a, b in zip(texts, references, strict=True)) / 10,
        "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
        "translated_tokens_per_second": round(sum(len(t.tokens) + 1 for t in ours) / translating),
        "threads": torch.get_num_threads(),
    }


def main(about: str | None = __doc__, models: dict[str, list[str]] = MODELS, steps: int = 2000) -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=models, action="append", help="One of the models; may be repeated.")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--pairs", type=int, default=40_000)
    parser.add_argument("--rate", type=float, help="A learning rate instead of each model's own.")
    parser.add_argument("--seed", type=int, default=1, help="Of the weights, of dropout and of the order of batches.")
    parser.add_argument("--out", type=Path, default=Path("runs/rivals"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.jsonl"
    for name in options.only or models:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measure(name, models[name], options)) + "\n")
    found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    keys = [key for key in found[0] if key != "model"]
    print(f"| model | {' | '.join(key.replace('_', ' ') for key in keys)} |\n|{'---|' * (len(keys) + 1)}")
    for entry in found:
        print(f"| {entry['model']} | {' | '.join(str(entry[key]) for key in keys)} |")


if __name__ == "__main__":
    main()
