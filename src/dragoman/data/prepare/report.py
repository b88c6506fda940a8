"""The report of `prepare`: what each rule dropped, with examples, and the distribution of lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.data.prepared import SIDES, Prepared
from dragoman.values import plural

EIGHTHS = " ▏▎▍▌▋▊▉█"
MAX_EXAMPLE_CHARACTERS = 48  # characters of an example


def print_preparation(prepared: Prepared, console: Console) -> None:
    """Print the whole report."""
    report = prepared.report
    print_rules("Cleaning of the training pairs", report["read"], report["rules"], console)
    if "valid_rules" in report and any(rule["dropped"] for rule in report["valid_rules"].values()):
        print_rules("Cleaning of the validation pairs", report["valid_read"], report["valid_rules"], console)
    console.print(split_table(prepared))
    split = prepared.split()
    console.print(Text("\nLengths of the training sentences, in tokens", style="bold"))
    for line in histogram(split.source.lengths, split.target.lengths):
        console.print(Text(line), soft_wrap=True)


def print_rules(title: str, read: int, rules: dict[str, Any], console: Console) -> None:
    """Print the number of pairs dropped by each rule, then examples."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("rule", "dropped", "%", "why"):
        table.add_column(name, justify="right" if name in ("dropped", "%") else "left")
    for rule, entry in rules.items():
        table.add_row(rule, f"{entry['dropped']:,}", f"{100 * entry['dropped'] / max(read, 1):.2f}", entry["why"])
    dropped = sum(entry["dropped"] for entry in rules.values())
    table.add_section()
    table.add_row("all", f"{dropped:,}", f"{100 * dropped / max(read, 1):.2f}", f"of {plural(read, 'pair')} read")
    console.print(table)
    examples = [(rule, *pair) for rule, entry in rules.items() for pair in entry["examples"]]
    for rule, source, target in examples:
        # Text, not str: rich would parse markup in an example
        console.print(Text(f"  {rule:<9} {shorten(source)} ||| {shorten(target)}", style="dim"), soft_wrap=True)


def split_table(prepared: Prepared) -> Table:
    """A table of the number of tokens of each split: in total, and per pair, word and character."""
    table = Table(title="Prepared", title_justify="left", title_style="bold")
    for name in ("split", "pairs", "side", "tokens", "a pair", "a word", "a character"):
        table.add_column(name, justify="left" if name in ("split", "side") else "right")
    for name, split in prepared.manifest["splits"].items():
        for side in SIDES:
            counts = split[side]
            shares = [counts["tokens"] / max(n, 1) for n in (split["pairs"], counts["words"], counts["characters"])]
            first = (name, f"{split['pairs']:,}") if side == "source" else ("", "")
            table.add_row(
                *first, side, f"{counts['tokens']:,}", *(f"{s:.{d}f}" for s, d in zip(shares, (1, 2, 3), strict=True))
            )
    sizes = {t["name"]: t["vocabulary_size"] for t in prepared.manifest["tokenizers"].values()}
    table.caption = "vocabulary: " + ", ".join(f"{plural(size, 'token')}, {name}" for name, size in sizes.items())
    for name, split in prepared.manifest["splits"].items():
        if "to" in split:
            table.caption += f"\n{name}: " + ", ".join(
                f"{plural(n, 'pair')} into {code}" for code, n in split["to"].items()
            )
    table.caption_justify = "left"
    return table


def histogram(source: npt.NDArray[Any], target: npt.NDArray[Any], rows: int = 14, width: int = 32) -> list[str]:
    """Histograms of both sides as text, a row for each range of lengths; the last row takes all longer ones."""
    longest = int(max(source.max(initial=1), target.max(initial=1)))
    step = max(1, -(-int(np.quantile(np.concatenate([source, target]), 0.995)) // (rows - 1)))
    rows = min(rows, -(-longest // step))
    edges = [1 + step * row for row in range(rows)]
    counts = [np.bincount(np.clip((side - 1) // step, 0, rows - 1), minlength=rows) for side in (source, target)]
    maximum = max(int(c.max(initial=1)) for c in counts)
    lines = [f"{'':>9}  {'source':<{width}}  {'target':<{width}}"]
    for row, first in enumerate(edges):
        last = longest if row == rows - 1 else first + step - 1
        bars = [f"{bar(int(c[row]), maximum, width - 9)} {c[row]:,}".ljust(width) for c in counts]
        lines.append(f"{first:>4}-{last:<4}  {bars[0]}  {bars[1]}".rstrip())
    return lines


def bar(value: int, maximum: int, width: int) -> str:
    """A bar with a resolution of an eighth of a character; never empty for a value above 0."""
    eighths = max(round(8 * width * value / maximum), 1 if value else 0)
    return EIGHTHS[8] * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def shorten(text: str) -> str:
    """The beginning of an example, on one line."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= MAX_EXAMPLE_CHARACTERS else text[: MAX_EXAMPLE_CHARACTERS - 1] + "…"


def plot_lengths(prepared: Prepared, path: Path) -> bool:
    """Write the histograms as a PNG; False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    split = prepared.split()
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    longest = int(max(split.source.lengths.max(), split.target.lengths.max()))
    for side, lengths in zip(SIDES, (split.source.lengths, split.target.lengths), strict=True):
        left.hist(lengths, bins=min(longest, 64), range=(0, longest), histtype="step", label=side)
    left.set(xlabel="tokens in a sentence", ylabel="sentences", title=f"{len(split):,} training pairs")
    left.legend()
    joint = right.hist2d(split.source.lengths, split.target.lengths, bins=64, norm="log", cmap="viridis")
    right.set(xlabel="tokens of the source", ylabel="tokens of the target", title="both sides of each pair")
    figure.colorbar(joint[3], ax=right, label="pairs")
    figure.savefig(path, dpi=120)
    return True
