"""The report of benchmarks/tables.py: Markdown tables of all measured rows, and pictures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.files import write_output
from dragoman.inspect.pictures import load_pyplot, save_figure

SEEDS = ("base", "base-2", "base-3")
PAPER = {  # perplexity and BLEU on newstest2013: Table 3
    "base": (4.92, 25.8),
    "A1": (5.29, 24.9),
    "A2": (5.00, 25.5),
    "A3": (4.91, 25.8),
    "A4": (5.01, 25.4),
    "B1": (5.16, 25.1),
    "B2": (5.01, 25.4),
    "C1": (6.11, 23.7),
    "C2": (5.19, 25.3),
    "C3": (4.88, 25.5),
    "C4": (5.75, 24.5),
    "C5": (4.66, 26.0),
    "C6": (5.12, 25.4),
    "C7": (4.75, 26.2),
    "D1": (5.77, 24.6),
    "D2": (4.95, 25.5),
    "D3": (4.67, 25.3),
    "D4": (5.47, 25.7),
    "E": (4.92, 25.7),
}
NEWS = ("newstest2013", "newstest2014")
HEADER = "| row | million parameters | PPL 2013 | Δ PPL | paper | BLEU 2013 | Δ BLEU | paper | PPL 2014 | BLEU 2014 |"
Measured = Mapping[str, dict[str, Any]]


def mean_and_spread(values: Sequence[float]) -> str:
    """The mean, and half the distance between the least and the greatest, if there are several."""
    spread = f" ± {(max(values) - min(values)) / 2:.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def compared_row(name: str, runs: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> str:
    """A row beside base: ours and, where the paper has the row, its differences."""
    cells = [name, f"{runs[0]['parameters'] / 1e6:.1f}"]
    for test in NEWS:
        for column, figure in enumerate(("perplexity", "bleu")):
            values = [run[test][figure] for run in runs]
            cells.append(mean_and_spread(values))
            if test == NEWS[0]:
                ours = statistics.mean(values) - statistics.mean(run[test][figure] for run in base)
                paper = f"{PAPER[name][column] - PAPER['base'][column]:+.2f}" if name in PAPER else ""
                cells += [f"{ours:+.2f}", paper]
    return f"| {' | '.join(cells)} |"


def base_spread(base: Sequence[dict[str, Any]]) -> float:
    """The distance between the seeds of base, in BLEU."""
    values = [run[NEWS[0]]["bleu"] for run in base]
    return max(values) - min(values)


def table3_lines(tables: Mapping[str, str], found: Measured) -> list[str]:
    """Table 3, and our variations in the same frame."""
    base = [found[name] for name in SEEDS if name in found]
    lines = [
        *("## Table 3 on Europarl English-German", ""),
        f"{base[0]['steps']:,} steps of 25,000 tokens on one H200 in bfloat16, no averaging. `base` is the mean of",
        f"{len(base)} seeds, with half the distance between the least and the greatest. The columns *paper* are the",
        "paper's differences from base, on newstest2013.",
        *("", HEADER, "|---|---|---|---|---|---|---|---|---|---|", compared_row("base", base, base)),
    ]
    lines += [compared_row(name, [found[name]], base) for name in PAPER if name in found and name != "base"]
    lines += [
        "",
        f"The seeds of base differ by up to {base_spread(base):.2f} BLEU: smaller differences mean nothing here.",
    ]
    ours = [name for name, table in tables.items() if table == "variations" and name in found]
    if ours:
        lines += ["", "## Variations in the same frame", "", HEADER, "|---|---|---|---|---|---|---|---|---|---|"]
        lines += [compared_row("base", base, base), *(compared_row(name, [found[name]], base) for name in ours)]
    if sum(name in found for name in PAPER) > 1:
        lines += ["", "![differences from base, ours and the paper's](tables/differences.png)"]
    return lines


def cost_lines(names: Sequence[str], found: Measured) -> list[str]:
    """Table 2's form: quality and training cost."""
    lines = [
        *("", "## Quality against training cost", ""),
        "The form of Table 2. The rivals have about as many weights as base, and train for as many steps as",
        "`cost-base`; padding makes their tokens, and so their FLOPs, differ a little.",
        *("", "| row | million parameters | steps | training FLOPs | BLEU 2013 | BLEU 2014 | minutes |"),
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        row = found[name]
        cells = [name, f"{row['parameters'] / 1e6:.1f}", f"{row['steps']:,}", f"{row['training_flops']:.2g}"]
        cells += [*(f"{row[test]['bleu']:.2f}" for test in NEWS), f"{row['seconds'] / 60:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", "![BLEU against training FLOPs](tables/cost.png)"]


def french_lines(names: Sequence[str], found: Measured) -> list[str]:
    """English to French."""
    lines = [
        *("", "## English to French", ""),
        "Trained on 192,000 pairs of Tatoeba and Multi30k, which are short and everyday; the test sets are news",
        "and Tatoeba.",
        *("", "| row | million parameters | BLEU 2013 | BLEU 2014 | BLEU Tatoeba |", "|---|---|---|---|---|"),
    ]
    for name in names:
        row = found[name]
        cells = [name, f"{row['parameters'] / 1e6:.1f}"]
        cells += [f"{row[test]['bleu']:.2f}" for test in (*NEWS, "tatoeba")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw_differences(found: Measured, path: Path) -> None:
    """BLEU of each row of Table 3 less that of base, ours beside the paper's, with the noise of base."""
    base = [found[name] for name in SEEDS if name in found]
    names = [name for name in PAPER if name in found and name != "base"]
    mean = statistics.mean(run[NEWS[0]]["bleu"] for run in base)
    plt = load_pyplot()
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    places = range(len(names))
    axes.axhspan(-base_spread(base) / 2, base_spread(base) / 2, color="0.85", label="seeds of base")
    ours = [found[name][NEWS[0]]["bleu"] - mean for name in names]
    axes.bar([x - 0.2 for x in places], ours, 0.4, label="ours, Europarl, 10,000 steps")
    paper = [PAPER[name][1] - PAPER["base"][1] for name in names]
    axes.bar([x + 0.2 for x in places], paper, 0.4, label="the paper's")
    axes.set_xticks(list(places), names)
    axes.set_ylabel("BLEU less base, newstest2013")
    axes.legend(frameon=False)
    save_figure(figure, path)


def draw_costs(names: Sequence[str], found: Measured, path: Path) -> None:
    """Validation BLEU against training FLOPs, a line for each row."""
    plt = load_pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in names:
        row = found[name]
        costs = [row["training_flops"] * entry["step"] / row["steps"] for entry in row["validation"]]
        axes.plot(costs, [entry["bleu"] for entry in row["validation"]], marker=".", label=name)
    axes.set_xscale("log")
    axes.set_xlabel("training FLOPs")
    axes.set_ylabel("BLEU, newstest2013, greedy")
    axes.legend(frameon=False)
    save_figure(figure, path)


def report(tables: Mapping[str, str], results: Path, out: Path) -> None:
    """Write the tables of all rows that were measured; `tables` has the table of each row."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    base = next(found[name] for name in SEEDS if name in found)
    costs = [name for name, table in tables.items() if table == "2" and name in found]
    french = [name for name, table in tables.items() if table == "en-fr" and name in found]
    lines = [
        *("# The paper's tables with our results", "", "    python benchmarks/tables.py report", ""),
        f"Beam 4, length penalty 0.6, sacreBLEU `{base['signature']}`. Perplexity is per token.",
        *("", *table3_lines(tables, found)),
    ]
    if sum(name in found for name in PAPER) > 1:
        draw_differences(found, results / "differences.png")
    if costs:
        lines += cost_lines(costs, found)
        draw_costs(costs, found, results / "cost.png")
    if french:
        lines += french_lines(french, found)
    missing = [name for name in tables if name not in found]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    write_output(out, "\n".join(lines) + "\n")
    print("\n".join(lines))
