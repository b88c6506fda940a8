"""Whether placeholders survive translation: generated strings, each with one to three placeholders of all kinds.

    python benchmarks/placeholders.py MODEL [--strings 10000] [--beam 4] [--masks] [--seed 1]

MODEL reads English. Each string is built from a pattern, words and placeholders drawn at random. The translation of
`dragoman.documents` is checked here without its code: every placeholder must occur exactly as often as in the source,
or the string must be unchanged and reported. Any other outcome counts as damaged, and the exit code is 1. With --masks,
also how often the model copies each kind of mask in its first translation.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from datetime import date

from dragoman.documents.segment import Segment
from dragoman.documents.sentences import ModelTranslator
from dragoman.documents.translate import translate_segments
from dragoman.translation.translator import Translator

PATTERNS = [
    "Hello {}!", "Welcome back, {}.", "You have {} new messages.", "You have {} new messages from {}.",
    "The file {} could not be opened.", "Could not copy {} to {}.", "Please contact {} for more information.",
    "{} has sent you a {noun}.", "Do you want to delete {}?", "{} of {} {noun}s are selected.", "Error: {}",
    "The {noun} {} was changed by {} on {}.", "See {} for the {noun}.", "Press {} to open the {noun}.",
    "Your {noun} expires in {} days.", "We will send the {noun} to {} within {} hours.", "Save {} as {}",
    "The {noun} must be between {} and {}.", "{}: the {noun} is not available.", "Last change: {} ({})",
    "If you have a question about {}, write to {}.", "The {noun} of {} is larger than {}.", "Downloading {}...",
    "Thank you, {}, for your {noun}!", "No {noun} was found for {}. Try {} instead.", "Step {} of {}: choose a {noun}.",
    "This {noun} was written by {}, {} and {}.", "Open {}, then enter your {noun} and click {}.", "Not {}? Sign out.",
    "{} and {} other people like this {noun}.", "I would like to thank {} for the {noun}.", "Use {} or {}.",
    "The price of this {noun} is {} at {}.", "Read more about this {noun} at {}", "from {} to {}", "{} {noun}s",
]  # fmt: skip
NOUNS = [
    "file",
    "message",
    "report",
    "house",
    "question",
    "answer",
    "picture",
    "letter",
    "table",
    "page",
    "user",
    "word",
]
NAMES = ["name", "user", "count", "file_name", "n", "total", "date", "order.id", "x", "firstName", "items", "url"]


def draw_placeholder(draw: random.Random) -> str:
    name, number = draw.choice(NAMES), draw.randint(0, 9)
    braces = [f"{{{name}}}", f"{{{number}}}", f"{{{{{name}}}}}", f"{{{{ {name} }}}}", f"${{{name}}}", f"%{{{name}}}"]
    braces += [f"{{{number}:.1f}}", f"{{{name}, number}}"]
    printf = ["%s", "%d", f"%{number + 1}$s", f"%({name})s", f"%({name})d", "%.2f", "%@", f"<{number}>", f"<{number}/>"]
    addresses = [f"https://example.com/{name}?id={number}", f"www.{name.replace('_', '')}.org", f"{name}@example.com"]
    tags = [f"{{% if {name} %}}", f"<%= {name} %>", f"@{name.replace('.', '-')}", f":{name.replace('.', '_').lower()}:"]
    return draw.choice([*braces, *printf, *addresses, *tags])


def make_strings(count: int, seed: int) -> list[tuple[str, list[str]]]:
    """Different strings with their placeholders; no placeholder of a string is part of another."""
    draw, found = random.Random(seed), dict[str, list[str]]()
    while len(found) < count:
        pattern = draw.choice(PATTERNS)
        chosen = [draw_placeholder(draw) for _ in range(pattern.count("{}"))]
        if any(a != b and a in b for a in chosen for b in chosen):
            continue
        found.setdefault(pattern.format(*chosen, noun=draw.choice(NOUNS)), chosen)
    return list(found.items())


def compare_masks(translator: Translator, strings: list[tuple[str, list[str]]], beam: int) -> None:
    """How often the first translation has every mask once, for kinds of masks."""
    kinds = {
        "as they are": lambda i, text: text,
        "X1": lambda i, text: f"X{i + 1}",
        "XQ1": lambda i, text: f"XQ{i + 1}",
        "4831": lambda i, text: str(4831 + 1153 * i),
        "XKA": lambda i, text: f"XK{chr(65 + i)}",
        "<x1/>": lambda i, text: f"<x{i + 1}/>",
        "{1}": lambda i, text: f"{{{i + 1}}}",
        "[1]": lambda i, text: f"[{i + 1}]",
        "_1_": lambda i, text: f"_{i + 1}_",
        "U+E000": lambda i, text: chr(0xE000 + i),
    }
    print("\n| mask | every mask once |\n|---|---|")
    for name, make in kinds.items():
        masked = []
        for text, placeholders in strings:
            words = []
            for i, one in enumerate(dict.fromkeys(placeholders)):
                words.append(make(i, one))
                text = text.replace(one, words[-1])
            masked.append((text, words))
        results = translator.translate([text for text, _ in masked], beam=beam)
        kept = sum(
            all(result.text.count(word) == text.count(word) for word in words)
            for result, (text, words) in zip(results, masked, strict=True)
        )
        print(f"| {name} | {100 * kept / len(strings):.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--masks", action="store_true")
    options = parser.parse_args()
    translator = Translator.load(options.model, device="cpu")
    strings = make_strings(options.strings, options.seed)
    started = time.perf_counter()
    segments = [Segment(text, key=str(number)) for number, (text, _) in enumerate(strings)]
    report = translate_segments(segments, ModelTranslator(translator, beam=options.beam))
    seconds = time.perf_counter() - started
    outcomes: Counter[str] = Counter()
    damaged = []
    for (source, placeholders), result in zip(strings, report.results, strict=True):
        target = source if result.target is None else result.target.text
        intact = all(target.count(one) == source.count(one) for one in placeholders)
        if not intact:
            damaged.append((source, target))
            outcomes["damaged"] += 1
        elif result.problem is not None:
            outcomes["source kept, in whole or in part, and reported"] += 1
        elif result.target is None:
            outcomes["the same as the source (nothing to translate, or copied)"] += 1
        else:
            outcomes["intact after a retry" if result.retried else "intact at the first try"] += 1
    print(f"{date.today()}, {translator.running}, beam {options.beam}, {options.strings:,} strings, {seconds:.0f} s\n")
    print("| outcome | strings | share |\n|---|---|---|")
    for name, count in outcomes.most_common():
        print(f"| {name} | {count:,} | {100 * count / len(strings):.1f} % |")
    for source, target in damaged[:10]:
        print(f"damaged: {source!r} -> {target!r}")
    if options.masks:
        compare_masks(translator, strings[:1000], options.beam)
    sys.exit(1 if damaged else 0)


if __name__ == "__main__":
    main()
