"""Quality on little data: train on Multi30k with the default sizes, and score the test sets by sacreBLEU.

    python benchmarks/multi30k.py DATA_DIR --out runs/multi30k [options of dragoman train ...]

DATA_DIR holds train, val and test_2016_flickr as .en and .de, packed or not, and other test sets or not. Prints minutes
and, for each set, BLEU of greedy and of beam search, and in brackets that without capitals.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch
from corpus_arguments import find_file

from dragoman.data.corpora.reader import Corpus, read_pairs
from dragoman.translation.translator import Translator


def lines(path: Path) -> list[str]:
    return [line for chunk in read_pairs(Corpus(path, path), 4096) for line in chunk[0]]


def scores(translator: Translator, beams: list[int], directory: Path, name: str, source: str, target: str) -> str:
    """BLEU of one set by searches of some widths, with capitals and without."""
    import sacrebleu

    sources, references = (lines(find_file(directory, f"{name}.{language}")) for language in (source, target))
    found, metrics = [], [sacrebleu.metrics.BLEU(lowercase=lowercase) for lowercase in (False, True)]
    for beam in beams:
        texts = [translation.text for translation in translator.translate(sources, beam=beam)]
        plain, lowercased = (metric.corpus_score(texts, [references]).score for metric in metrics)
        found.append(f"beam {beam} {plain:.2f} ({lowercased:.2f})")
    return f"{name}: {', '.join(found)}; {metrics[0].get_signature()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/multi30k"))
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--scored", nargs="+", default=["val", "test_2016_flickr"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    options, more = parser.parse_known_args()
    files = {
        f"--{kind}{side}": str(find_file(options.data, f"{name}.{language}"))
        for kind, name in (("", "train"), ("valid-", "val"))
        for side, language in (("source", options.source), ("target", options.target))
    }
    begun = time.perf_counter()
    command = [sys.executable, "-m", "dragoman", "train", *(x for pair in files.items() for x in pair)]
    subprocess.run([*command, "--out", str(options.out), *more], check=True)
    minutes = (time.perf_counter() - begun) / 60
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{minutes:.1f} minutes on {device}, {torch.get_num_threads()} threads")
    translator = Translator.load(options.out, device=device, engine="torch", precision="float32")
    for name in options.scored:
        print(scores(translator, options.beams, options.data, name, options.source, options.target), flush=True)


if __name__ == "__main__":
    main()
