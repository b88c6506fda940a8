"""The paper's tables with our results: trained on Europarl English-German and on English-French, one command for a row.

    python benchmarks/tables.py train base base-2 A1 --data DATA --out runs/tables     # one row after the other
    python benchmarks/tables.py train C1 --data DATA --out runs/tables                 # any row, at any time
    python benchmarks/tables.py list                                                   # all rows, with what is measured
    python benchmarks/tables.py report                                                 # the tables of all results

DATA has europarl_en-de, wmt_en-de and, for English-French, tatoeba_en-fr, multi30k and wmt_en-fr, with files such as
train.en, packed or not. Run the command again to resume: a finished row is skipped, a stopped one continues at its last
checkpoint, and the data of a group of rows are prepared once. Each row leaves ROW.json and its card in
benchmarks/results/tables, which `report` collects in benchmarks/results/tables.md with two pictures.

- Table 3: base with three seeds, and the rows of recipes/table3, for 10,000 steps.
- Variations of our own in the same frame: position codes, attention patterns, pre-norm.
- Table 2: the Transformer and its rivals for about equal training FLOPs (3,000 steps, equal sizes), and base and
  big for longer. A row is evaluated twelve times, for the picture of quality against cost.
- English-French on 192,000 pairs of Tatoeba and Multi30k, tested on news.

A row is a recipe with packed batches and a compiled step where they are supported, in bfloat16. No averaging: the last
weights are scored. Beam 4, length penalty 0.6. Perplexity is per token, EOS included. Training FLOPs are six per
weight and target token, with the output projection and without embeddings and attention scores. --set changes all
rows, to try the script on a small machine.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus_arguments import find_file
from tables_report import report

import dragoman
from dragoman import Recipe, Translator
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.models.loading import parameter_counts

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKED = ("data.layout=packed", "train.compile=true")


@dataclass(frozen=True)
class CorpusSet:
    """The files of a language pair, without their languages: to train on, to validate with, and to test."""

    languages: tuple[str, str]
    train: tuple[str, ...]
    valid: str
    tests: tuple[str, ...]

    def side(self, data: Path, name: str, side: int) -> Path:
        """One side of a corpus."""
        return find_file(data, f"{name}.{self.languages[side]}")

    def lines(self, data: Path, name: str) -> tuple[list[str], list[str]]:
        """The sentences of a test set, and their translations."""
        source, target = (
            [line for block in read_line_blocks(self.side(data, name, side)) for line in block] for side in (0, 1)
        )
        return source, target


GERMAN = CorpusSet(
    ("en", "de"),
    ("europarl_en-de/train",),
    "wmt_en-de/newstest2013",
    ("wmt_en-de/newstest2013", "wmt_en-de/newstest2014"),
)
FRENCH = CorpusSet(
    ("en", "fr"),
    ("tatoeba_en-fr/train", "multi30k/train"),
    "wmt_en-fr/newstest2013",
    ("wmt_en-fr/newstest2013", "wmt_en-fr/newstest2014", "tatoeba_en-fr/test"),
)


@dataclass(frozen=True)
class TableRow:
    """A row: the table that it belongs to, its recipe, and its changes."""

    table: str
    recipe: str
    changes: tuple[str, ...] = PACKED
    steps: int = 10_000
    corpora: CorpusSet = GERMAN


def variation(*changes: str) -> TableRow:
    """A variation of base; most are not supported by the kernels for packed batches."""
    return TableRow("variations", "base.toml", tuple(f"model.{change}" for change in changes))


def costed(recipe: str, steps: int, *changes: str) -> TableRow:
    """A row of quality against cost, with twelve evaluations."""
    often = (f"train.evaluate_every={steps // 12}", f"train.save_every={steps // 4}")
    schedule = ("train.schedule=cosine", f"train.warmup_steps={steps // 12}", "train.clip=1.0")
    return TableRow("2", recipe, (*often, *schedule, *changes), steps)


ROWS: dict[str, TableRow] = {
    "base": TableRow("3", "base.toml"),
    "base-2": TableRow("3", "base.toml", (*PACKED, "train.seed=2", "data.seed=2")),
    "base-3": TableRow("3", "base.toml", (*PACKED, "train.seed=3", "data.seed=3")),
    **{path.stem: TableRow("3", f"table3/{path.name}") for path in sorted(ROOT.glob("recipes/table3/*.toml"))},
    "relative": variation("positions=relative"),
    "rotary": variation("positions=rotary"),
    "alibi": variation("positions=alibi"),
    "no-positions": TableRow("variations", "base.toml", (*PACKED, "model.positions=none")),
    "local": variation("pattern=local", "window=8"),
    "sparse": variation("pattern=sparse", "window=4"),
    "low-rank": variation("pattern=low_rank", "rank=16"),
    "pre-norm": TableRow("variations", "base.toml", (*PACKED, "model.norm_order=pre")),
    # post-norm hardly learns in 3,000 steps (results/shipped_models.md)
    "cost-base": costed("base.toml", 3000, *PACKED, "train.learning_rate=0.001", "model.norm_order=pre"),
    "cost-recurrent": costed("rivals/recurrent.toml", 3000, "data.batch_tokens=25000", "train.learning_rate=0.001"),
    "cost-bottleneck": costed("rivals/bottleneck.toml", 3000, "data.batch_tokens=25000", "train.learning_rate=0.0007"),
    "cost-convolutional": costed(
        "rivals/convolutional.toml", 3000, "data.batch_tokens=25000", "train.learning_rate=0.0005"
    ),
    "long-base": costed("base.toml", 60_000, *PACKED, "train.learning_rate=0.001"),
    "long-big": costed("big.toml", 20_000, *PACKED, "train.learning_rate=0.0005"),
    "en-fr-small": TableRow(
        "en-fr",
        "base.toml",
        (*PACKED, "model.preset=small", "model.dropout=0.3", "text.vocabulary_size=16000", "train.learning_rate=0.002",
         "train.schedule=cosine", "train.warmup_steps=800"),
        corpora=FRENCH,
    ),
    "en-fr-base": TableRow(
        "en-fr",
        "base.toml",
        (*PACKED, "model.dropout=0.3", "text.vocabulary_size=16000", "train.learning_rate=0.001",
         "train.schedule=cosine", "train.warmup_steps=800"),
        corpora=FRENCH,
    ),
}  # fmt: skip


def train_row(name: str, data: Path, out: Path, steps: int, settings: list[str]) -> dragoman.TrainingResult:
    """Train a row, or return the finished one. The first row prepares the data, and the others link to its files."""
    row = ROWS[name]
    changes = [
        *("train.average=1", "train.keep=2", f"train.steps={steps}"),
        *(f"train.save_every={steps // 4}", f"train.evaluate_every={steps}"),
        *row.changes,
        *settings,
    ]
    prepared = Path("training") / "prepared"
    same = [other for other in ROWS if ROWS[other].corpora == row.corpora and (out / other / prepared).is_dir()]
    if same and not (out / name / prepared).exists():
        (out / name / "training").mkdir(parents=True, exist_ok=True)
        shutil.copytree(
            out / same[0] / prepared, out / name / prepared, copy_function=lambda a, b: Path(b).hardlink_to(a)
        )
    sides = row.corpora.side
    return dragoman.train(
        corpora=[Corpus(sides(data, each, 0), sides(data, each, 1)) for each in row.corpora.train],
        valid=(sides(data, row.corpora.valid, 0), sides(data, row.corpora.valid, 1)),
        out=out / name,
        recipe=ROOT / "recipes" / row.recipe,
        changes=changes,
    )


def training_flops(recipe: Recipe, vocabulary: int, tokens: int) -> float:
    """Six FLOPs per weight and token, two forward and four backward; there are about as many source tokens."""
    counts = parameter_counts(recipe.model, vocabulary)
    layers = sum(n for part, n in counts.items() if "embedding" not in part and part not in ("positions", "projection"))
    return 6.0 * tokens * (layers + vocabulary * recipe.model.d_model)


def measure(name: str, trained: dragoman.TrainingResult, data: Path, seconds: float) -> dict[str, Any]:
    """BLEU and perplexity of a trained row, and its training FLOPs."""
    import sacrebleu

    translator, recipe, corpora = Translator.load(trained.path), trained.recipe, ROWS[name].corpora
    found: dict[str, Any] = {"row": name, "steps": recipe.train.steps, "seconds": round(seconds, 1)}
    rates = [entry["target_tokens_per_second"] for entry in trained.curve if "target_tokens_per_second" in entry]
    found["target_tokens_per_second"] = round(statistics.median(rates))
    exact = Translator.load(trained.path, engine="torch", precision="float32")
    found["parameters"] = sum(weight.numel() for weight in exact.engines.torch.model.parameters())
    tokens = max(entry["target_tokens"] for entry in trained.curve if "target_tokens" in entry)
    found["training_flops"] = training_flops(recipe, translator.target.vocabulary_size, tokens)
    found["validation"] = [{"step": entry["step"], **entry["valid"]} for entry in trained.curve if "valid" in entry]
    metric = sacrebleu.metrics.BLEU()
    for test in corpora.tests:
        sources, references = corpora.lines(data, test)
        texts = [each.text for each in translator.translate(sources, beam=4, length_penalty=0.6)]
        scored = exact.score(zip(sources, references, strict=True))
        total = sum(each.log_probability for each in scored)
        key = Path(test).name if test.startswith("wmt") else test.split("/")[0].partition("_")[0]
        found[key] = {
            "bleu": round(metric.corpus_score(texts, [references]).score, 2),
            "perplexity": round(math.exp(-total / sum(len(each.tokens) for each in scored)), 4),
        }
    found["signature"] = str(metric.get_signature())
    return found


def train(rows: list[str], data: Path, out: Path, results: Path, steps: int | None, settings: list[str]) -> None:
    """Train and score rows; write what was measured."""
    results.mkdir(parents=True, exist_ok=True)
    for name in rows:
        if (results / f"{name}.json").exists():
            print(f"{name}: measured before", flush=True)
            continue
        start = time.perf_counter()
        trained = train_row(name, data, out, steps or ROWS[name].steps, settings)
        found = measure(name, trained, data, time.perf_counter() - start)
        (results / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(trained.path / "card.md", results / f"{name}.md")
        print(json.dumps({key: value for key, value in found.items() if key != "validation"}), flush=True)
        shutil.rmtree(trained.path / "training" / "checkpoints", ignore_errors=True)


def main() -> None:
    """Train rows, list them, or report those that were measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("rows", nargs="+", choices=list(ROWS), metavar="ROW")
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--out", type=Path, default=Path("runs/tables"))
    training.add_argument("--results", type=Path, default=RESULTS / "tables")
    training.add_argument("--steps", type=int, help="instead of the row's own number")
    training.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    for name in ("list", "report"):
        commands.add_parser(name).add_argument("--results", type=Path, default=RESULTS / "tables")
    given = parser.parse_args()
    if given.command == "train":
        train(given.rows, given.data, given.out, given.results, given.steps, given.set)
    elif given.command == "list":
        for name, row in ROWS.items():
            state = "measured" if (given.results / f"{name}.json").exists() else "-"
            print(f"{name:20} table {row.table:12} {row.steps:7,} steps  {state}")
    else:
        report({name: row.table for name, row in ROWS.items()}, given.results, given.results.with_suffix(".md"))


if __name__ == "__main__":
    main()
