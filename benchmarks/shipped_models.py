"""Make the models that ship with Dragoman: a teacher for each direction, and a student of it.

    python benchmarks/shipped_models.py DATA --out RUNS --pair en-de phrases names teacher distill measure publish
    python benchmarks/shipped_models.py DATA --out RUNS --pair de-en phrases names backtranslate teacher distill
    python benchmarks/shipped_models.py DATA --out RUNS --pair de-en measure publish

DATA holds europarl_en-de, tatoeba_en-de and wmt_en-de, as folders of text files, packed or not (train.en.xz,
newstest2013.de). Where there are other Tatoeba folders (tatoeba_en-fr), the student learns from their English too.
Stages run in the order in which they are given, and each resumes where it stopped:

    phrases   words and short phrases with their translations, from a quarter of the sentence pairs (three minutes on a
              CPU)
    names     sentence pairs with other names and numbers in the places of those that both sides have, from a quarter
              of Europarl and all other pairs, so that the models learn to copy (a minute on a CPU)
    backtranslate
              sentences of the target language translated back by a model of the opposite direction, for the teacher
              (minutes on a CPU): English of the other Tatoeba folders, or German of Tatoeba, news and a quarter of
              Europarl, for which there is no other text
    teacher   a base model with pre-norm and --teacher-layers encoder layers on Europarl, Tatoeba, newstest2008-2012,
              the phrases, the names and the back-translations (20,000 steps with 12 layers: 14 minutes on one H200);
              the data of the next stages are prepared beside it
    aligner   a base model of the opposite direction, trained briefly (3,500 steps), because words are aligned by the
              agreement of both directions; not needed if RUNS has a model of the opposite direction, or the
              repository
    distill   the student: 6 encoder and 2 decoder layers, d_model 256, trained on the translations of the teacher
    measure   BLEU and chrF of all of them on newstest2013, newstest2014, Tatoeba and Europarl
    publish   the student in int8 in models/PAIR, with its license and its card; --weaknesses is a text for the card

Models are chosen by newstest2013 alone. No sentence of a test set is a source of the student.
RUNS/PAIR/times.json has the seconds of each stage, steps.json the steps. With --minutes, the student
is trained for as many steps as fit (one direction, all stages in one command, on one H200).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread

from corpus_arguments import find_file
from shipped_card import LICENSE, card
from shipped_names import name_model, vary_pairs
from shipped_phrases import count_phrases, translations, with_cases

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.modeldir.locate import is_model
from dragoman.modeldir.save import set_license
from dragoman.progress import ConsoleReporter
from dragoman.translation.probes import store_probes

NEWS = ("news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012")
TESTS = {
    "newstest2013": "wmt_en-de/newstest2013",
    "newstest2014": "wmt_en-de/newstest2014",
    "tatoeba": "tatoeba_en-de/test",
    "europarl": "europarl_en-de/test",
}
TATOEBA = "tatoeba_en-de/train"
HELD_OUT = (*TESTS.values(), "tatoeba_en-de/dev", "europarl_en-de/dev")
STAGES = ("phrases", "names", "backtranslate", "teacher", "aligner", "distill", "measure", "publish")
ROOT = Path(__file__).resolve().parent.parent
TEACHER_STEPS, ALIGNER_STEPS, STUDENT_STEPS = 20_000, 3_500, 39_000
TEACHER_LAYERS, ALIGNER_LAYERS = 12, 6  # of the encoder
MEASURED = {
    "teacher": (),  # in bfloat16 where it was trained, in int8 on a CPU
    "student": ("--device", "cpu", "--precision", "float32"),
    "student-int8": ("--device", "cpu", "--precision", "int8"),
}
LINES_PER_SECOND, STUDENT_STEP_SECONDS = 9500, 0.0078  # the teacher with beam 4, and the student, on one H200
STUDENT_OVERHEAD = 170  # seconds: align, select, prepare, compile, evaluate, compare
SOURCE_WORDS = 80  # longer lines are not distilled
PHRASE_SHARE, PHRASE_CHARACTERS = 0.25, 300  # of Europarl, and the longest sentence, in which phrases are looked for
NAME_SHARE = 0.25  # of Europarl is searched for names
BACK_SHARE = 0.25  # of Europarl's German is translated back
EUROPARL_SHARE = 0.75  # of Europarl is distilled; all sources take three minutes of one H200


class Maker:
    """The commands of one direction."""

    europarl_share, teacher_layers = EUROPARL_SHARE, TEACHER_LAYERS

    def __init__(self, data: Path, out: Path, pair: str, *, steps: dict[str, int], dry_run: bool) -> None:
        self.data, self.out, self.steps, self.dry_run = data, out / pair, dict(steps), dry_run
        self.weaknesses, self.deadline, self.stages = "Not described yet.", float("inf"), list[str]()
        self.source, self.target = pair.split("-")

    @property
    def opposite(self) -> Maker:
        """The maker of the opposite direction."""
        pair = f"{self.target}-{self.source}"
        return Maker(self.data, self.out.parent, pair, steps=self.steps, dry_run=self.dry_run)

    def file(self, name: str, language: str) -> Path:
        """One side of a corpus, packed or not."""
        return find_file(self.data, f"{name}.{language}")

    def sides(self, name: str, options: tuple[str, str]) -> list[str]:
        """The options for both files of a corpus."""
        return [part for option, file in zip(options, self.files(name), strict=True) for part in (option, str(file))]

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

    def train(self, name: str, layers: int, *more: str) -> None:
        """Train a base model with this many encoder layers."""
        news = {f"wmt_en-de/{test}": 3.0 for test in NEWS}
        corpora = self.corpora({"europarl_en-de/train": 1.0, TATOEBA: 1.0} | news)
        for files, weight in ((self.phrase_files, 3.0), (self.name_files, 1.0), (self.back_translated, 1.0)):
            if files[0].exists():
                corpora += ["--source", str(files[0]), "--target", str(files[1]), "--weight", str(weight)]
        model = ("model.preset=base", "model.norm_order=pre", f"model.encoder_layers={layers}")
        changes = set_options(*model, *schedule(self.steps[name]))
        self.run(name, "train", *corpora, *self.valid, *changes, "--out", str(self.out / name), *more)

    def phrases(self) -> None:
        """Write words and short phrases with their translations, for both directions."""
        makers = self, self.opposite
        if self.dry_run or all(maker.phrase_files[0].exists() for maker in makers):
            return
        pairs = [pair for pair in self.pairs(PHRASE_SHARE) if len(pair[0]) <= PHRASE_CHARACTERS]
        counts = count_phrases(pairs, ConsoleReporter())
        sentences = {fold(line) for pair in pairs for line in pair}  # "Thanks!" has a better translation of its own
        excluded = self.held_out() | self.opposite.held_out() | sentences
        for side, maker in enumerate(makers):
            found = with_cases(translations(counts, side))
            kept = {phrase: translation for phrase, translation in found.items() if fold(phrase) not in excluded}
            maker.out.mkdir(parents=True, exist_ok=True)
            for path, lines in reversed(tuple(zip(maker.phrase_files, (kept.keys(), kept.values()), strict=True))):
                write_lines(path, lines)
            print(f"{maker.phrase_files[0]}: {len(kept):,} phrases", flush=True)

    def names(self) -> None:
        """Write sentence pairs in which names and numbers that both sides have are others."""
        if self.dry_run or self.name_files[0].exists():
            return
        excluded = self.held_out()
        pairs = [pair for pair in self.pairs(NAME_SHARE) if fold(pair[0]) not in excluded]
        found = [*vary_pairs(pairs, name_model(pairs), seed=1)]
        self.out.mkdir(parents=True, exist_ok=True)
        for side in (1, 0):
            write_lines(self.name_files[side], (pair[side] for pair in found))
        print(f"{self.name_files[0]}: {len(found):,} pairs", flush=True)

    def pairs(self, europarl_share: float) -> Iterator[tuple[str, str]]:
        """The sentence pairs of people: a share of Europarl, all of Tatoeba and news."""
        shares = {"europarl_en-de/train": europarl_share, TATOEBA: 1.0} | {f"wmt_en-de/{name}": 1.0 for name in NEWS}
        for name, share in shares.items():
            for source, target in zip(*map(read_lines, self.files(name)), strict=True):
                if is_chosen(source, share):
                    yield source, target

    def files(self, name: str) -> tuple[Path, Path]:
        """Both sides of a corpus."""
        return self.file(name, self.source), self.file(name, self.target)

    @property
    def name_files(self) -> tuple[Path, Path]:
        """The files of sentence pairs with other names."""
        return self.out / f"names.{self.source}", self.out / f"names.{self.target}"

    @property
    def phrase_files(self) -> tuple[Path, Path]:
        """The files of phrases and of their translations."""
        return self.out / f"phrases.{self.source}", self.out / f"phrases.{self.target}"

    def backtranslate(self) -> None:
        """Translate sentences of the target language back: more text for the teacher, or other sources of the same."""
        source, target = self.back_translated
        if source.exists():
            return
        if not self.dry_run:
            self.out.mkdir(parents=True, exist_ok=True)
            write_lines(target, self.lines_to_translate_back())
        self.run("backtranslate", "translate", str(self.reverse), str(target), "-o", str(source), "--beam", "1")

    def lines_to_translate_back(self) -> Iterator[str]:
        """Sentences of the target language without a source, or where there are none, some that have one."""
        seen = self.opposite.held_out()
        if others := self.other_english(self.target):
            seen |= {fold(line) for line in read_lines(self.file(TATOEBA, self.target))}
            yield from unseen((self.file(name, self.target) for name in others), seen)
            return
        names = [*(f"wmt_en-de/{name}" for name in NEWS), TATOEBA, "europarl_en-de/train"]
        for name in names:
            share = BACK_SHARE if name.startswith("europarl") else 1.0
            lines = unseen([self.file(name, self.target)], seen)
            yield from (line for line in lines if is_chosen(line, share) and len(line.split()) <= SOURCE_WORDS)

    @property
    def back_translated(self) -> tuple[Path, Path]:
        """The files of back-translations and of their originals."""
        return self.out / f"back-translated.{self.source}", self.out / f"back-translated.{self.target}"

    def other_english(self, language: str) -> list[str]:
        """The Tatoeba corpora of English and other languages, if the language is English."""
        names = sorted(path.name for path in self.data.glob("tatoeba_en-*") if path.name != "tatoeba_en-de")
        return [f"{name}/train" for name in names if language == "en"]

    def teacher(self) -> None:
        """Train the teacher, and prepare the data of the next stages beside it."""
        beside = Thread(target=self.prepare_next, daemon=True)
        if not self.dry_run:
            beside.start()
        self.train("teacher", self.teacher_layers)
        if not self.dry_run:
            beside.join()

    def prepare_next(self) -> None:
        """Prepare the aligner's data and the sources once the teacher's data are ready; the CPU is idle then."""
        prepared = "training/prepared/manifest.json"
        while not (self.out / "teacher" / prepared).exists():
            time.sleep(1)
        wanted = "aligner" in self.stages and self.needs_aligner
        if wanted and not (self.opposite.out / "aligner" / prepared).exists():
            self.opposite.train("aligner", ALIGNER_LAYERS, "--dry-run")
        self.sources()

    @property
    def aligners(self) -> list[Path]:
        """Models of the opposite direction that may exist; a guided student aligns best, then a teacher."""
        runs = self.opposite.out
        return [runs / "student", ROOT / "models" / runs.name, runs / "teacher", runs / "aligner"]

    @property
    def reverse(self) -> Path:
        """The best model of the opposite direction."""
        return next((model for model in self.aligners if is_model(model)), self.aligners[-1])

    @property
    def needs_aligner(self) -> bool:
        """Whether there is no model of the opposite direction yet."""
        return not any(map(is_model, self.aligners[:-1]))

    def aligner(self) -> None:
        """Train the model of the opposite direction for word alignments, unless there is one."""
        if self.needs_aligner:
            self.opposite.train("aligner", ALIGNER_LAYERS)

    def source_lines(self) -> Iterator[str]:
        """The sentences that the teacher translates for the student: each once, none of a test set."""
        seen = self.held_out()
        names = ["europarl_en-de/train", TATOEBA, *(f"wmt_en-de/{name}" for name in NEWS)]
        names += self.other_english(self.source)
        files = [
            (self.file(name, self.source), self.europarl_share if name.startswith("europarl") else 1.0)
            for name in names
        ]
        if self.back_translated[0].exists() and self.other_english(self.target):
            files.append((self.back_translated[0], 1.0))
        for path, share in files:
            for line in unseen([path], seen):
                if is_chosen(line, share) and len(line.split()) <= SOURCE_WORDS:
                    yield line
        for path in (self.phrase_files[0], self.name_files[0]):
            if path.exists():
                yield from read_lines(path)

    def held_out(self) -> set[str]:
        """The sentences of all test sets, folded."""
        return {fold(line) for name in HELD_OUT for line in read_lines(self.file(name, self.source))}

    def sources(self) -> Path:
        """The file of the sentences that the teacher translates."""
        path = self.out / f"sources.{self.source}"
        if not path.exists() and not self.dry_run:
            write_lines(path, self.source_lines())
        return path

    def distill(self) -> None:
        """Train the student, with little dropout: it sees its data about 15 times. Not compared with other rates."""
        models = (str(self.out / "teacher"), "--reverse", str(self.reverse))
        record = self.out / "steps.json"
        if record.exists():  # a run that resumes keeps its steps
            self.steps = json.loads(record.read_text())
        elif self.deadline < float("inf") and not self.dry_run:
            lines = sum(1 for _ in read_lines(self.sources()))
            self.steps["student"] = fitting_steps(self.deadline - time.monotonic(), lines, self.steps["student"])
        changes = set_options("model.dropout=0.05", *schedule(self.steps["student"]))
        options = ("--size", "small", "--alignment-weight", "0.2", *changes, "--out", str(self.out / "student"))
        if not self.dry_run:
            record.write_text(json.dumps(self.steps) + "\n")
        self.run("distill", "distill", *models, "--source", str(self.sources()), *self.valid, *options)

    def measure(self) -> None:
        """Measure all models on all test sets."""
        tests = [part for path in TESTS.values() for part in self.sides(path, ("--source", "--reference"))]
        names = [part for name in TESTS for part in ("--name", name)]
        for model, options in MEASURED.items():
            if (self.out / model / "manifest.json").exists() or self.dry_run:
                report = ("--report", str(self.out / f"{model}-report"))
                self.run("measure", "evaluate", str(self.out / model), *tests, *names, "--beam", "4", *options, *report)

    def publish(self) -> None:
        """Copy the student in int8 to models/, with its license and its card."""
        place = ROOT / "models" / self.out.name
        print(f"{self.out / 'student-int8'} -> {place}", flush=True)
        if not self.dry_run:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self.out / "student-int8", place)
            set_license(place, LICENSE)
            store_probes(place)  # words of its vocabulary instead of sentences of the validation set
            (place / "card.md").write_text(card(self.out, self.weaknesses), encoding="utf-8")


def fitting_steps(seconds: float, lines: int, most: int) -> int:
    """The student's steps that fit into the time that is left, with the teacher's translations of its sources."""
    training = seconds - lines / LINES_PER_SECOND - STUDENT_OVERHEAD
    return max(most // 4, min(most, int(training / STUDENT_STEP_SECONDS) // 1000 * 1000))


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file."""
    for block in read_line_blocks(path):
        yield from block


