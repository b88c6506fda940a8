"""Is a translation the same whatever else is in the batch? In shuffled batches of 1, 7 and 64; and what that costs.

    python tests/torture/batch_invariance.py MODEL [--texts FILE] [--sentences 1000] [--beam 4]

Without a file the texts are those of the embedded corpus, which the demo's model knows.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from dragoman import Translator
from dragoman.errors import SearchError
from dragoman.translation.result import Translation


def translate(translator: Translator, texts: list[str], batch: int, **settings: object) -> list[Translation]:
    """In shuffled order, and back in the order of the texts."""
    mixed = random.Random(batch).sample(range(len(texts)), len(texts))
    found = translator.translate([texts[i] for i in mixed], batch=batch, **settings)
    in_order = dict(zip(mixed, found, strict=True))
    return [in_order[i] for i in range(len(texts))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.texts:
        texts = options.texts.read_text(encoding="utf-8").split("\n")[: options.sentences]
    else:
        from dragoman.demo.corpus import pairs

        texts = [source for source, _ in pairs(options.sentences, split="test")]
    print(f"{len(texts)} sentences, beam {options.beam}, {options.device}, {options.threads} threads")
    ways = [("native", {}), ("ctranslate2", {}), ("cuda", {}), ("torch", {}), ("torch", {"reproducible": True})]
    for engine, promise in ways:
        try:
            translator = Translator.load(options.model, engine=engine, device=options.device, threads=options.threads)
        except SearchError:  # not for this device
            continue
        if translator.engines.get(engine) is None:
            continue
        settings = {"beam": options.beam, **promise}
        first: list[Translation] = []
        for batch in (1, 7, 64):
            translator.translate(texts[:8], batch=batch, **settings)
            begun = time.perf_counter()
            found = translate(translator, texts, batch, **settings)
            seconds = time.perf_counter() - begun
            first = first or found
            same_text = sum(a.text == b.text for a, b in zip(first, found, strict=True))
            same_bits = sum(a == b for a, b in zip(first, found, strict=True))
            name = engine + (" reproducible" if promise else "")
            print(
                f"{name:20} batch {batch:3}: {seconds:6.2f} s, text as at batch 1: {same_text}, all bits: {same_bits}"
            )


if __name__ == "__main__":
    main()
