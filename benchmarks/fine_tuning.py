"""What fine-tuning gains on its domain and loses on the old one, against other settings, with the paired bootstrap.

    python benchmarks/fine_tuning.py --model MODEL --source train.en --target train.de --pairs 2000 \\
        --valid-source dev.en --valid-target dev.de --test new new.en new.de --test old old.en old.de \\
        --variant "the rate from scratch" train.learning_rate=0.003 --out runs/fine-tuning

Draws `--pairs` pairs, fine-tunes with the default settings and with those of each variant, and scores the model before
and after on every test set: the weights that the run kept, and its last ones. Prints a Markdown table; p is that of the
difference from the model before.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import dragoman


def draw(sides: tuple[Path, Path], count: int, out: Path) -> tuple[Path, Path]:
    """Write `count` pairs of two files, drawn at random, in the order of the files."""
    lines = [side.read_bytes().decode().removesuffix("\n").split("\n") for side in sides]  # at \n alone
    chosen = sorted(random.Random(1).sample(range(len(lines[0])), min(count, len(lines[0]))))
    written = []
    for side, texts in zip(sides, lines, strict=True):
        path = out.with_name(out.name + side.suffix)
        path.write_bytes("".join(f"{texts[i]}\n" for i in chosen).encode())
        written.append(path)
    return written[0], written[1]


def main() -> None:
    """Fine-tune, evaluate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    for name in ("--source", "--target", "--valid-source", "--valid-target", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--valid-pairs", type=int, default=500)
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    parser.add_argument("--variant", nargs=2, action="append", default=[], metavar=("NAME", "SETTING"))
    parser.add_argument("--test", nargs=3, action="append", required=True, metavar=("NAME", "SOURCE", "REFERENCE"))
    parser.add_argument("--beam", type=int, default=4)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    source, target = draw((given.source, given.target), given.pairs, given.out / f"train-{given.pairs}")
    valid = draw((given.valid_source, given.valid_target), given.valid_pairs, given.out / "valid")
    names, sources, references = zip(*given.test, strict=True)
    quiet = dragoman.SilentReporter()
    rows = []
    for name, setting in [("the default settings", ""), *given.variant]:
        out = given.out / f"{given.pairs}-{name.replace(' ', '-')}"
        changes = [*given.set, *([setting] if setting else [])]
        result = dragoman.train(
            source=source, target=target, valid=valid, out=out, start_from=given.model, changes=changes
        )
        start = next(entry["valid"] for entry in result.curve if entry["step"] == 0)
        seen = [entry["valid"]["loss"] for entry in result.curve if "valid" in entry]
        last = out.with_name(f"{out.name}-last")
        if not last.exists():
            dragoman.average(out, out=last, last=1)
        for which, model in (("kept", out), ("last", last)):
            found = dragoman.evaluate(
                model,
                source=sources,
                reference=references,
                names=names,
                against=given.model,
                metrics=["BLEU"],
                beam=given.beam,
                reporter=quiet,
            )
            for test, score in zip(names, found.results, strict=True):
                (gap,) = score.differences
                figures = f"{gap.other:.2f} | {gap.value:.2f} | {gap.difference:+.2f} | {gap.p:.3f}"
                rows.append(f"| {name} | {which} | {test} | {figures} |")
        settings = result.recipe
        print(
            f"{name}: {settings.train.steps} steps of {settings.data.batch_tokens} tokens, rate "
            f"{settings.train.learning_rate}; validation loss {start['loss']:.3f}, last {seen[-1]:.3f}, kept "
            f"{result.metrics['loss']:.3f}",
            flush=True,
        )
    print("| settings | weights | test set | BLEU before | after | difference | p |\n|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
