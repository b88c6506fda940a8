"""How many names and numbers that a model never saw come back as they were written.

    python benchmarks/copied_names.py DATA MODEL [--from en --to de] [--beam 4]

DATA holds wmt_en-de and tatoeba_en-de, as for benchmarks/shipped_models.py. Names and numbers that both sides of a pair
of newstest2013 or of Tatoeba's test set have are replaced by others (benchmarks/shipped_names.py), drawn like the names
of other sets. A name is kept if the translation has it, letter by letter.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain

from corpus_arguments import corpus_parser, find_file
from shipped_names import name_model, other_words, replace_words, shared_words

from dragoman.evaluation.test_sets import read_lines
from dragoman.translation.translator import Translator

NAMED_LIKE = ("wmt_en-de/newstest2011", "wmt_en-de/newstest2012", "tatoeba_en-de/dev", "europarl_en-de/dev")
TESTS = ("wmt_en-de/newstest2013", "tatoeba_en-de/test")
KINDS = ("name", "product", "acronym", "number")


def kind_of(word: str) -> str:
    """The kind of a word that has been drawn."""
    if word.isdigit():
        return "number"
    if any(map(str.isdigit, word)) or (any(map(str.isupper, word[1:])) and not word.isupper()):
        return "product"  # such as LibreTranslate, F-150, bfloat16
    return "acronym" if word.isupper() else "name"


def main() -> None:
    parser = corpus_parser(__doc__, languages=["de", "en"])
    parser.add_argument("--beam", type=int, default=4)
    options = parser.parse_args()

    def read(name: str) -> list[tuple[str, str]]:
        files = [find_file(options.data, f"{name}.{code}") for code in (options.source, options.target)]
        return list(zip(*map(read_lines, files), strict=True))

    model = name_model(chain.from_iterable(map(read, NAMED_LIKE)))
    translator, generator = Translator.load(options.model, device="cpu"), random.Random(1)
    print(f"{translator.running}, beam {options.beam}\n")
    print(f"| test set | sentences | all | {' | '.join(KINDS)} |\n|---|---|---|{'---|' * len(KINDS)}")
    for name in TESTS:
        drawn = [
            (pair[0], other_words(words, model, generator)) for pair in read(name) if (words := shared_words(pair))
        ]
        sources = [replace_words(source, others) for source, others in drawn]
        found, all_of = Counter[str](), Counter[str]()
        for (_, others), translation in zip(drawn, translator.translate(sources, beam=options.beam), strict=True):
            for word in others.values():
                kinds = "all", kind_of(word)
                all_of.update(kinds)
                found.update(kinds if word in translation.text else ())
        shares = [f"{100 * found[kind] / max(1, all_of[kind]):.1f} % of {all_of[kind]}" for kind in ("all", *KINDS)]
        print(f"| {name} | {len(drawn)} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
