"""Time and memory of a large translation memory: index a generated TMX once, then look sentences up.

    python benchmarks/translation_memory.py [--megabytes 500] [--lookups 1000]

The TMX has random sentences of 4 to 25 words from a vocabulary in which rank r has the frequency 1/r. Half of the
sentences that are looked up are known, and the others have one word changed.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from dragoman.documents.memory.lookup import Memory

WORDS = 20_000
KEPT = 50  # one sentence in so many is remembered, to be looked up


def sentences(seed: int = 1) -> Iterator[str]:
    """Random sentences."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(2, 12))) for _ in range(WORDS)]
    weights = [*accumulate(1 / rank for rank in range(1, WORDS + 1))]
    while True:
        yield " ".join(generator.choices(words, cum_weights=weights, k=generator.randint(4, 25)))


def write_tmx(path: Path, size: int) -> tuple[int, list[str]]:
    """Write a TMX of about `size` bytes; return the number of its pairs, and some of its sentences."""
    kept, number, written = [], 0, 0
    with path.open("w") as file:
        file.write('<tmx version="1.4"><header srclang="en"/><body>\n')
        for number, text in enumerate(sentences(), 1):
            target = text[::-1]
            variants = (
                f'<tuv xml:lang="{code}"><seg>{one}</seg></tuv>' for code, one in (("en", text), ("de", target))
            )
            written += file.write(f"<tu>{''.join(variants)}</tu>\n")
            if number % KEPT == 0:
                kept.append(text)
            if written >= size:
                break
        file.write("</body></tmx>\n")
    return number, kept


def peak() -> float:
    """The peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--lookups", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.tmx"
        number, kept = write_tmx(path, options.megabytes << 20)
        generator = random.Random(2)
        known = generator.sample(kept, min(len(kept), options.lookups))
        changed = [text.replace(generator.choice(text.split()), "xyzzy", 1) for text in known[::2]]
        memory, before, started = Memory([path], "en", "de"), peak(), time.process_time()
        first = memory.match(known[:1])
        print(
            f"{number:,} pairs, {path.stat().st_size / 1e6:,.0f} MB: indexed in {time.process_time() - started:.1f} s"
        )
        started = time.process_time()
        found = memory.match([*known[1::2], *changed])
        seconds = time.process_time() - started
        exact = sum(one.score == 100 for one in (*first.values(), *found.values()))
        each = 1000 * seconds / max(1, len(known))
        print(f"{each:.1f} ms per sentence: {exact} exact, {len(found) + 1 - exact} similar")
        print(f"peak memory: {before:,.0f} MiB before, {peak():,.0f} MiB after")


if __name__ == "__main__":
    main()
