"""The corpora on which a student is fine-tuned: its own translations, sentence pairs and phrases.

Its own translations keep it as it is, sentence pairs show it translations that are less literal, and phrases teach it
words that stand alone. All but the phrases have word alignments by majority.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shipped_alignment import forced_alignments, format_links, majority_alignments, parse_links
from shipped_corpora import NEWS, fold, is_chosen, read_lines, write_lines

if TYPE_CHECKING:
    from shipped_models import Maker

OWN_SHARES = {"europarl": 0.03, "tatoeba": 0.25, "wmt": 1.0}  # of the sources that the student translates
PAIR_SHARES = {"europarl": 0.017, "tatoeba": 0.05, "wmt": 0.5}  # of the sentence pairs
WORDS = 60  # of the longest sentence
WEIGHTS = {"own": 1.0, "pairs": 1.0, "phrases": 2.0}
SETTINGS = (
    *("data.batch_tokens=4000", "train.learning_rate=0.0003", "train.warmup_steps=100", "train.schedule=cosine"),
    *("train.alignment_weight=0.5", "train.compile=false"),
)


def corpus_files(maker: Maker, name: str) -> list[Path]:
    """The files of a corpus: source, target and word alignments."""
    return [maker.out / f"{name}.{side}" for side in (maker.source, maker.target, "align")]


def tuning_options(maker: Maker) -> tuple[list[str], tuple[str, ...]]:
    """The options for the corpora, and the settings of the run."""
    found: list[str] = []
    for name, weight in WEIGHTS.items():
        source, target, alignment = map(str, corpus_files(maker, name))
        found += ["--source", source, "--target", target, "--alignment", alignment, "--weight", str(weight)]
    return found, SETTINGS


def write_tuning_corpora(maker: Maker) -> None:
    """Write the corpora, unless they exist."""
    own, pairs, phrases = (corpus_files(maker, name) for name in WEIGHTS)
    if pairs[2].exists():  # written last
        return
    write_lines(phrases[2], ("" for _ in read_lines(phrases[0])))  # no links are taught
    write_lines(own[0], own_sources(maker))
    table = own[1].with_suffix(".tsv")
    options = ("--beam", "4", "--precision", "int8", "--alignments", "-o", str(table))
    maker.run("tune", "translate", str(maker.untuned), str(own[0]), *options)
    rows = [line.rpartition("\t") for line in read_lines(table)]
    translated = [(source, row[0]) for source, row in zip(read_lines(own[0]), rows, strict=True)]
    given = [*sentence_pairs(maker)]
    links = [*(parse_links(row[2]) for row in rows), *forced_alignments(maker.untuned, given)]
    voted = [*map(format_links, majority_alignments([*translated, *given], links))]
    write_lines(own[1], (target for _, target in translated))
    write_lines(own[2], voted[: len(rows)])
    for side, path in enumerate(pairs[:2]):
        write_lines(path, (pair[side] for pair in given))
    write_lines(pairs[2], voted[len(rows) :])


def own_sources(maker: Maker) -> Iterator[str]:
    """Some of the sources of distillation: each once, none of a test set."""
    seen = maker.held_out()
    for name in maker.source_names():
        for line in read_lines(maker.file(name, maker.source)):
            mark = fold(line)
            chosen = is_chosen(f"{line}tune", share_of(name, OWN_SHARES)) and len(line.split()) <= WORDS
            if chosen and mark and mark not in seen:
                seen.add(mark)
                yield line


def sentence_pairs(maker: Maker) -> Iterator[tuple[str, str]]:
    """Some sentence pairs, without those of test sets."""
    excluded = maker.held_out()
    for name in ("europarl_en-de/train", "tatoeba_en-de/train", *(f"wmt_en-de/{test}" for test in NEWS)):
        sides = (read_lines(maker.file(name, code)) for code in (maker.source, maker.target))
        for pair in zip(*sides, strict=True):
            fits = all(0 < len(text.split()) <= WORDS for text in pair)
            if fits and is_chosen(f"real{pair[0]}", share_of(name, PAIR_SHARES)) and fold(pair[0]) not in excluded:
                yield pair


def share_of(name: str, shares: dict[str, float]) -> float:
    """The share of a corpus, by the beginning of its name."""
    return shares[name.partition("_")[0]]
