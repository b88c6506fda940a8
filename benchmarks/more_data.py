"""What text of one language, and the dropping of wrong pairs, bring: each by commands of docs/howto/more-data.md.

    python benchmarks/more_data.py --out runs/more-data

On the embedded corpus, whose answers are known. Back-translation: a few pairs, and many German lines without their
English. Filtering: pairs of which some have another's translation. Prints the lines of a test set without a mistake.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

from dragoman.demo.corpus import pairs

SETTINGS = [
    *("text.vocabulary_size=1000", "data.max_tokens=100", "data.batch_tokens=500", "data.drop_duplicates=false"),
    *("model.preset=tiny", "model.d_ff=256", "model.encoder_layers=2", "model.decoder_layers=2", "model.dropout=0.1"),
    *("train.learning_rate=0.003", "train.schedule=cosine", "train.average=1", "train.clip=1.0"),
    *("train.save_every=1000", "train.evaluate_every=1000"),
]


def dragoman(*words: str | Path) -> None:
    print("dragoman", *words, flush=True)
    subprocess.run([sys.executable, "-m", "dragoman", *map(str, words)], check=True)


def write(path: Path, texts: list[str]) -> Path:
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return path


def read(path: Path) -> list[str]:
    return path.read_bytes().decode().removesuffix("\n").split("\n")  # at \n alone


class Study:
    """One corpus in a directory, with the figures so far."""

    def __init__(self, out: Path, steps: int) -> None:
        self.out, self.steps, self.found = out, steps, dict[str, float]()
        out.mkdir(parents=True, exist_ok=True)
        for split, count in (("valid", 300), ("test", 1000)):
            self.put(split, list(pairs(count, split=split)))  # type: ignore[arg-type]

    def put(self, name: str, lines: list[tuple[str, str]]) -> None:
        for language, texts in zip(("en", "de"), zip(*lines, strict=True), strict=True):
            write(self.out / f"{name}.{language}", list(texts))

    def train(self, model: str, corpora: dict[str, float], source: str = "en", target: str = "de") -> Path:
        files = [
            word
            for name, weight in corpora.items()
            for word in (
                "--source", self.out / f"{name}.{source}", "--target", self.out / f"{name}.{target}", "--weight", weight
            )
        ]  # fmt: skip
        files += ["--valid-source", self.out / f"valid.{source}", "--valid-target", self.out / f"valid.{target}"]
        settings = [word for change in (*SETTINGS, f"train.steps={self.steps}") for word in ("--set", change)]
        dragoman("train", *map(str, files), "--out", self.out / model, *settings)
        return self.out / model

    def score(self, what: str, model: Path) -> None:
        """Lines of the test set without a mistake."""
        written = model.with_suffix(".test")
        dragoman("translate", model, self.out / "test.en", "-o", written)
        right = [a == b for a, b in zip(read(written), read(self.out / "test.de"), strict=True)]
        self.found[what] = 100 * sum(right) / len(right)


def back_translation(study: Study, few: int, many: int) -> None:
    everything = list(pairs(few + many, split="train"))
    study.put("few", everything[:few])
    study.put("more", everything[few:])
    study.score(f"{few:,} pairs", study.train("alone", {"few": 1.0}))
    back = study.train("back", {"few": 1.0}, "de", "en")
    for name, how in (("searched", []), ("drawn", ["--sample"])):
        written = study.out / f"{name}.en"
        dragoman("translate", back, study.out / "more.de", "-o", written, *how)
        kept = zip(read(written), read(study.out / "more.de"), strict=True)
        study.put(name, [(english, german) for english, german in kept if english])
        model = study.train(f"with-{name}", {"few": many / few / 4, name: 1.0})
        study.score(f"and {many:,} German lines, translated back ({name})", model)
    study.score("and their true translations instead", study.train("true", {"few": many / few / 4, "more": 1.0}))


def filtering(study: Study, many: int, wrong: float) -> None:
    lines = list(pairs(many, split="train"))
    chosen = sorted(random.Random(1).sample(range(many), int(wrong * many)))
    others = [lines[i][1] for i in chosen[1:] + chosen[:1]]
    for i, other in zip(chosen, others, strict=True):
        lines[i] = (lines[i][0], other)
    study.put("noisy", lines)
    noisy = study.train("noisy", {"noisy": 1.0})
    study.score(f"{many:,} pairs, {wrong:.0%} wrong", noisy)
    files = ("--source", study.out / "noisy.en", "--target", study.out / "noisy.de")
    dragoman("score", noisy, *files, "--per-token", "-o", study.out / "noisy.scores")
    scores = [float(line) for line in read(study.out / "noisy.scores")]
    order = sorted(range(many), key=scores.__getitem__)
    dropped = set(order[: len(chosen)])
    study.found["of the worst, the wrong"] = 100 * len(dropped & set(chosen)) / len(dropped)
    study.put("filtered", [line for i, line in enumerate(lines) if i not in dropped])
    study.score("without the worst by `dragoman score`", study.train("filtered", {"filtered": 1.0}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/more-data"))
    parser.add_argument("--few", type=int, default=1_500)
    parser.add_argument("--many", type=int, default=20_000)
    parser.add_argument("--wrong", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--only", nargs="+", default=["back-translation", "filtering"])
    options = parser.parse_args()
    study = Study(options.out, options.steps)
    if "back-translation" in options.only:
        back_translation(study, options.few, options.many)
    if "filtering" in options.only:
        filtering(study, options.many, options.wrong)
    for what, figure in study.found.items():
        print(f"| {what} | {figure:.1f} % |")


if __name__ == "__main__":
    main()
