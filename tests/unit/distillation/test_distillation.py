"""Distillation: choosing and dropping translations, resuming, and a student from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import sacrebleu

import dragoman
from command_line import leave
from dragoman.data.prepared import Prepared
from dragoman.distillation import selection
from dragoman.distillation.selection import RULES, SelectionReport, SelectionRules, select_lines
from dragoman.distillation.student import STUDENTS, student_changes
from dragoman.distillation.teacher import TeacherSettings, read_sources, translate_sources
from dragoman.distillation.translations import TeacherLine, chunk_path, read_chunks
from dragoman.errors import DataError, TrainingError
from dragoman.files import write_atomically
from dragoman.modeldir.int8 import MAX_FILE_BYTES
from dragoman.models.loading import parameter_counts
from dragoman.progress import SilentReporter
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import LINES, write_tiny_model

SETTINGS = TeacherSettings(["a"], ["b"], [], beam=3, n_best=2, alignment=True)


class Teacher:
    """A translator whose second best translation is the source in capitals; counts what it translated."""

    def __init__(self, stop_at: str = "") -> None:
        self.lines, self.stop_at = 0, stop_at

    def stream(self, texts: Iterable[str], beam: int, n_best: int, alignment: bool) -> Iterator[Translation]:
        for text in texts:
            self.lines += 1
            if text == self.stop_at:
                raise KeyboardInterrupt
            yield Translation(
                f"{text} first",
                log_probability=-2.0,
                tokens=("x",),
                alignment=((0, 0),),
                alternatives=(Translation(text.upper(), log_probability=-6.0, tokens=("x", "y"), alignment=((0, 1),)),),
            )


def translated(folder: Path, teacher: Teacher, pairs: list[tuple[str, str | None]]) -> list[TeacherLine]:
    SETTINGS.confirm(folder)
    found = translate_sources(folder, cast(Any, teacher), SETTINGS, iter(pairs), len(pairs), SilentReporter())
    return list(found)


def test_the_best_by_sentence_bleu_is_taken_where_there_is_a_reference(tmp_path: Path) -> None:
    pairs = [("a b c d", "A B C D"), ("e f g h", "e f g h first"), ("", None), ("i j", None)]
    found = translated(tmp_path, Teacher(), pairs)
    assert [line.target for line in found] == ["A B C D", "e f g h first", "i j first"]
    assert [line.alignment for line in found] == ["0-1", "0-0", "0-0"]
    assert found[0].per_token == -2.0 and found[1].per_token == -1.0
    assert found[1].bleu == pytest.approx(sacrebleu.sentence_bleu("e f g h first", ["e f g h first"]).score)
    assert found[2].bleu is None


def test_chunks_on_disk_are_not_translated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.distillation.translations.CHUNK_LINES", 4)
    pairs: list[tuple[str, str | None]] = [(f"line {i}", None) for i in range(10)]
    whole, teacher = translated(tmp_path / "whole", Teacher(), pairs), Teacher(stop_at="line 6")
    with pytest.raises(KeyboardInterrupt):
        translated(tmp_path / "m", teacher, pairs)
    teacher = Teacher()
    assert translated(tmp_path / "m", teacher, pairs) == whole and [line.source for line in whole] == [
        s for s, _ in pairs
    ]
    assert teacher.lines == 6  # the first chunk was there
    write_atomically(tmp_path / "m/000001.jsonl", "damaged")
    assert translated(tmp_path / "m", teacher, pairs) == whole
    assert teacher.lines == 10
    changed = [("other", None), *pairs[1:]]
    assert translated(tmp_path / "m", teacher, changed)[0].source == "other"


def test_stored_lines_are_those_of_single_translations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.distillation.translations.CHUNK_LINES", 3)
    translator = Translator.load(write_tiny_model(tmp_path / "teacher", languages=(("en",), ("de",))), device="cpu")
    texts = ["the old box", "", "seven boxes stand. Nobody sees them. The hall!", "nobody", " ", "box", "", "hall"]
    settings = replace(SETTINGS, beam=2, n_best=1, alignment=False)
    found = translate_sources(
        tmp_path, translator, settings, iter([(text, None) for text in texts]), len(texts), SilentReporter()
    )
    lines = list(found)
    assert found.chunks == 3 and [line.source for line in lines] == [text for text in texts if text.strip()]
    for line in lines:
        alone = translator.translate(line.source, **settings.search)
        n_tokens = alone.n_tokens  # before the tokens are computed
        assert n_tokens == len(alone.tokens) == alone.n_tokens
        assert (line.target, line.flags) == (alone.text, alone.flags)
        assert line.per_token == pytest.approx(alone.log_probability / (n_tokens + 1), rel=1e-5)


def test_the_lines_of_a_chunk_are_collected_once(tmp_path: Path) -> None:
    (chunk,) = read_chunks(tmp_path, iter([("a", None), (" ", None)]))
    assert chunk.given == [("a", None)] and chunk.given is chunk.given  # not again each time it is read


def test_other_settings_do_not_resume(tmp_path: Path) -> None:
    replace(SETTINGS, beam=3).confirm(tmp_path)
    SETTINGS.confirm(tmp_path)  # nothing has been translated yet
    chunk_path(tmp_path, 0).touch()
    SETTINGS.confirm(tmp_path)
    with raises(TrainingError, "run_mismatch", "beam"):
        replace(SETTINGS, beam=5).confirm(tmp_path)


def test_each_rule_drops_what_it_says() -> None:
    good = TeacherLine("good morning to you", "guten Morgen an Sie", -0.5)
    broken = {
        "empty": good._replace(target=" "),
        "length": good._replace(target="x" * 200),
        "repetition": good._replace(flags=("repetitive",)),
        "copy": good._replace(flags=("copied",)),
        "reference": good._replace(bleu=4.0),
        "score": good._replace(per_token=-9.0),
    }
    assert broken.keys() == RULES.keys()
    report = SelectionReport()
    lines = [good] * 20 + list(broken.values())
    kept = list(select_lines(lines, SelectionRules(score_share=0.05, min_bleu=5.0), report))
    assert kept == [good] * 20 and (report.read, report.kept) == (26, 20)
    assert report.dropped == dict.fromkeys(RULES, 1)
    assert report.to_json()["rules"]["copy"]["examples"] == [(good.source, good.target)]


def test_scores_are_compared_among_lines_of_similar_length() -> None:
    sentences = [TeacherLine(f"a sentence of some length, {i}", f"ein Satz einer Länge, {i}", -0.1) for i in range(10)]
    words = [TeacherLine("word", "Wort", -0.8 - 0.1 * i) for i in range(10)]
    kept = list(select_lines([*sentences, *words], SelectionRules(score_share=0.2), SelectionReport()))
    assert kept == [*sentences, *words[:8]]


def test_references_must_match(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\n")
    (tmp_path / "b").write_text("x\n")
    with raises(DataError, "count_mismatch", "a has 2 lines but", "b has 1;"):
        list(read_sources([tmp_path / "a"], [tmp_path / "b"]))
    with raises(DataError, "count_mismatch", "b has 1 line but", "a has 2;"):
        list(read_sources([tmp_path / "b"], [tmp_path / "a"]))


def test_a_small_student_has_at_most_12_megabytes() -> None:
    assert student_changes("auto", 1000) == STUDENTS["tiny"] and student_changes("auto", 10**6) == STUDENTS["small"]
    recipe = dragoman.Recipe.from_changes(list(STUDENTS["small"]))
    assert sum(parameter_counts(recipe.model, recipe.text.vocabulary_size).values()) < 11_800_000 < 12e6
    assert MAX_FILE_BYTES <= 8e6
    with raises(TrainingError, "unknown_choice"):
        student_changes("large", 5)


def test_a_student_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selection, "failed_rule", lambda line, rules: None if line.target.strip() else "empty")
    teacher = write_tiny_model(tmp_path / "teacher", languages=(("en",), ("de",)))
    words = sorted({word for line in LINES for word in line.split()})
    texts = [f"{a} {b}" for a in words for b in words[::4]]
    (tmp_path / "more.en").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    small = ("model.d_model=16", "model.n_heads=2", "model.d_ff=24", "model.encoder_layers=1")
    run = ("train.steps=6", "train.evaluate_every=6", "train.save_every=6", "train.average=1", "train.warmup_steps=3")
    data = ("text.vocabulary_size=300", "data.max_ratio=50", "data.valid_pairs=8")
    sets = [word for change in (*small, *run, *data) for word in ("--set", change)]
    files = ("--source", str(tmp_path / "more.en"), "--out", str(tmp_path / "student"))
    line = ("distill", str(teacher), *files, "--beam", "1", "--device", "cpu", *sets)
    code, out, err = leave(capsys, *line)
    assert code == 0, err
    assert "in int8" in out
    report_file = tmp_path / "student/training/distillation/report.json"
    report = json.loads(report_file.read_text(encoding="utf-8"))
    prepared = Prepared.open(tmp_path / "student/training/prepared")
    assert report["read"] == len(texts) and prepared.has_alignment and prepared.report["read"] == report["kept"]
    for name in ("student", "student-int8"):
        translator = Translator.load(tmp_path / name)
        assert translator.alignment_head.head == 0 and translator.translate("the box").text is not None
        assert "## Distillation" in (tmp_path / name / "card.md").read_text(encoding="utf-8")
    assert dragoman.verify(tmp_path / "student-int8").passed
    monkeypatch.setattr("dragoman.distillation.translations.TeacherChunk.write", None)  # nothing is translated again
    code, again, _ = leave(capsys, *line)
    assert (code, again) == (0, out)
    before = report_file.read_text(encoding="utf-8")
    code, _, err = leave(capsys, *line, "--drop", "0.5")
    assert (code, "was started with score_share=0.02" in err) == (2, True), err
    assert report_file.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "large"], "large"),
        (["--set", "train.stepz=10"], "train.stepz"),
        (["--set", "data.batch_tokens=10"], "data.batch_tokens"),
        (["--minutes", "-3"], "minutes"),
        (["--nbest", "2"], "without references"),
        (["--min-bleu", "20"], "without references"),
        (["--valid-source", "some.en", "--valid-target", "fewer.de"], "fewer.de"),
        (["--out", "teacher"], "teacher is a teacher"),
        (["--out", "other"], "other-int8 already exists"),
    ],
)
def test_mistakes_are_reported_before_anything_is_translated(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_model(tmp_path / "teacher", languages=(("en",), ("de",)))
    (tmp_path / "some.en").write_text("the old box\n" * 9, encoding="utf-8")
    (tmp_path / "fewer.de").write_text("der alte Kasten\n", encoding="utf-8")
    (tmp_path / "other-int8").mkdir()
    (tmp_path / "other-int8" / "mine").write_text("keep this", encoding="utf-8")
    out = [] if "--out" in words else ["--out", "student"]
    code, _, err = leave(capsys, "distill", "teacher", "--source", "some.en", "--device", "cpu", *out, *words)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "student").exists() and not (tmp_path / "teacher" / "training").exists()
    assert (tmp_path / "other-int8" / "mine").exists()


def test_an_ensemble_may_teach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "failed_rule", lambda line, rules: None)
    models = [write_tiny_model(tmp_path / name, languages=(("en",), ("de",))) for name in ("one", "two")]
    (tmp_path / "some.en").write_text("the old box\nseven boxes\n" * 9, encoding="utf-8")
    with raises(DataError, "no_pairs_left"):  # training begins, and would align the words itself
        dragoman.distill(models, source=tmp_path / "some.en", out=tmp_path / "student", beam=1, device="cpu")
    folder = tmp_path / "student/training/distillation"
    assert (folder / "distilled.de").exists() and not (folder / "distilled.align").exists()
