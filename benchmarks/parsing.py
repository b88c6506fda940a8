"""Constituency parsing as translation (section 6.3), on trees that are made of a dependency treebank.

    python benchmarks/parsing.py ud_english_ewt        # a folder with *train*, *dev* and *test*.conllu, packed or not
    python benchmarks/parsing.py ud_english_ewt --tags # the model writes tags in place of XX; --out for another place

No constituency treebank may be passed on, so these trees are made: every word with dependents makes a phrase of all
that hangs on it, directly or not, labeled by its part of speech (UPOS) with a P; the root makes one in any case. Where
such a phrase has a gap (as in trees that are not projective) it is left out. Tags are the treebank's XPOS, which are
the Penn Treebank's, so that punctuation is left out of the score as EVALB does. These trees are flatter than the Penn
Treebank's and have other labels: the figures say whether the way from trees to scores works, and are not to be
compared with those of the paper. Prints the labeled bracketing of the dev set, of the model and of two that know
nothing: all words under one phrase, and every word hung on the one before it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.evaluation.bracketing import score_brackets
from dragoman.text.trees.constituency import Bracketing, Phrase
from dragoman.text.trees.linearization import bracket_line, parse_bracket_line
from dragoman.translation.translator import Translator

SETTINGS = [
    *(
        "model.preset=tiny",
        "model.encoder_layers=2",
        "model.decoder_layers=2",
        "model.tie=target",
        "model.dropout=0.1",
        "text.shared=false",
        "text.vocabulary_size=4000",
    ),
    *("data.max_tokens=200", "data.max_characters=3000", "data.max_ratio=100", "data.min_script=0"),
    *("data.drop_duplicates=false", "train.precision=float32", "train.clip=1.0"),
    *("train.schedule=cosine", "train.log_every=50", "train.average=1"),
]


def constituents(heads: list[int], labels: list[str]) -> tuple[Phrase, ...]:
    """The phrases of a dependency tree; heads are numbers from 1, 0 for the root."""
    below: list[set[int]] = [{word} for word in range(len(heads))]
    for word in range(len(heads)):
        above = word
        while heads[above]:
            above = heads[above] - 1
            below[above].add(word)
    found = []
    for word, members in enumerate(below):
        first, end = min(members), max(members) + 1
        if (len(members) > 1 or not heads[word]) and end - first == len(members):
            found.append(Phrase(f"{labels[word]}P", first, end))
    return tuple(sorted(found, key=lambda phrase: (phrase.first, -phrase.end)))


def sentences(path: Path, longest: int) -> Iterator[Bracketing]:
    """The trees of a CoNLL-U file, those of more than `longest` words left out."""
    rows: list[list[str]] = []
    for line in [*(line for block in read_line_blocks(path) for line in block), ""]:
        cells = line.split("\t")
        if cells[0].isdecimal():
            rows.append(cells)
        elif not line and rows:
            words = [row[1].replace(" ", "_") for row in rows]
            if len(rows) <= longest:
                phrases = constituents([int(row[6]) for row in rows], [row[3] for row in rows])
                yield Bracketing(tuple(words), tuple(row[4] for row in rows), phrases)
            rows = []


def report(name: str, guesses: list[Bracketing], gold: list[Bracketing]) -> None:
    found = score_brackets(zip(guesses, gold, strict=True))
    figures = (found.precision, found.recall, found.f1, found.exact_share)
    print(f"| {name} | {' | '.join(f'{100 * figure:.1f}' for figure in figures)} |", flush=True)


def chain(tree: Bracketing, label: str) -> Bracketing:
    """Every word hung on the one before it, all with one label."""
    n = len(tree.words)
    return Bracketing(tree.words, tree.tags, tuple(Phrase(label, i, n) for i in range(max(1, n - 1))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="A folder of CoNLL-U files.")
    parser.add_argument("--steps", type=int, default=3500)
    parser.add_argument("--batch-tokens", type=int, default=1500)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--tags", action="store_true", help="Have the model write tags in place of XX.")
    parser.add_argument("--longest", type=int, default=40, help="Words; longer sentences are left out of all sets.")
    parser.add_argument("--split", choices=("dev", "test"), default="dev", help="What to score.")
    parser.add_argument("--set", action="append", default=[], dest="changes", help="A setting of the recipe.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/parsing"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sets = {}
    command = [sys.executable, "-m", "dragoman", "train", "--device", "cpu", "--out", str(options.out / "model")]
    for split in ("train", "dev", "test"):
        (path,) = sorted(options.treebank.glob(f"*{split}*.conllu*"))
        sets[split] = list(sentences(path, options.longest))
        sides = {
            "source": [" ".join(tree.words) for tree in sets[split]],
            "target": [bracket_line(tree, options.tags) for tree in sets[split]],
        }
        for side, texts in sides.items():
            place = options.out / f"{split}.{side}"
            place.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            prefix = {"train": "--", "dev": "--valid-"}.get(split)
            command += [f"{prefix}{side}", str(place)] if prefix else []
    changes = [
        *(*SETTINGS, f"train.steps={options.steps}", f"train.warmup_steps={options.steps // 10}"),
        *("train.learning_rate=0.003", f"data.batch_tokens={options.batch_tokens}"),
        *(f"train.save_every={options.steps}", f"train.evaluate_every={options.steps}"),
        *(f"train.seed={options.seed}", f"data.seed={options.seed}"),
        *options.changes,
    ]
    begun = time.perf_counter()
    trained = [*command, *(word for change in changes for word in ("--set", change))]
    subprocess.run(trained, check=True, stdout=subprocess.DEVNULL)
    between = time.perf_counter()
    gold = sets[options.split]
    translator = Translator.load(options.out / "model", device="cpu")
    asked = {"beam": options.beam, "length_penalty": 0.3, "extra_length": 300, "split": "never"}
    written = translator.translate([" ".join(tree.words) for tree in gold], **asked)
    ended = time.perf_counter()
    laid = [parse_bracket_line(line.text, tree.words) for line, tree in zip(written, gold, strict=True)]
    common, _ = Counter(tree.phrases[0].label for tree in sets["train"]).most_common(1)[0]
    print(
        f"{len(sets['train']):,} sentences to learn from; {options.split}: {len(gold):,} of at most {options.longest}"
    )
    print("| trees | precision | recall | F1 | exact |\n|---|---|---|---|---|")
    flat = [Bracketing(tree.words, tree.tags, (Phrase(common, 0, len(tree.words)),)) for tree in gold]
    report("all words under one phrase", flat, gold)
    report("each word on the one before", [chain(tree, common) for tree in gold], gold)
    report("the model", [one.tree for one in laid], gold)
    kinds: Counter[str] = Counter()
    for one in laid:
        kinds.update(one.repairs)
    mended = sum(bool(one.repairs) for one in laid)
    print(f"mended: {mended} of {len(laid)} lines ({', '.join(f'{n} {kind}' for kind, n in kinds.items()) or 'none'})")
    print(f"trained in {between - begun:.0f} s, wrote in {ended - between:.0f} s")


if __name__ == "__main__":
    main()
