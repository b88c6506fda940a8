"""Make the models that ship with Dragoman: a teacher for each direction, and a student of it.

    python benchmarks/shipped_models.py DATA --out RUNS teacher distill measure [--pair en-de] [--dry-run]

DATA holds europarl_en-de, tatoeba_en-de and wmt_en-de, as folders of packed files (train.en.xz, newstest2013.de.xz).
Stages run in the order in which they are given, and each resumes where it stopped:

    teacher   a base model on Europarl, Tatoeba and newstest2008-2012 (16,000 steps, 8 minutes on one H200)
    distill   the student: 6 encoder and 2 decoder layers, d_model 256, trained on the translations of the teacher;
              the teacher of the other direction must be there, because words are aligned by both
    measure   BLEU and chrF of all of them on newstest2013, newstest2014, Tatoeba and Europarl

Models are chosen by newstest2013 alone. RUNS/PAIR/times.json has the seconds of each stage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

NEWS = ("news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012")
TESTS = {
    "newstest2013": "wmt_en-de/newstest2013",
    "newstest2014": "wmt_en-de/newstest2014",
    "tatoeba": "tatoeba_en-de/test",
    "europarl": "europarl_en-de/test",
}
STAGES = ("teacher", "distill", "measure")


class Maker:
    """The commands of one direction."""

    def __init__(self, data: Path, out: Path, pair: str, *, dry_run: bool) -> None:
        self.data, self.out, self.dry_run = data, out / pair, dry_run
        self.source, self.target = pair.split("-")

    def sides(self, name: str, options: tuple[str, str]) -> list[str]:
        """The options for both files of a corpus."""
        languages = (self.source, self.target)
        return [
            part
            for option, language in zip(options, languages, strict=True)
            for part in (option, str(self.data / f"{name}.{language}.xz"))
        ]

    def corpora(self, weights: dict[str, float]) -> list[str]:
        """The options for corpora with their weights."""
        found: list[str] = []
        for name, weight in weights.items():
            found += [*self.sides(name, ("--source", "--target")), "--weight", str(weight)]
        return found

    @property
    def valid(self) -> list[str]:
        """The options for the validation set."""
        return self.sides(TESTS["newstest2013"], ("--valid-source", "--valid-target"))

    def run(self, stage: str, *arguments: str) -> None:
        """Run a command of Dragoman, and record how long it took."""
        print("dragoman", *arguments, flush=True)
        if self.dry_run:
            return
        begun = time.monotonic()
        self.out.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "dragoman", *arguments], check=True)
        path = self.out / "times.json"
        times = json.loads(path.read_text()) if path.exists() else {}
        times[stage] = round(times.get(stage, 0.0) + time.monotonic() - begun, 1)
        path.write_text(json.dumps(times, indent=1) + "\n")

    def teacher(self) -> None:
        """Train the teacher."""
        news = {f"wmt_en-de/{name}": 3.0 for name in NEWS}
        corpora = self.corpora({"europarl_en-de/train": 1.0, "tatoeba_en-de/train": 1.0} | news)
        settings = ("train.steps=16000", "train.save_every=4000", "train.evaluate_every=8000")
        changes = [part for setting in ("model.preset=base", *settings) for part in ("--set", setting)]
        self.run("teacher", "train", *corpora, *self.valid, *changes, "--out", str(self.out / "teacher"))

    def distill(self) -> None:
        """Train the student."""
        names = ("europarl_en-de/train", "tatoeba_en-de/train", *(f"wmt_en-de/{name}" for name in NEWS))
        sources = [part for name in names for part in ("--source", str(self.data / f"{name}.{self.source}.xz"))]
        reverse = self.out.parent / f"{self.target}-{self.source}" / "teacher"
        models = (str(self.out / "teacher"), "--reverse", str(reverse))
        self.run(
            "distill", "distill", *models, *sources, *self.valid, "--size", "small", "--out", str(self.out / "student")
        )

    def measure(self) -> None:
        """Measure all models on all test sets."""
        tests = [part for path in TESTS.values() for part in self.sides(path, ("--source", "--reference"))]
        names = [part for name in TESTS for part in ("--name", name)]
        for model in ("teacher", "student", "student-int8"):
            if (self.out / model / "manifest.json").exists() or self.dry_run:
                report = ("--report", str(self.out / f"{model}-report"))
                self.run("measure", "evaluate", str(self.out / model), *tests, *names, "--beam", "4", *report)


def main() -> None:
    """Run the stages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("stages", nargs="+", choices=STAGES, metavar="STAGE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pair", choices=("en-de", "de-en"), action="append", help="both by default")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    options = parser.parse_args()
    makers = [
        Maker(options.data, options.out, pair, dry_run=options.dry_run) for pair in options.pair or ("en-de", "de-en")
    ]
    for stage in options.stages:
        for maker in makers:
            getattr(maker, stage)()


if __name__ == "__main__":
    main()
