"""Whether placeholders survive translation: generated strings, each with one to three placeholders of all kinds.

    python benchmarks/placeholders.py MODEL [--strings 10000] [--beam 4] [--masks] [--seed 1]

MODEL reads English. Each string is built from a pattern, words and placeholders drawn at random; some have tags around
words, ICU plurals, and tags of templates that touch words. They are translated as a JSON file. The translation is
checked here without the code of `dragoman.documents`: every placeholder must occur exactly as often as in the source,
without a piece of a mask, or the string must be unchanged and reported. Any other outcome counts as damaged, and the
exit code is 1. With --masks, also how often the model copies each kind of mask in its first translation.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from datetime import date

from dragoman.documents.formats.strings.json import read
from dragoman.documents.reports.report import SegmentResult
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
MASK_PIECE = re.compile(r"(?<![A-ZÀ-Þ%])X\d*(?!\w)")
NAMES = ["name", "user", "count", "file_name", "n", "total", "date", "order.id", "x", "firstName", "items", "url"]


def draw_placeholder(draw: random.Random) -> str:
    name, number = draw.choice(NAMES), draw.randint(0, 9)
    braces = [f"{{{name}}}", f"{{{number}}}", f"{{{{{name}}}}}", f"{{{{ {name} }}}}", f"${{{name}}}", f"%{{{name}}}"]
    braces += [f"{{{number}:.1f}}", f"{{{name}, number}}"]
    printf = ["%s", "%d", f"%{number + 1}$s", f"%({name})s", f"%({name})d", "%.2f", "%@", f"<{number}>", f"<{number}/>"]
    addresses = [f"https://example.com/{name}?id={number}", f"www.{name.replace('_', '')}.org", f"{name}@example.com"]
    tags = [f"{{% if {name} %}}", f"<%= {name} %>", f"@{name.replace('.', '-')}", f":{name.replace('.', '_').lower()}:"]
    tags += [f"*|{name.upper()}|*", f"${name.upper().replace('.', '_')}$"]
    word = re.sub(r"\W|_", "", name).lower()
    addresses += [f"{word}.com", f"docs.{word}.org/a{number}", f"192.168.0.{number}"]
    files = [f"{word}.pdf", f"src/{word}.py", f"/etc/{word}/x{number}", f"C:\\Users\\{word}", f"v1.{number}.0"]
    code = [f"`{word}`", f"``{word}()``", f":ref:`{word}`", f"--{word}x", f"%{number + 1}", f"%L{number + 1}"]
    dates = ["%Y-%m-%d", "%B %d, %Y", "%H:%M", "yyyy-MM-dd", "dd/MM/yyyy", "HH:mm:ss"]
    return draw.choice([*braces, *printf, *addresses, *tags, *files, *code, *dates])


def draw_frame(draw: random.Random, text: str, noun: str) -> tuple[str, list[str]]:
    """A string with tags around a noun or the whole, or a part that an ICU plural or a template chooses."""
    name = draw.choice(["a", "vip", "user.new"])
    match draw.randrange(5):
        case 0 if re.search(rf"(?<!\S){noun}(?!\S)", text):
            return re.sub(rf"(?<!\S){noun}(?!\S)", f"<0>{noun}</0>", text, count=1), ["<0>", "</0>"]
        case 1:
            opening, closing = f"{{% if {name} %}}", "{% endif %}"
            return f"{opening}{text}{closing}", [opening, closing]
        case 2:
            tags = [f"{{{{#if {name}}}}}", "{{else}}", "{{/if}}"]
            return f"{text} {tags[0]}The {noun}:{tags[1]}No {noun}{tags[2]}", tags
        case 3:
            plural = [f"{{{name}, plural, one {{#", "} other {#", "}}"]
            return f"{plural[0]} {noun}{plural[1]} {noun}s{plural[2]} {text}", plural
    opening, closing = "<link>", "</link>"
    return f"{text} Open the {opening}{noun}{closing} now.", [opening, closing]


def make_strings(count: int, seed: int) -> list[tuple[str, list[str]]]:
    """Different strings with their placeholders; no placeholder of a string is part of another."""
    draw, found = random.Random(seed), dict[str, list[str]]()
    while len(found) < count:
        pattern = draw.choice(PATTERNS)
        chosen = [draw_placeholder(draw) for _ in range(pattern.count("{}"))]
        if any(a != b and a in b for a in chosen for b in chosen):
            continue
        noun = draw.choice(NOUNS)
        text, around = pattern.format(*chosen, noun=noun), list[str]()
        if draw.random() < 0.25:
            text, around = draw_frame(draw, text, noun)
        if not any(a != b and a in b for a in around for b in chosen):
            found.setdefault(text, [*chosen, *around])
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
    document = read(json.dumps([text for text, _ in strings]).encode(), "strings.json")
    report = translate_segments(document.segments, ModelTranslator(translator, beam=options.beam))
    seconds = time.perf_counter() - started
    targets = json.loads(document.write([result.target for result in report.results]))
    results = defaultdict[int, list[SegmentResult]](list)  # a string with an ICU plural has several
    for result in report.results:
        results[int(result.segment.key.partition("[")[0])].append(result)
    outcomes: Counter[str] = Counter()
    damaged = []
    for number, ((source, placeholders), target) in enumerate(zip(strings, targets, strict=True)):
        intact = all(target.count(one) == source.count(one) for one in [*placeholders, "#"])
        if not intact or len(MASK_PIECE.findall(target)) > len(MASK_PIECE.findall(source)):
            damaged.append((source, target))
            outcomes["damaged"] += 1
        elif any(result.problem is not None for result in results[number]):
            outcomes["source kept, in whole or in part, and reported"] += 1
        elif target == source:
            outcomes["the same as the source (nothing to translate, or copied)"] += 1
        else:
            retried = any(result.retried for result in results[number])
            outcomes["intact after a retry" if retried else "intact at the first try"] += 1
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
