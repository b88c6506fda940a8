"""The rows of the paper's Table 3 on Europarl English-German: perplexity and BLEU on newstest2013 and newstest2014.

    python benchmarks/tables.py train base base-2 A1 --data DATA --out runs/tables     # one row after the other
    python benchmarks/tables.py train C1 --data DATA --out runs/tables                 # any row, at any time
    python benchmarks/tables.py report                                                 # the table of all results

DATA has europarl_en-de and wmt_en-de, with files such as train.en (packed or not) and newstest2014.de.xz. A row is a
recipe of recipes/table3, shortened to --steps; base-2 and base-3 are base with other seeds. The data are prepared once.
Run the command again to resume: a finished row is skipped, a stopped one continues at its last checkpoint. Each row
leaves ROW.json and its card in benchmarks/results/tables, which `report` collects in benchmarks/results/tables.md.

The settings of all rows: the recipe's, with --steps steps (10,000), packed batches, a compiled step and bfloat16. No
averaging: the last weights are scored. Beam 4, length penalty 0.6.
Perplexity is per token, EOS included. --set changes all rows, to try the script on a small machine.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from corpus_arguments import find_file

import dragoman
from dragoman import Translator

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SEEDS = {"base": 1, "base-2": 2, "base-3": 3}
PAPER = {  # perplexity and BLEU on newstest2013, millions of parameters: Table 3
    "base": (4.92, 25.8, 65),
    "A1": (5.29, 24.9, None),
    "A2": (5.00, 25.5, None),
    "A3": (4.91, 25.8, None),
    "A4": (5.01, 25.4, None),
    "B1": (5.16, 25.1, 58),
    "B2": (5.01, 25.4, 60),
    "C1": (6.11, 23.7, 36),
    "C2": (5.19, 25.3, 50),
    "C3": (4.88, 25.5, 80),
    "C4": (5.75, 24.5, 28),
    "C5": (4.66, 26.0, 168),
    "C6": (5.12, 25.4, 53),
    "C7": (4.75, 26.2, 90),
    "D1": (5.77, 24.6, None),
    "D2": (4.95, 25.5, None),
    "D3": (4.67, 25.3, None),
    "D4": (5.47, 25.7, None),
    "E": (4.92, 25.7, None),
}
TEST_SETS = ("newstest2013", "newstest2014")
Row = dict[str, Any]


def recipe_of(row: str) -> Path:
    """The recipe of a row; the rows of other seeds are base."""
    return ROOT / "recipes" / ("base.toml" if row in SEEDS else f"table3/{row}.toml")


def read_test_set(data: Path, name: str) -> tuple[list[str], list[str]]:
    """The sentences of a test set, and their translations."""
    sides = []
    for language in ("en", "de"):
        with lzma.open(data / "wmt_en-de" / f"{name}.{language}.xz", "rt", encoding="utf-8", newline="\n") as file:
            sides.append(file.read().removesuffix("\n").split("\n"))
    return sides[0], sides[1]


def train_row(row: str, data: Path, out: Path, steps: int, settings: list[str]) -> dragoman.TrainingResult:
    """Train a row, or return the finished one. The first row prepares the data, and the others link to its files."""
    seed = SEEDS.get(row, 1)
    changes = [
        *("data.layout=packed", "train.compile=true", "train.average=1", "train.keep=2"),
        *(f"train.steps={steps}", f"train.save_every={steps // 4}", f"train.evaluate_every={steps}"),
        *(f"train.seed={seed}", f"data.seed={seed}"),
        *settings,
    ]
    prepared = Path("training") / "prepared"
    others = [each / prepared for each in sorted(out.glob("*")) if (each / prepared).is_dir()]
    if others and not (out / row / prepared).exists():
        (out / row / "training").mkdir(parents=True, exist_ok=True)
        shutil.copytree(others[0], out / row / prepared, copy_function=lambda a, b: Path(b).hardlink_to(a))
    return dragoman.train(
        source=find_file(data / "europarl_en-de", "train.en"),
        target=find_file(data / "europarl_en-de", "train.de"),
        valid=(data / "wmt_en-de" / "newstest2013.en.xz", data / "wmt_en-de" / "newstest2013.de.xz"),
        out=out / row,
        recipe=recipe_of(row),
        changes=changes,
    )


def measure(row: str, trained: dragoman.TrainingResult, data: Path, seconds: float) -> Row:
    """BLEU and perplexity of a trained row."""
    import sacrebleu

    translator = Translator.load(trained.path)
    found: Row = {"row": row, "steps": trained.recipe.train.steps, "seconds": round(seconds, 1)}
    rates = [entry["target_tokens_per_second"] for entry in trained.curve if "target_tokens_per_second" in entry]
    found["target_tokens_per_second"] = round(statistics.median(rates))
    exact = Translator.load(trained.path, engine="torch", precision="float32")
    found["parameters"] = sum(weight.numel() for weight in exact.engines.torch.model.parameters())
    found["validation"] = [{"step": entry["step"], **entry["valid"]} for entry in trained.curve if "valid" in entry]
    metric = sacrebleu.metrics.BLEU()
    for name in TEST_SETS:
        sources, references = read_test_set(data, name)
        texts = [each.text for each in translator.translate(sources, beam=4, length_penalty=0.6)]
        scored = exact.score(zip(sources, references, strict=True))
        total = sum(each.log_probability for each in scored)
        found[name] = {
            "bleu": round(metric.corpus_score(texts, [references]).score, 2),
            "perplexity": round(math.exp(-total / sum(len(each.tokens) for each in scored)), 4),
        }
    found["signature"] = str(metric.get_signature())
    return found


def train(rows: list[str], data: Path, out: Path, results: Path, steps: int, settings: list[str]) -> None:
    """Train and score rows; write what was measured."""
    results.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if (results / f"{row}.json").exists():
            print(f"{row}: measured before", flush=True)
            continue
        start = time.perf_counter()
        trained = train_row(row, data, out, steps, settings)
        found = measure(row, trained, data, time.perf_counter() - start)
        (results / f"{row}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(trained.path / "card.md", results / f"{row}.md")
        print(json.dumps({key: value for key, value in found.items() if key != "validation"}), flush=True)
        shutil.rmtree(trained.path / "training" / "checkpoints", ignore_errors=True)


def mean_and_spread(values: list[float]) -> str:
    """The mean, and the distance between the least and the greatest, if there are several."""
    spread = f" ± {(max(values) - min(values)) / 2:.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def report(results: Path, out: Path) -> None:
    """Write the table of all rows that were measured, beside the paper's differences from base."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    base = [found[row] for row in SEEDS if row in found]
    means = {
        (name, figure): statistics.mean(each[name][figure] for each in base)
        for name in TEST_SETS
        for figure in ("perplexity", "bleu")
    }
    spread = max(each["newstest2013"]["bleu"] for each in base) - min(each["newstest2013"]["bleu"] for each in base)
    lines = [
        *("# Table 3 on Europarl English-German", ""),
        f"`benchmarks/tables.py`: {base[0]['steps']:,} steps of 25,000 tokens on one H200 in bfloat16, no averaging;",
        f"beam 4, length penalty 0.6, sacreBLEU `{base[0]['signature']}`.",
        f"Perplexity is per token. `base` is the mean of {len(base)} seeds, with half the distance between the least",
        "and the greatest. The columns *paper* are the paper's differences from base, on newstest2013.",
        "",
        "| row | million parameters | PPL 2013 | Δ PPL | paper | BLEU 2013 | Δ BLEU | paper | PPL 2014 | BLEU 2014 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row, (perplexity, bleu, _) in PAPER.items():
        runs = base if row == "base" else [found[row]] if row in found else []
        if not runs:
            continue
        cells = [row, f"{runs[0]['parameters'] / 1e6:.1f}"]
        for name in TEST_SETS:
            for figure, paper in (("perplexity", perplexity - PAPER["base"][0]), ("bleu", bleu - PAPER["base"][1])):
                values = [run[name][figure] for run in runs]
                cells.append(mean_and_spread(values))
                if name == "newstest2013":
                    cells += [f"{statistics.mean(values) - means[name, figure]:+.2f}", f"{paper:+.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    missing = [row for row in [*SEEDS, *PAPER] if row not in found and row != "base"]
    lines += ["", f"The seeds of base differ by up to {spread:.2f} BLEU: smaller differences mean nothing here."]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def main() -> None:
    """Train rows, or report those that were measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("rows", nargs="+", choices=[*SEEDS, *(row for row in PAPER if row != "base")])
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--out", type=Path, default=Path("runs/tables"))
    training.add_argument("--results", type=Path, default=RESULTS / "tables")
    training.add_argument("--steps", type=int, default=10_000)
    training.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    commands.add_parser("report")
    given = parser.parse_args()
    if given.command == "report":
        report(RESULTS / "tables", RESULTS / "tables.md")
        return
    train(given.rows, given.data, given.out, given.results, given.steps, given.set)


if __name__ == "__main__":
    main()
