"""Small corpora to prepare, and what comes of them."""

from __future__ import annotations

import random
from dataclasses import replace

from dragoman.config import DataRecipe, Recipe, TextRecipe
from dragoman.data.corpora.reader import Corpus

RECIPE = Recipe(
    text=TextRecipe(vocabulary_size=320), data=DataRecipe(valid_pairs=7, max_tokens=60, batch_tokens=200, max_ratio=9.0)
)
WORDS = {
    **{"red": "rot", "green": "grün", "blue": "blau", "seven": "sieben", "eight": "acht", "house": "Haus"},
    **{"river": "Fluss", "stone": "Stein", "bread": "Brot", "water": "Wasser", "small": "klein", "large": "groß"},
    **{"goes": "geht", "comes": "kommt", "sees": "sieht"},
}
ENGLISH, GERMAN = list(WORDS), list(WORDS.values())


def some_pairs(n, seed=0):
    rng = random.Random(seed)
    pairs = []
    for i in range(n):
        words = [rng.randrange(len(ENGLISH)) for _ in range(rng.randint(2, 9))]
        pairs.append((" ".join(ENGLISH[w] for w in words) + f" {i}.", " ".join(GERMAN[w] for w in words) + f" {i}!"))
    return pairs


def put(folder, name, pairs, weight=1.0):
    for side, text in (("en", [s for s, _ in pairs]), ("de", [t for _, t in pairs])):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return Corpus(folder / f"{name}.en", folder / f"{name}.de", weight=weight)


def texts(prepared, name="train"):
    split, (source, target) = prepared.split(name), prepared.tokenizers
    return [(source.decode(split.source[i]), target.decode(split.target[i])) for i in range(len(split))]


def files(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def changed(**settings):
    return replace(RECIPE, data=replace(RECIPE.data, **settings))
