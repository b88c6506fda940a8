"""How often exported models translate as ours does: greedy search in float32, in each toolkit.

    python benchmarks/exports.py MODEL FILE [--lines 500] [--formats ctranslate2,huggingface,onnx]

FILE has one source sentence per line, packed or not. Needs ctranslate2, transformers, onnx and onnxruntime; a format
whose packages are missing is left out. Seconds are of one pass with all the toolkit's defaults, so they only show the
order of magnitude.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from dragoman.conversion.exports.export import FORMATS, export
from dragoman.errors import MissingExtraError
from dragoman.evaluation.test_sets import read_lines
from dragoman.translation.translator import Translator

MAX_LENGTH = 256


def size(directory: Path) -> float:
    return sum(file.stat().st_size for file in directory.iterdir() if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--formats", default=",".join(FORMATS))
    args = parser.parse_args()
    texts = [text for text in read_lines(args.file) if text.strip()][: args.lines]
    translator = Translator.load(args.model, engine="torch", device="cpu", precision="float32")
    start = time.perf_counter()
    found = translator.translate(texts, beam=1, split="never", max_length=MAX_LENGTH, extra_length=MAX_LENGTH)
    ours, seconds = [each.text for each in found], time.perf_counter() - start
    rows = [("dragoman (torch)", len(texts), seconds, size(args.model))]
    for name in args.formats.split(","):
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "exported"
            try:
                export(args.model, name, out)
            except MissingExtraError as error:
                print(f"{name} is left out: {error}")
                continue
            start = time.perf_counter()
            theirs = FORMATS[name].translate(out, texts, MAX_LENGTH)
            seconds = time.perf_counter() - start
            differ = [i for i, text in enumerate(texts) if theirs[i] != ours[i]]
            for i in differ[:3]:
                print(f"{name}: {texts[i]!r}\n  ours   {ours[i]!r}\n  theirs {theirs[i]!r}")
            rows.append((name, len(texts) - len(differ), seconds, size(out)))
    print(f"\n{args.model.resolve().name}, {len(texts)} lines of {args.file.name}, {os.cpu_count()} cores\n")
    print("| engine | identical | seconds, with loading | MB |\n|---|---|---|---|")
    for name, same, seconds, megabytes in rows:
        print(f"| {name} | {same} of {len(texts)} | {seconds:.1f} | {megabytes:.1f} |")


if __name__ == "__main__":
    main()
