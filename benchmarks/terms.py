"""What it brings and costs to demand phrases: drawn from the references, of those that plain search missed.

    python benchmarks/terms.py DATA MODEL [--split test_2016_flickr] [--from en --to de] [--beam 4 ...] [--lines 300]

DATA holds SPLIT.en and SPLIT.de (or other languages), packed or not; MODEL is a model directory. For each line up to N
phrases of one to three words are drawn at random from its reference, none of which the plain translation has (Post and
Vilar, 2018, section 5), and demanded. Prints BLEU, the share of demanded phrases that are there, and the time, without
and with, for N of 1 to 5 and for each beam. All of it runs in the PyTorch engine, on one thread unless told otherwise.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import sacrebleu
import torch

from dragoman.decode import constraints
from dragoman.decode.demands import Demands, count, joins
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.evaluate.held_out import read_lines
from dragoman.text import normalise


def find(directory: Path, name: str) -> Path:
    for suffix in ("", ".xz", ".gz"):
        if (directory / (name + suffix)).exists():
            return directory / (name + suffix)
    raise SystemExit(f"{directory} has no {name}, packed or not")


def missed(reference: str, plain: str, most: int, draw: random.Random) -> list[str]:
    """Up to so many phrases of the reference that the plain translation has not, at places of their own."""
    words = [word.strip("".join(c for c in word if not joins(c))) for word in normalise(reference).split()]
    spans = [(i, n) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    draw.shuffle(spans)
    taken: list[tuple[int, int]] = []
    for i, n in spans:
        phrase = " ".join(words[i : i + n])
        whole = all(words[i : i + n]) and count(normalise(reference), [phrase])
        free = all(i + n <= j or i >= j + m for j, m in taken)
        if len(taken) < most and whole and free and not count(normalise(plain), [phrase]):
            taken.append((i, n))
    return [" ".join(words[i : i + n]) for i, n in sorted(taken)]


def timed(
    translator: Translator, sources: Sequence[str], demands: Sequence[Demands | None] | None, beam: int
) -> tuple[list[Translation], float]:
    begun = time.perf_counter()
    found = translator.translate(sources, beam=beam, demands=demands)
    return found, time.perf_counter() - begun


def present(found: Sequence[Translation], demands: Sequence[Demands]) -> float:
    """The share of demanded phrases that are in the translations."""
    told = [one.told(translation.text) for one, translation in zip(demands, found, strict=True)]
    met = sum(len(there) for there, _ in told)
    return met / max(1, met + sum(len(lacks) for _, lacks in told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--split", default="test_2016_flickr")
    parser.add_argument("--from", dest="source", default="en")
    parser.add_argument("--to", dest="target", default="de")
    parser.add_argument("--beam", type=int, action="append")
    parser.add_argument("--phrases", type=int, action="append")
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dear", type=float, default=constraints.DEAR, help="what a missing piece may cost")
    options = parser.parse_args()
    constraints.DEAR = options.dear  # type: ignore[misc]
    sources, references = (
        read_lines(find(options.data, f"{options.split}.{language}")) for language in (options.source, options.target)
    )
    if options.lines:
        sources, references = sources[: options.lines], references[: options.lines]
    translator = Translator.load(options.model, device="cpu", engine="torch", threads=options.threads)
    translator.translate(sources[:8], require=["a"], beam=2)  # what is made once is made now
    bleu = sacrebleu.metrics.BLEU()
    print(
        f"{date.today()}, dragoman {version('dragoman')}, torch {version('torch')}, {torch.get_num_threads()} threads"
    )
    print(f"{len(sources)} lines of {options.split}.{options.source}-{options.target}, --dear {options.dear:g}\n")
    print("| beam | phrases a line, at most | demanded | there without | there | unmet | BLEU without | BLEU | time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for beam in options.beam or [4, 8]:
        plain, seconds = timed(translator, sources, None, beam)
        before = bleu.corpus_score([one.text for one in plain], [references]).score
        for most in options.phrases or [1, 2, 3, 4, 5]:
            draw = random.Random(options.seed)
            demands = [
                Demands.of(missed(reference, one.text, most, draw))
                for reference, one in zip(references, plain, strict=True)
            ]
            found, longer = timed(translator, sources, demands, beam)
            after = bleu.corpus_score([one.text for one in found], [references]).score
            asked = sum(len(one.require) for one in demands)
            shares = f"{100 * present(plain, demands):.1f} % | {100 * present(found, demands):.1f} %"
            unmet = sum(len(one.unmet) for one in found)
            cells = [beam, most, asked, shares, unmet, f"{before:.1f}", f"{after:.1f}", f"{longer / seconds:.2f}x"]
            print(f"| {' | '.join(map(str, cells))} |")
    print(f"\nsignature {bleu.get_signature()}")


if __name__ == "__main__":
    main()
