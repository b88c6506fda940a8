"""What it brings and costs to demand phrases: drawn from the references, of those that plain search missed.

    python benchmarks/terms.py DATA MODEL [--split test_2016_flickr] [--from en --to de] [--beam 4 ...] [--lines 300]
        [--engine torch]

DATA holds SPLIT.en and SPLIT.de (or other languages), packed or not; MODEL is a model directory. For each line up to N
phrases of one to three words are drawn at random from its reference, none of which the plain translation has (Post and
Vilar, 2018), and demanded; then one word of each plain translation that its reference has not is avoided. Prints BLEU,
what is there and the processor's time, without and with, for N of 1 to 5 and for each beam, on one thread. The time per
token is that of all steps of the search, which may last longer than the translation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version

import sacrebleu
from corpus_arguments import corpus_parser, find_file

from dragoman.evaluation.test_sets import read_lines
from dragoman.search.constraints import beam as constrained_beam
from dragoman.search.constraints.phrases import Constraints, count_occurrences, is_word_character
from dragoman.text import normalize
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator

BLEU = sacrebleu.metrics.BLEU()


def missed(reference: str, plain: str, most: int, draw: random.Random) -> list[str]:
    """Up to so many phrases of the reference that the plain translation has not, at places of their own."""
    words = [word.strip("".join(c for c in word if not is_word_character(c))) for word in normalize(reference).split()]
    spans = [(i, n) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    draw.shuffle(spans)
    taken: list[tuple[int, int]] = []
    for i, n in spans:
        phrase = " ".join(words[i : i + n])
        whole = all(words[i : i + n]) and count_occurrences(normalize(reference), [phrase])
        free = all(i + n <= j or i >= j + m for j, m in taken)
        if len(taken) < most and whole and free and not count_occurrences(normalize(plain), [phrase]):
            taken.append((i, n))
    return [" ".join(words[i : i + n]) for i, n in sorted(taken)]


def wrong(reference: str, plain: str, draw: random.Random) -> list[str]:
    """A word of the plain translation that the reference has not."""
    words = [word for word in dict.fromkeys(normalize(plain).split()) if all(map(is_word_character, word))]
    found = [word for word in words if not count_occurrences(normalize(reference), [word])]
    return draw.sample(found, min(1, len(found)))


def timed(
    translator: Translator, sources: Sequence[str], constraints: Sequence[Constraints | None] | None, beam: int
) -> tuple[list[Translation], float]:
    begun = time.process_time()  # of the processor, which others who use it do not stretch
    found = translator.translate(sources, beam=beam, constraints=constraints)
    return found, time.process_time() - begun


def present(found: Sequence[Translation], constraints: Sequence[Constraints]) -> float:
    """The share of demanded phrases that are in the translations."""
    told = [one.met_and_unmet(translation.text) for one, translation in zip(constraints, found, strict=True)]
    met = sum(len(there) for there, _ in told)
    return met / max(1, met + sum(len(lacks) for _, lacks in told))


def required(
    translator: Translator, pairs: Sequence[tuple[str, str]], beam: int, numbers: list[int], seed: int
) -> None:
    """The rows of a beam for so many phrases that are demanded."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    plain, seconds = timed(translator, sources, None, beam)
    for most in numbers:
        draw = random.Random(seed)
        both = zip(references, plain, strict=True)
        constraints = [Constraints.of(missed(reference, one.text, most, draw)) for reference, one in both]
        found, longer = timed(translator, sources, constraints, beam)
        shares = f"{100 * present(plain, constraints):.1f} % | {100 * present(found, constraints):.1f} %"
        cells = [beam, most, sum(len(one.require) for one in constraints), shares, sum(len(one.unmet) for one in found)]
        print(row([*cells, *scores(references, plain, found), f"{longer / seconds:.2f}x"]))


def avoided(translator: Translator, pairs: Sequence[tuple[str, str]], beam: int, seed: int) -> None:
    """The row of a beam for a word a line that is avoided."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    plain, seconds = timed(translator, sources, None, beam)
    draw = random.Random(seed)
    constraints = [Constraints.of((), wrong(r, one.text, draw)) for r, one in zip(references, plain, strict=True)]
    found, longer = timed(translator, sources, constraints, beam)
    cells: list[object] = [beam, sum(len(one.avoid) for one in constraints)]
    for made in (plain, found):
        cells.append(
            sum(count_occurrences(normalize(t.text), d.avoid) > 0 for t, d in zip(made, constraints, strict=True))
        )
    print(row([*cells, *scores(references, plain, found), f"{longer / seconds:.2f}x"]))


def scores(references: list[str], *systems: Sequence[Translation]) -> list[str]:
    return [f"{BLEU.corpus_score([one.text for one in made], [references]).score:.1f}" for made in systems]


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = corpus_parser(__doc__, split="test_2016_flickr")
    parser.add_argument("--beam", type=int, action="append")
    parser.add_argument("--phrases", type=int, action="append")
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="native", choices=["native", "torch"])
    parser.add_argument(
        "--missing-token-cost",
        type=float,
        default=constrained_beam.MISSING_TOKEN_COST,
        help="log-probability that a missing token costs, in the torch engine",
    )
    options = parser.parse_args()
    constrained_beam.MISSING_TOKEN_COST = options.missing_token_cost  # type: ignore[misc]
    sources, references = (
        read_lines(find_file(options.data, f"{options.split}.{language}"))
        for language in (options.source, options.target)
    )
    if options.lines:
        sources, references = sources[: options.lines], references[: options.lines]
    translator = Translator.load(options.model, device="cpu", engine=options.engine, threads=1)
    translator.translate(sources[:8], require=["a"], beam=2)  # what is made once is made now
    print(
        f"{date.today()}, dragoman {version('dragoman')}, {translator.running_for(constraints=True)}, "
        f"torch {version('torch')}"
    )
    print(
        f"{len(sources)} lines of {options.split}.{options.source}-{options.target}, "
        f"--missing-token-cost {options.missing_token_cost:g}\n"
    )
    beams, pairs = options.beam or [4, 10], list(zip(sources, references, strict=True))
    print("| beam | phrases a line, at most | demanded | there without | there | unmet | BLEU without | BLEU | time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for beam in beams:
        required(translator, pairs, beam, options.phrases or [1, 2, 3, 4, 5], options.seed)
    print("\n| beam | avoided | there without | there | BLEU without | BLEU | time |")
    print("|---|---|---|---|---|---|---|")
    for beam in beams:
        avoided(translator, pairs, beam, options.seed)
    print(f"\nsignature {BLEU.get_signature()}")


if __name__ == "__main__":
    main()
