"""How well heads are ranked: the cross-entropy as heads are removed in the order of each figure, and in random orders.

    python benchmarks/heads.py MODEL SOURCE TARGET [--pairs 300]

Heads are ranked on the first so many pairs, and removed on as many others that follow. Also: how well the estimates
agree with the exact figure (Spearman's correlation of ranks), and the exact figures of both bf16 with each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import mean

from dragoman.engines.torch_forced import forced_batches
from dragoman.evaluation.test_sets import read_lines
from dragoman.inspect.heads.gates import GatedModel, HeadId
from dragoman.inspect.heads.passes import measure_ablations
from dragoman.inspect.heads.survey import encode_survey_pairs, require_transformer, spearman, survey_heads
from dragoman.progress import SilentReporter
from dragoman.translation.translator import Translator

SHARES = (0.125, 0.25, 0.5, 0.75)
RANDOM = 10  # orders by chance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--pairs", type=int, default=300)
    asked = parser.parse_args()
    sides = [read_lines(path) for path in (asked.source, asked.target)]
    ranking = [side[: asked.pairs] for side in sides]
    removing = [side[asked.pairs : 2 * asked.pairs] for side in sides]
    translator = Translator.load(asked.model, device="cpu", engine="torch")
    found = survey_heads(translator, ranking[0], ranking[1], ablate=True)
    gates, heads = GatedModel(require_transformer(translator)), found.heads
    pairs, _ = encode_survey_pairs(translator, removing[0], removing[1], None, None)
    work = list(forced_batches(translator.engines.torch, pairs))
    tokens = sum(len(batch.labels) for batch in work)
    print(f"{date.today()}, dragoman {version('dragoman')}, torch {version('torch')}, CPU.")
    print(f"{asked.model}: {len(heads)} heads, ranked on {found.sentences:,} pairs (cross-entropy "
          f"{found.cross_entropy:.3f} nats a token), removed on the next {len(pairs):,} "
          f"({gates.loss_without([], work) / tokens:.3f}).\n")  # fmt: skip
    again = (measure_ablations(gates, work, SilentReporter()) / tokens).tolist()
    exact = [head.importance for head in heads]
    print("Spearman's correlation with the exact figure, over all heads: " + ", ".join(
        [f"{name} {value:.2f}" for name, value in found.rank_correlations().items()]
        + [f"the exact one on the other pairs {spearman(exact, again):.2f}"]) + ".\n")  # fmt: skip
    print("| heads removed in the order of | " + " | ".join(f"{round(s * len(heads))}" for s in SHARES) + " |")
    print("|---" * (1 + len(SHARES)) + "|")

    def curve(order: Sequence[HeadId]) -> list[float]:
        return [gates.loss_without(order[: round(share * len(heads))], work) / tokens for share in SHARES]

    def row(name: str, values: Sequence[str]) -> None:
        print(f"| {name} | " + " | ".join(values) + " |", flush=True)

    for name, figure in (("ablation", "importance"), ("sensitivity", "sensitivity"), ("gradient", "gradient")):
        order = [head.id for head in sorted(heads, key=lambda head: getattr(head, figure))]
        row(f"{name}, least important first", [f"{value:.3f}" for value in curve(order)])
    row("ablation, most important first", [f"{value:.3f}" for value in curve(found.by_importance()[::-1])])
    chances = []
    for seed in range(RANDOM):
        order = found.by_importance()
        Random(seed).shuffle(order)
        chances.append(curve(order))
    columns = list(zip(*chances, strict=True))
    row(f"chance ({RANDOM} orders: least, mean, most)", [f"{min(c):.3f}, {mean(c):.3f}, {max(c):.3f}" for c in columns])


if __name__ == "__main__":
    main()
