"""The student: its size, its training files, and how int8 compares with float32 at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from dragoman.distillation.translations import TeacherLine
from dragoman.errors import TrainingError
from dragoman.files import write_atomically
from dragoman.modeldir.info import ModelInfo
from dragoman.values import suggest

Size = Literal["auto", "tiny", "small", "base"]
# Most of the layers are in the encoder, which runs once per sentence; the decoder runs once per token.
LAYERS: Final = ("model.norm_order=pre", "model.dropout=0.1", "model.encoder_layers=6", "model.decoder_layers=2")
STUDENTS: Final = {
    "tiny": (*LAYERS, "model.d_model=128", "model.n_heads=4", "model.d_ff=512", "text.vocabulary_size=8000"),
    "small": (*LAYERS, "model.d_model=256", "model.n_heads=4", "model.d_ff=1536", "text.vocabulary_size=10000"),
    "base": (*LAYERS, "model.d_model=512", "model.n_heads=8", "model.d_ff=2048", "text.vocabulary_size=32000"),
}
SMALL_PAIRS: Final = 60_000  # from here on "auto" is small, at most 12 MB in int8


def student_changes(size: str, pairs: int) -> tuple[str, ...]:
    """The settings of a student of this size; "auto" chooses by the number of pairs."""
    if size not in get_args(Size):
        raise TrainingError(f"unknown size {size!r}{suggest(size, get_args(Size))}", code="unknown_choice")
    return STUDENTS[size if size != "auto" else "small" if pairs >= SMALL_PAIRS else "tiny"]


@dataclass(frozen=True)
class StudentData:
    """The files that a student is trained on."""

    source: Path
    target: Path
    alignment: Path | None = None


def write_student_data(folder: Path, lines: Iterable[TeacherLine], info: ModelInfo, alignment: bool) -> StudentData:
    """Write the kept lines as parallel files whose names tell the languages of the teacher."""
    pair = info.language_pair or ("source", "target")
    data = StudentData(
        folder / f"distilled.{pair[0]}",
        folder / f"distilled.{pair[1]}",
        folder / "distilled.align" if alignment else None,
    )
    kept = list(lines)
    if not kept:
        raise TrainingError("no translation is left to train the student on; see report.json", code="no_pairs_left")
    for path, rows in (
        (data.source, (" ".join(line.source.split()) for line in kept)),
        (data.target, (" ".join(line.target.split()) for line in kept)),
        (data.alignment, (line.alignment for line in kept)),
    ):
        if path is not None:
            write_atomically(path, "\n".join(rows) + "\n")
    return data


@dataclass(frozen=True)
class Comparison:
    """BLEU of teacher, student and student in int8 on the same sentences; `against` says what the references are."""

    against: str
    sentences: int
    student: float
    int8: float
    teacher: float | None = None

    def __str__(self) -> str:
        teacher = "" if self.teacher is None else f"teacher {self.teacher:.1f}, "
        return (
            f"BLEU on {self.sentences:,} sentences ({self.against}): {teacher}student {self.student:.1f}, in int8 "
            f"{self.int8:.1f} ({self.int8 - self.student:+.1f})"
        )


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of a test set."""
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU().corpus_score(list(hypotheses), [list(references)]).score)
