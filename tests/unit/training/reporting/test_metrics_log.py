"""The log of a run: what is damaged in it is left out, and nothing else is lost."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dragoman.config import Recipe
from dragoman.training.reporting.metrics import MetricsLog, TrainingResult, draw_training_curves

ENTRIES = [
    {"step": 3, "loss": 5.5, "nll": 5.25, "gradient_norm": 1.5, "seconds": 0.25},
    {"step": 3, "valid": {"loss": 5.0, "bleu": 1.5}},
    {"step": 6, "loss": 4.5, "nll": 4.25, "gradient_norm": 1.25, "seconds": 0.25},
    {"step": 6, "valid": {"loss": 4.0, "bleu": 2.5}},
]
WRONG = {
    "cut": b'{"step": 6, "lo',
    "no object": b"[3]",
    "no JSON": b"\x00\x00\x00",
    "not UTF-8": b'{"step": 6, "loss": 1, "nll": 1, "\xff": 2}',
    "no step": b'{"stap": 6, "loss": 1, "nll": 1}',
    "a step of text": b'{"step": "6", "loss": 1, "nll": 1}',
    "a step of too many digits": b'{"step": ' + b"9" * 5000 + b', "loss": 1, "nll": 1}',
    "a step that is too large": b'{"step": 99999999999999999999, "loss": 1, "nll": 1}',
    "no nll": b'{"step": 6, "loss": 1}',
    "a loss of text": b'{"step": 6, "loss": "1", "nll": 1}',
    "an evaluation without a loss": b'{"step": 6, "valid": {"bleu": 1}}',
    "an evaluation of nothing": b'{"step": 6, "valid": null}',
    "a BLEU of text": b'{"step": 6, "valid": {"loss": 1, "bleu": "1"}}',
    "nested": b"[" * 100_000,
}


def written(folder: Path) -> tuple[MetricsLog, bytes]:
    folder.mkdir(exist_ok=True)
    log = MetricsLog(folder / "metrics.jsonl")
    for entry in ENTRIES:
        log.append(entry)
    return log, log.path.read_bytes()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_line_is_left_out(tmp_path: Path, wrong: str) -> None:
    log, whole = written(tmp_path / "training")
    log.path.write_bytes(whole + WRONG[wrong] + b"\n" + whole)
    assert list(log.read()) == ENTRIES + ENTRIES


def test_a_log_that_is_gone_or_not_a_file_is_empty(tmp_path: Path) -> None:
    assert list(MetricsLog(tmp_path / "nothing").read()) == []
    assert list(MetricsLog(tmp_path).read()) == []


def test_whatever_is_flipped_or_cut_the_result_can_be_read_and_drawn(tmp_path: Path) -> None:
    log, whole = written(tmp_path)
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"steps": 6, "scores": {"loss": 4.0}}))
    scores, draw = result.read_bytes(), random.Random(3)
    for number in range(400):
        for path, content in ((log.path, whole), (result, scores)):
            place = draw.randrange(len(content))
            flipped = content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
            path.write_bytes(draw.choice((flipped, content[:place], content[:place] + content[place + 20 :])))
        found = TrainingResult.read(tmp_path, Recipe())
        assert len(found.curve) <= len(ENTRIES) and all(isinstance(x, int | float) for x in found.metrics.values())
        if number % 80 == 0:  # drawing takes a while
            draw_training_curves(found.curve, tmp_path / "curve.png")


def test_a_partial_line_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    log, whole = written(tmp_path)
    log.path.write_bytes(whole[:-20])
    resumed = MetricsLog(log.path)
    assert not resumed.truncate(len(ENTRIES)) and resumed.lines == len(ENTRIES) - 1
    resumed.append(ENTRIES[-1])
    assert list(resumed.read()) == ENTRIES and resumed.lines == len(ENTRIES)
    assert MetricsLog(log.path).truncate(len(ENTRIES)) and log.path.read_bytes() == whole
