"""From teachers and sources to a student's corpus, and the comparison at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dragoman.data.corpora.corpus import Corpus
from dragoman.distillation.alignment import align_translations
from dragoman.distillation.selection import SelectionReport, SelectionRules, select_lines
from dragoman.distillation.student import Comparison, corpus_bleu, student_changes, write_student_data
from dragoman.distillation.teacher import TeacherJob, TeacherSettings, count_lines, read_sources, translate_sources
from dragoman.errors import DataError, TrainingError
from dragoman.files import MANIFEST, check_new_directory, exclusive_lock, parse_json, sha256, write_atomically
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import CARD, TRAINING
from dragoman.modeldir.locate import find_model, is_model, model_name
from dragoman.modeldir.weights import weights_sha256
from dragoman.progress import Reporter
from dragoman.training.run_record import DISTILLATION, check_output_directory
from dragoman.translation.translator import Translator
from dragoman.values import plural

REPORT: Final = "report.json"
SELECTION: Final = "selection.json"
COMPARED: Final = 500  # sentences


@dataclass(frozen=True)
class DistillationPlan:
    """The arguments of `dragoman distill`; translations and reports are in `training/distillation` of the student."""

    teachers: Sequence[Path]
    sources: Sequence[Path]
    references: Sequence[Path]
    out: Path
    valid: Sequence[Corpus]
    beam: int
    n_best: int
    alignment: bool
    rules: SelectionRules
    device: str
    reporter: Reporter
    translate_elsewhere: Callable[[TeacherJob], None] | None = None  # before the missing lines are translated here
    reverse: Path | None = None

    def __post_init__(self) -> None:
        """Reject what cannot work before anything is translated."""
        if not self.teachers or not self.sources:
            raise DataError("give at least one teacher and one file of sources", code="missing_option")
        if self.references and len(self.references) != len(self.sources):
            raise DataError(
                f"got {plural(len(self.sources), 'source file')} but {plural(len(self.references), 'target file')}; "
                "give one target file for each source file, or none",
                code="count_mismatch",
            )
        if not 0 <= self.rules.score_share < 1:
            raise DataError(f"drop={self.rules.score_share} must be from 0 to below 1", code="out_of_range")
        if not 1 <= self.n_best <= self.beam:
            raise DataError(f"n_best={self.n_best} must be from 1 to the beam, {self.beam}", code="out_of_range")
        if self.reverse is not None and not self.alignment:
            raise DataError("reverse has no effect with alignment_weight=0; drop one of them", code="unused_option")
        if self.n_best > 1 and not self.references:
            raise DataError("n_best has no effect without references; give target files", code="unused_option")
        if self.rules.min_bleu and not self.references:
            raise DataError("min_bleu has no effect without references; give target files", code="unused_option")
        if self.out.resolve() in [Path(model).resolve() for model in (*self.teachers, self.reverse) if model]:
            raise TrainingError(f"{self.out} is a teacher; choose another --out", code="output_is_input")
        check_output_directory(self.out)
        if not self.folder.exists():
            check_new_directory(self.int8_directory)

    @property
    def folder(self) -> Path:
        """The directory of the translations."""
        return self.out / TRAINING / DISTILLATION

    @property
    def int8_directory(self) -> Path:
        """The directory of the student in int8."""
        return self.out.with_name(f"{self.out.name}-int8")

    def write_corpus(self) -> tuple[Corpus, SelectionReport]:
        """Translate, select and write the student's corpus; resumes where it stopped."""
        models = [find_model(teacher) for teacher in self.teachers]
        info = read_info(models[0])
        if len(info.target_languages) > 1:
            raise TrainingError(
                f"{models[0]} translates into {', '.join(info.target_languages)}; a teacher has one target language",
                code="several_targets",
            )
        reverse = None if self.reverse is None else self._find_reverse(info)
        files = (self.sources, self.references)
        in_search = self.alignment and reverse is None and len(models) == 1
        settings = TeacherSettings.of(models, *files, self.beam, self.n_best, in_search)
        with exclusive_lock(self.out / TRAINING / "distillation.lock", f"distilling into {self.out}"):
            settings.confirm(self.folder)
            if self.translate_elsewhere is not None:
                self.translate_elsewhere(
                    TeacherJob(models, settings, self.sources, self.references, self.folder, self.device)
                )
            translator = Translator.load(models[0], device=self.device, ensemble=models[1:])
            report = SelectionReport()
            try:
                total, pairs = count_lines(self.sources), read_sources(*files)
                stored = translate_sources(self.folder, translator, settings, pairs, total, self.reporter)
                self._confirm_selection(reverse)
                if reverse is not None:
                    align_translations(stored, models[0], reverse, self.device, self.reporter)
                aligned = in_search or reverse is not None  # the words of an ensemble are aligned when training starts
                data = write_student_data(self.folder, select_lines(stored, self.rules, report), info, aligned)
            finally:
                self.reporter.close()
            write_atomically(self.folder / REPORT, json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n")
        self.reporter.note(f"{report.summary()}; examples are in {self.folder / REPORT}")
        return Corpus(data.source, data.target, alignment=data.alignment), report

    def _confirm_selection(self, reverse: Path | None) -> None:
        """Record what decides the student's corpus, or raise if the student is trained on another one."""
        path = self.folder / SELECTION
        own = asdict(self.rules) | {"reverse": "" if reverse is None else sha256(reverse / MANIFEST)}
        trained = (self.out / TRAINING / "prepared").exists() and path.exists()
        if trained and (found := parse_json(path.read_bytes())) != own:
            changed = ", ".join(f"{key}={found.get(key)}" for key, value in own.items() if found.get(key) != value)
            raise TrainingError(f"{self.out} was started with {changed}; choose another --out", code="run_mismatch")
        write_atomically(path, json.dumps(own, indent=1) + "\n")

    def _find_reverse(self, teacher: ModelInfo) -> Path:
        """The model of the opposite direction."""
        found = find_model(self.reverse or "")
        pair, other = teacher.language_pair, read_info(found).language_pair
        if pair and other and pair != other[::-1]:
            raise TrainingError(
                f"{found} translates {'-'.join(other)}; --reverse needs a model for {'-'.join(pair[::-1])}",
                code="language_mismatch",
            )
        return found

    def student_changes(self, size: str, pairs: int, changes: Sequence[str]) -> tuple[str, ...]:
        """The settings of the student of this size, which are noted, with those that `changes` override."""
        own = {change.partition("=")[0].strip() for change in changes}
        chosen = [change for change in student_changes(size, pairs) if change.partition("=")[0] not in own]
        self.reporter.note(f"student: {', '.join([*chosen, *changes])}")
        return *chosen, *changes

    def int8_is_missing(self) -> bool:
        """Whether there is no model in int8 of the student's present weights."""
        card = self.int8_directory / CARD
        made_of = card.read_text(encoding="utf-8", errors="replace") if is_model(self.int8_directory) else ""
        return weights_sha256(self.out)[:16] not in made_of

    def compare(self, held_out: Sequence[tuple[str, str]]) -> Comparison:
        """Measure BLEU of the student in float32 and in int8, and record it in the cards of both.

        The references are those of the validation set, or the teacher's translations of held-out sentences.
        """
        pairs = held_out[:COMPARED]
        if not pairs:
            raise DataError("there is no validation set to compare on; give one", code="no_data")
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]

        def bleu(model: Path, precision: str, others: Sequence[Path] = ()) -> float:
            device = "cpu" if precision == "int8" else self.device
            translator = Translator.load(model, precision=precision, ensemble=others, device=device)
            return corpus_bleu([found.text for found in translator.translate(sources)], references)

        teachers = [find_model(teacher) for teacher in self.teachers]
        found = Comparison(
            "references" if self.valid else "the teacher's translations",
            len(pairs),
            bleu(self.out, "float32"),
            bleu(self.int8_directory, "auto"),
            bleu(teachers[0], "auto", teachers[1:]) if self.valid else None,
        )
        self.reporter.note(str(found))
        names = " + ".join(map(model_name, teachers))
        section = f"\n## Distillation\n\nA student of {names}, trained on its translations. {found}.\n"
        for directory in (self.out, self.int8_directory):
            card = directory / CARD
            text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
            if "## Distillation" not in text:
                write_atomically(card, text.rstrip() + "\n" + section)
        return found
