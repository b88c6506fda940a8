"""Alignment error rate of what attention says, for every decoder layer and rule, on alignments made by hand.

    python benchmarks/alignment.py GOLD_DIR MODEL [--from de --to en] [--spaced]
    python benchmarks/alignment.py GOLD_DIR MODEL --reverse MODEL --sample dev.en dev.de

GOLD_DIR holds test.de, test.en and de-en.wa (`i-j`, de first, counted from 0), packed or not. The words are lower case
and set apart by spaces; the model gets them with punctuation joined to its word again and a capital first letter, as
text is written, unless --spaced is given. What Dragoman does by itself (the head that `find_alignment_head` finds,
without any gold) is stated for all sentences; rules that need gold are chosen on the first half and stated on the rest.

With --reverse, the alignments on which two models agree, as `dragoman distill --reverse` makes them; heads are chosen
on the sentence pairs of --sample. Words stay set apart by spaces, because links are between such words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
from corpus_arguments import corpus_parser, find_file

from dragoman.evaluation.alignment_error import AlignmentScore, GoldAlignment, read_gold, score_alignment
from dragoman.evaluation.test_sets import read_lines
from dragoman.inspect.attention.maps import AttentionWeights, record_attention
from dragoman.text.word_groups import is_punctuation
from dragoman.translation.alignment import link_words
from dragoman.translation.translator import Translator

CLOSING = re.compile(r"[.,;:!?)\]»%…]|'\w{1,2}")
OPENING = re.compile(r"[(\[«]")


@dataclass(frozen=True)
class Pair:
    """AttentionWeights `[layers, heads, steps, source tokens and end]`, and the gold word of each token."""

    cross: AttentionWeights
    source: list[int]
    target: list[int]
    marks: tuple[list[bool], list[bool]]  # which gold words are punctuation
    gold: GoldAlignment


def written(words: list[str], spaced: bool) -> str:
    if spaced:
        return " ".join(words)
    text = ""
    for i, word in enumerate(words):
        glued = not text or CLOSING.fullmatch(word) or OPENING.fullmatch(words[i - 1])
        text += word if glued else " " + word
    return text[:1].upper() + text[1:]


def word_of_tokens(tokens: tuple[str, ...], words: list[str]) -> list[int]:
    """The gold word in which each token begins, by counting bytes; a lone space belongs to the word after it."""
    ends = np.cumsum([len(word.encode()) for word in words])
    found, place = [], 0
    for token in tokens:
        found.append(int(np.searchsorted(ends, place, side="right")))
        place += 1 if re.fullmatch(r"<0x[0-9A-F]{2}>", token) else len(token.replace("▁", "").encode())
    assert place == ends[-1], (tokens, words)
    return found


def read_pairs(directory: Path, translator: Translator, languages: tuple[str, str], spaced: bool) -> list[Pair]:
    texts = [[line.split() for line in read_lines(find_file(directory, f"test.{language}"))] for language in languages]
    pairs = []
    for source, target, links in zip(*texts, gold_links(directory, languages), strict=True):
        looked = record_attention(translator, written(source, spaced), written(target, spaced))
        sides = [
            word_of_tokens(tokens, words)
            for tokens, words in ((looked.source.tokens[:-1], source), (looked.target_output.tokens[:-1], target))
        ]
        marks = [is_punctuation(word) for word in source], [is_punctuation(word) for word in target]
        pairs.append(Pair(looked.maps["cross"], sides[0], sides[1], marks, links))
    return pairs


@dataclass(frozen=True)
class Rule:
    """Heads of one layer (None: their mean), at the step that writes a token or the one that reads it."""

    layer: int
    head: int | None
    step: str

    def links(self, pair: Pair) -> list[tuple[int, int]]:
        heads = pair.cross[self.layer]
        weights = heads.mean(0) if self.head is None else heads[self.head]
        rows = weights[:-1] if self.step == "writes" else weights[1:]
        return link_words(rows, pair.source, pair.target, *pair.marks)

    def score(self, pairs: list[Pair]) -> AlignmentScore:
        return score_alignment([self.links(pair) for pair in pairs], [pair.gold for pair in pairs])

    def words(self) -> str:
        heads = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {heads}, step that {self.step} it"


def score_agreement(directory: Path, models: list[Translator], languages: tuple[str, str], sample: list[Path]) -> None:
    """Print the error rate of links on which two models agree."""
    from dragoman.distillation.bidirectional_alignment import BidirectionalAligner

    texts = [[written(line.split(), True) for line in read_lines(find_file(directory, f"test.{x}"))] for x in languages]
    pairs = [tuple(text[:1].upper() + text[1:] for text in pair) for pair in zip(*texts, strict=True)]
    aligner = BidirectionalAligner.choose(models[0], models[1], list(zip(*map(read_lines, sample), strict=True)))
    for name, heads in zip(("forward", "reverse"), aligner.heads, strict=True):
        print(f"{name}: {'; '.join(map(str, heads))}")
    links, gold = aligner.align(pairs), gold_links(directory, languages)  # type: ignore[arg-type]
    half = len(links) // 2
    for name, part in (("all", slice(None)), ("the first half", slice(half)), ("the rest", slice(half, None))):
        found = score_alignment(links[part], gold[part])
        figures = f"precision {100 * found.precision:.1f}, recall {100 * found.recall:.1f}"
        print(f"AER {100 * found.error_rate:.1f} on {name} ({figures})")


def gold_links(directory: Path, languages: tuple[str, str]) -> list[GoldAlignment]:
    gold = read_gold(find_file(directory, "de-en.wa"))
    if languages == ("de", "en"):
        return gold
    return [GoldAlignment(*(frozenset((b, a) for a, b in links) for links in (g.sure, g.possible))) for g in gold]


def row(rule: Rule, chosen: AlignmentScore, held_out: AlignmentScore) -> str:
    head = "mean" if rule.head is None else rule.head + 1
    figures = [chosen.error_rate, held_out.error_rate, held_out.precision, held_out.recall]
    cells = [rule.layer + 1, head, rule.step, *(f"{100 * x:.1f}" for x in figures)]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = corpus_parser(__doc__, languages=["de", "en"])
    parser.add_argument("--spaced", action="store_true")
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--sample", type=Path, nargs=2, metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    translator = Translator.load(options.model, device="cpu", engine="torch")
    if options.reverse is not None:
        models = [translator, Translator.load(options.reverse, device="cpu", engine="torch")]
        score_agreement(options.data, models, (options.source, options.target), options.sample)
        return
    pairs = read_pairs(options.data, translator, (options.source, options.target), options.spaced)
    half = len(pairs) // 2
    layers, heads = pairs[0].cross.shape[:2]
    rules = [
        Rule(layer, head, step)
        for layer in range(layers)
        for head in (None, *range(heads))
        for step in ("writes", "reads")
    ]
    scored = [(rule, rule.score(pairs[:half]), rule.score(pairs[half:])) for rule in rules]
    means = [entry for entry in scored if entry[0].head is None]
    versions = f"dragoman {version('dragoman')}, torch {version('torch')}"
    print(f"{date.today()}, {versions}, {options.source} to {options.target}")
    print(f"{len(pairs)} sentences: rules chosen on the first {half}, stated on the other {len(pairs) - half}\n")
    print("| layer | heads | step that ... it | AER first half | AER | precision | recall |")
    print("|---|---|---|---|---|---|---|")
    for entry in means:
        print(row(*entry))
    own = translator.alignment_attention
    print(f"\nby itself: {own}")
    for name, part in (("all", pairs), ("the first half", pairs[:half]), ("the rest", pairs[half:])):
        links = [link_words(own.select(pair.cross), pair.source, pair.target, *pair.marks) for pair in part]
        found = score_alignment(links, [pair.gold for pair in part])
        figures = f"precision {100 * found.precision:.1f}, recall {100 * found.recall:.1f}"
        print(f"  AER {100 * found.error_rate:.1f} on {name} ({figures})")
    for name, among in (("mean of the heads", means), ("any head", scored)):
        rule, chosen, held_out = min(among, key=lambda entry: entry[1].error_rate)
        print(f"\nchosen, {name}: {rule.words()}\n  AER {100 * held_out.error_rate:.1f} on the rest", end="")
        print(f" ({100 * chosen.error_rate:.1f} where it was chosen)")
    diagonal = [{(i * (max(p.source) + 1) // (max(p.target) + 1), i) for i in range(max(p.target) + 1)} for p in pairs]
    straight = score_alignment(diagonal[half:], [p.gold for p in pairs[half:]])
    print(f"\nfor comparison, the diagonal (no model): AER {100 * straight.error_rate:.1f} on the rest")


if __name__ == "__main__":
    main()
