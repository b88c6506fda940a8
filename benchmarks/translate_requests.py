"""What requests cost in the C engine: constraints and alignments beside plain search, scoring beside PyTorch.

    python benchmarks/translate_requests.py DATA MODEL [--split test_2016_flickr] [--from en --to de] [--lines 400]

DATA holds SPLIT.en and SPLIT.de (or other languages), packed or not; MODEL is a model directory. Required phrases are
drawn from the references, of those that plain search missed, and avoided words from the plain translations (terms.py).
All run in turns, on as many threads as there are processors (--threads), and each ratio is the median of the turns'.
With one thread, time is that of the processor, which others who use it do not stretch.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version

import torch
from corpus_arguments import corpus_parser, find_file
from terms import missed, wrong

from dragoman import Constraints, Translator
from dragoman.cpu import available_cores
from dragoman.evaluation.test_sets import read_lines


def seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    begun = clock()
    run()
    return clock() - begun


def main() -> None:
    parser = corpus_parser(__doc__, split="test_2016_flickr")
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=available_cores())
    options = parser.parse_args()
    sources, references = (
        read_lines(find_file(options.data, f"{options.split}.{language}"))[: options.lines]
        for language in (options.source, options.target)
    )
    torch.set_num_threads(options.threads)
    ours = Translator.load(options.model, device="cpu", engine="native", precision="int8", threads=options.threads)
    exact = Translator.load(options.model, device="cpu", engine="native", precision="float32", threads=options.threads)
    reference = Translator.load(options.model, device="cpu", engine="torch", threads=options.threads)
    pairs = list(zip(sources, references, strict=True))
    plain = ours.translate(sources, beam=options.beam)

    def require(most: int) -> list[Constraints]:
        draw = random.Random(1)
        return [Constraints.of(missed(r, one.text, most, draw)) for r, one in zip(references, plain, strict=True)]

    draw = random.Random(1)
    avoid = [Constraints.of((), wrong(r, one.text, draw)) for r, one in zip(references, plain, strict=True)]
    searches: dict[str, dict[str, object]] = {
        "no constraints": {},
        **{f"up to {n} required phrases a line": {"constraints": require(n)} for n in (1, 3, 5)},
        "an avoided word a line": {"constraints": avoid},
        "alignments": {"alignment": True},
        "alignments and attention": {"alignment": True, "attention": True},
    }

    def translate(settings: dict[str, object]) -> None:
        for one in ours.translate(sources, beam=options.beam, **settings):  # type: ignore[arg-type]
            _ = one.alignment  # which is computed when it is read

    work: dict[str, Callable[[], object]] = {name: partial(translate, settings) for name, settings in searches.items()}
    work["scoring, int8"] = lambda: ours.score(pairs)
    work["scoring, float32"] = lambda: exact.score(pairs)
    work["scoring, PyTorch"] = lambda: reference.score(pairs)
    for run in work.values():
        run()  # what is made once is made now
    clock = time.process_time if options.threads == 1 else time.perf_counter
    turns = [{name: seconds(run, clock) for name, run in work.items()} for _ in range(options.turns)]
    print(f"{date.today()}, dragoman {version('dragoman')}, {ours.running}, torch {version('torch')}")
    print(f"{len(sources)} lines of {options.split}.{options.source}-{options.target}, beam {options.beam}\n")
    print("| request | ms a line | times plain search |\n|---|---|---|")
    for name in searches:
        ms = 1000 * statistics.median(turn[name] for turn in turns) / len(sources)
        print(
            f"| {name} | {ms:.2f} | {statistics.median(turn[name] / turn['no constraints'] for turn in turns):.2f}x |"
        )
    print("\n| scoring | pairs a second | times PyTorch's |\n|---|---|---|")
    for name in (name for name in work if name not in searches):
        rate = len(pairs) / statistics.median(turn[name] for turn in turns)
        ratio = statistics.median(turn["scoring, PyTorch"] / turn[name] for turn in turns)
        print(f"| {name} | {rate:,.0f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