def unseen(paths: Iterable[Path], seen: set[str]) -> Iterator[str]:
    """The lines of text files that are not in `seen`, each once."""
    for path in paths:
        for line in read_lines(path):
            if (mark := fold(line)) and mark not in seen:
                seen.add(mark)
                yield line


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, in one step."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    temporary.rename(path)


def is_chosen(line: str, share: float) -> bool:
    """Whether a line is one of this share of all lines; always the same ones."""
    return zlib.crc32(line.encode()) < share * 2**32


def fold(line: str) -> str:
    """A line without case, punctuation and spaces, to recognize sentences that differ in nothing else."""
    return "".join(character for character in line.casefold() if character.isalnum())


def schedule(steps: int) -> tuple[str, ...]:
    """The settings of a run of this length: one evaluation, at the end; the last weights are better than averages."""
    return f"train.steps={steps}", f"train.save_every={steps // 2}", f"train.evaluate_every={steps}", "train.average=1"


def set_options(*settings: str) -> list[str]:
    """Settings as options of the command line."""
    return [part for setting in settings for part in ("--set", setting)]


def main() -> None:
    """Run the stages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("stages", nargs="+", choices=STAGES, metavar="STAGE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pair", choices=("en-de", "de-en"), action="append", help="both by default")
    for name, steps in (("teacher", TEACHER_STEPS), ("aligner", ALIGNER_STEPS), ("student", STUDENT_STEPS)):
        parser.add_argument(f"--{name}-steps", type=int, default=steps)
    parser.add_argument("--teacher-layers", type=int, default=TEACHER_LAYERS, help="layers of the teacher's encoder")
    parser.add_argument("--europarl-share", type=float, default=EUROPARL_SHARE, help="of Europarl is distilled")
    parser.add_argument("--minutes", type=float, help="the student is finished by then, with fewer steps if necessary")
    parser.add_argument("--weaknesses", type=Path, help="what the card says about known weaknesses")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    options = parser.parse_args()
    begun = time.monotonic()
    steps = {name: getattr(options, f"{name}_steps") for name in ("teacher", "aligner", "student")}
    makers = [
        Maker(options.data, options.out, pair, steps=steps, dry_run=options.dry_run)
        for pair in options.pair or ("en-de", "de-en")
    ]
    for stage in options.stages:
        for maker in makers:
            maker.stages, maker.europarl_share = options.stages, options.europarl_share
            maker.teacher_layers = options.teacher_layers
            if options.minutes is not None:
                maker.deadline = begun + 60 * options.minutes
            if options.weaknesses is not None:
                maker.weaknesses = options.weaknesses.read_text(encoding="utf-8")
            getattr(maker, stage)()


if __name__ == "__main__":
    main()
