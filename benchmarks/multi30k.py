"""Quality on little data: train on Multi30k with the default sizes, and score test2016 by sacreBLEU.

    python benchmarks/multi30k.py DATA_DIR --out runs/multi30k [options of dragoman train ...]

DATA_DIR holds train, val and test_2016_flickr as .en and .de, packed or not. Prints minutes and BLEU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

from dragoman.data.reading import Corpus, read
from dragoman.decode import Translator


def find(directory: Path, name: str) -> Path:
    for suffix in ("", ".xz", ".gz"):
        if (directory / (name + suffix)).exists():
            return directory / (name + suffix)
    sys.exit(f"{directory} has no {name}, packed or not")


def translate(model_directory: Path, sources: list[str], device: str) -> list[str]:
    translator = Translator.load(model_directory, device=device, engine="torch", precision="float32")
    return [translation.text for translation in translator.translate(sources, beam=1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/multi30k"))
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    options, more = parser.parse_known_args()
    files = {
        f"--{kind}{side}": str(find(options.data, f"{name}.{language}"))
        for kind, name in (("", "train"), ("valid-", "val"))
        for side, language in (("source", options.source), ("target", options.target))
    }
    begun = time.perf_counter()
    command = [sys.executable, "-m", "dragoman", "train", *(x for pair in files.items() for x in pair)]
    subprocess.run([*command, "--out", str(options.out), *more], check=True)
    minutes = (time.perf_counter() - begun) / 60
    test = Corpus(*(find(options.data, f"test_2016_flickr.{x}") for x in (options.source, options.target)))
    sources, references = map(
        list, zip(*((s, t) for c in read(test, 4096) for s, t in zip(*c, strict=True)), strict=True)
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    import sacrebleu

    bleu = sacrebleu.metrics.BLEU()
    score = bleu.corpus_score(translate(options.out, sources, device), [references])
    print(f"{minutes:.1f} minutes on {device}, {torch.get_num_threads()} threads; test2016, greedy: {score}")
    print(f"signature {bleu.get_signature()}")


if __name__ == "__main__":
    main()
