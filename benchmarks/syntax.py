"""Positions from dependency syntax beside the paper's, where the words alone do not tell what is meant.

    python benchmarks/syntax.py            # both, some minutes; --seed 2 for another start

"The man sees the dog with the telescope": who has the telescope? The corpus is made by rule, with a tree for each
sentence; in its German, what belongs to the verb stands before the object, and what belongs to a noun after that noun.
Sentences have none, one or two such phrases, a third each (unseen ones without a phrase are rare). Both models have
the same text, tokenizer, batches and settings; one reads the trees. Prints the share of unseen sentences without a
mistake, by phrases, and the most to be expected of whoever has no trees.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rivals import COMMON

from dragoman.data.corpora.reader import read_trees_file
from dragoman.translation.translator import Translator

NOUNS = {
    **{"man": "Mann m", "woman": "Frau f", "child": "Kind n", "dog": "Hund m", "cat": "Katze f", "horse": "Pferd n"},
    **{"garden": "Garten m", "house": "Haus n", "tower": "Turm m", "bridge": "Brücke f", "boat": "Boot n"},
    **{"telescope": "Fernrohr n", "basket": "Korb m", "lamp": "Lampe f", "hat": "Hut m", "table": "Tisch m"},
}
VERBS = {"sees": "sieht", "paints": "malt", "finds": "findet", "films": "filmt", "draws": "zeichnet", "wants": "will"}
PLACES = {"with": "mit", "in": "in", "on": "auf", "near": "bei", "under": "unter", "behind": "hinter"}
ARTICLES = {"subject": {"m": "der", "f": "die", "n": "das"}, "object": {"m": "den", "f": "die", "n": "das"},
            "phrase": {"m": "dem", "f": "der", "n": "dem"}}  # fmt: skip
VERB, OBJECT = 3, 5  # the numbers of the verb and of the object's noun
# What phrases may hang on, the first and the second, without lines that cross; 8 is the first phrase's noun.
SHAPES: list[list[tuple[int, ...]]] = [
    [()],
    [(VERB,), (OBJECT,)],
    [(VERB, VERB), (VERB, 8), (OBJECT, VERB), (OBJECT, OBJECT), (OBJECT, 8)],
]
KINDS = {"the paper's": "sinusoidal", "syntax": "syntax"}


@dataclass(frozen=True)
class Made:
    """A sentence, its translation, its tree in CoNLL-U, and how many phrases it has."""

    source: str
    target: str
    tree: str
    phrases: int


def german(noun: str, case: str) -> str:
    word, gender = NOUNS[noun].split()
    return f"{ARTICLES[case][gender]} {word}"


def make(draw: random.Random) -> Made:
    phrases = draw.randrange(3)
    hang = draw.choice(SHAPES[phrases])
    subject, thing, *others = draw.sample(list(NOUNS), 2 + phrases)
    verb, places = draw.choice(list(VERBS)), [draw.choice(list(PLACES)) for _ in others]
    words = ["the", subject, verb, "the", thing]
    heads = [2, VERB, 0, OBJECT, VERB]
    for place, noun, head in zip(places, others, hang, strict=True):
        last = len(words) + 3
        words += [place, "the", noun]
        heads += [last, last, head]
    words.append(".")
    heads.append(VERB)

    def hanging(on: int) -> str:
        """The phrases that hang on a word, with what hangs on them."""
        found = ""
        for number, (place, noun, head) in enumerate(zip(places, others, hang, strict=True)):
            if head == on:
                found += f" {PLACES[place]} {german(noun, 'phrase')}{hanging(8 + 3 * number)}"
        return found

    target = f"{german(subject, 'subject')} {VERBS[verb]}{hanging(VERB)} {german(thing, 'object')}{hanging(OBJECT)}."
    rows = [f"{n}\t{w}\t_\t_\t_\t_\t{h}\t_\t_\t_\n" for n, (w, h) in enumerate(zip(words, heads, strict=True), 1)]
    return Made(" ".join(words[:-1]) + ".", target, "".join(rows) + "\n", phrases)


def corpora(sizes: dict[str, int], seed: int = 1) -> dict[str, list[Made]]:
    """Sentences that differ in their words from split to split."""
    draw, found, seen = random.Random(seed), {}, set[str]()
    for split, size in sizes.items():
        rows: list[Made] = []
        while len(rows) < size:
            made = make(draw)
            if split == "train" or made.source not in seen:
                rows.append(made)
        seen.update(made.source for made in rows)
        found[split] = rows
    return found


def most_without_trees() -> dict[int, float]:
    """For each number of phrases, the share that is right when every text gets its likeliest translation.

    Of shapes that are written alike, as the phrases of (verb, verb) and (verb, 8), all are right at once.
    """
    written = {(VERB, 8): (VERB, VERB)}
    counts = [Counter(written.get(shape, shape) for shape in shapes) for shapes in SHAPES]
    return {phrases: max(of.values()) / of.total() for phrases, of in enumerate(counts)}


def measure(name: str, rows: dict[str, list[Made]], files: Path, options: argparse.Namespace) -> None:
    out, steps = options.out / f"{KINDS[name]}-{options.seed}", options.steps
    command = [sys.executable, "-m", "dragoman", "train", "--device", "cpu", "--out", str(out)]
    for split, prefix in (("train", "--"), ("valid", "--valid-")):
        command += [f"{prefix}source", str(files / f"{split}.en"), f"{prefix}target", str(files / f"{split}.de")]
        command += [f"{prefix}source-trees", str(files / f"{split}.conllu")] if name == "syntax" else []
    changes = [
        *(*COMMON, "model.encoder_layers=2", "model.decoder_layers=2", f"model.positions={KINDS[name]}"),
        *("text.vocabulary_size=400", "data.drop_duplicates=false"),
        *(f"train.steps={steps}", f"train.warmup_steps={steps // 10}", "train.learning_rate=0.003"),
        *(f"train.save_every={steps}", f"train.evaluate_every={steps}"),
        *(f"train.seed={options.seed}", f"data.seed={options.seed}"),
    ]
    command += [word for change in changes for word in ("--set", change)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    translator = Translator.load(out, device="cpu", engine="torch", precision="float32")
    trees = read_trees_file(files / "test.conllu") if name == "syntax" else None
    texts = translator.translate([made.source for made in rows["test"]], beam=1, trees=trees)
    right, there = Counter[int](), Counter[int]()
    for made, translation in zip(rows["test"], texts, strict=True):
        there[made.phrases] += 1
        right[made.phrases] += translation.text == made.target
    shares = " | ".join(f"{100 * right[n] / there[n]:.1f}" for n in range(3))
    print(f"| {name} | {100 * right.total() / there.total():.1f} | {shares} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS, action="append", help="One of the two.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="Of the weights, of dropout and of the order of batches.")
    parser.add_argument("--out", type=Path, default=Path("runs/syntax"))
    options = parser.parse_args()
    files = options.out / "data"
    files.mkdir(parents=True, exist_ok=True)
    rows = corpora({"train": options.pairs, "valid": 500, "test": 1000})
    for split, made in rows.items():
        for end, text in (("en", "source"), ("de", "target")):
            (files / f"{split}.{end}").write_text("".join(f"{getattr(m, text)}\n" for m in made), encoding="utf-8")
        (files / f"{split}.conllu").write_text("".join(m.tree for m in made), encoding="utf-8")
    there = Counter(made.phrases for made in rows["test"])
    titles = (f"{name} ({there[n]})" for n, name in enumerate(("no phrase", "one", "two")))
    print(f"| positions | all ({there.total()}) | {' | '.join(titles)} |\n|---|---|---|---|---|")
    best = most_without_trees()
    whole = sum(best[n] * count for n, count in there.items()) / there.total()
    shares = " | ".join(f"{100 * share:.1f}" for share in (whole, *best.values()))
    print(f"| the most to be expected without trees | {shares} |")
    for name in options.only or KINDS:
        measure(name, rows, files, options)


if __name__ == "__main__":
    main()
