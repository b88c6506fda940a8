"""Translate lines of several sentences: BLEU by the number of sentences per line and the way of splitting.

    python benchmarks/sentences_per_line.py MODEL --source test.en --reference test.de [--lines 1000] [--json FILE]
    python benchmarks/sentences_per_line.py runs/demo/model --demo

Each line is k neighboring lines of the test set, joined with a space. "never" hands the line to the model as it is,
"sentences" translates each sentence alone, "auto" is the default: sentences joined as far as the training data had such
lines. With --demo the test set are sentences of the embedded corpus.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

import sacrebleu

from dragoman import Translator
from dragoman.demo.corpus import pairs

MODES = ("never", "sentences", "auto")


def demo_sentences(count: int) -> tuple[list[str], list[str]]:
    """Sentences of the embedded corpus that no model was trained on."""
    found = [pair for pair in pairs(6 * count, split="test") if pair[0].endswith((".", "?"))][:count]
    return [source for source, _ in found], [target for _, target in found]


def read_lines(path: Path, count: int) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, count)]


def joined(lines: list[str], k: int) -> list[str]:
    return [" ".join(lines[start : start + k]) for start in range(0, len(lines), k)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.demo:
        sources, references = demo_sentences(options.lines)
    else:
        sources, references = (read_lines(path, options.lines) for path in (options.source, options.reference))
    translator = Translator.load(options.model)
    print(f"{options.model}: trained on {translator.lengths}")
    figures: dict[str, dict[int, float]] = {mode: {} for mode in MODES}
    for k in (1, 2, 4, 8):
        texts, wanted = joined(sources, k), joined(references, k)
        for mode in MODES:
            found = [one.text for one in translator.stream(texts, split=mode, beam=options.beam)]
            figures[mode][k] = sacrebleu.corpus_bleu(found, [wanted]).score
    print(f"{'sentences a line':<18}" + "".join(f"{k:>8}" for k in (1, 2, 4, 8)))
    for mode, row in figures.items():
        print(f"{mode:<18}" + "".join(f"{row[k]:8.2f}" for k in row))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
