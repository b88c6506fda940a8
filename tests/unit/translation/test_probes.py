"""Probes: every engine finds again what it gave, and a machine that computes something else is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dragoman
import dragoman.modeldir.save
from command_line import leave
from dragoman.engines.torch import TorchEngine
from dragoman.errors import DamagedError, DragomanError
from dragoman.modeldir.layout import verify_model
from dragoman.modeldir.probe_file import PROBES, read_probes
from dragoman.search.types import Search
from dragoman.translation import probes
from dragoman.translation.probes import store_probes, verify_probes
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import LINES, write_tiny_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = write_tiny_model(tmp_path / "m")
    store_probes(directory, LINES)
    return directory


def test_the_probes_are_what_the_reference_gives(model: Path) -> None:
    verify_model(model)
    stored = read_probes(model)
    assert stored is not None and [probe.text for probe in stored.probes] == [
        line for line in LINES if len(Translator.load(model).source.encode(line)) <= probes.MAX_TOKENS
    ]
    engine = TorchEngine.load(model)
    for probe in stored.probes:
        best = engine.search([probe.ids], Search(extra_length=probes.EXTRA_LENGTH))[0][0]
        result = probe.results["torch float32"]
        assert result.ids == tuple(best.ids)
        assert result.log_probability == pytest.approx(best.log_probability, abs=1e-4)
        weights = next(engine.cross_maps([(probe.ids, best.ids)]))[1][stored.layer].mean(0)
        for row, stored_row in zip(weights.tolist(), result.attention, strict=True):
            assert [1000 * weight for weight in row] == pytest.approx(list(stored_row), abs=0.6)


def test_this_machine_computes_the_same(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "verify", str(model), "--json")
    report = json.loads(out)
    found = {f"{check['engine']} {check['precision']}": check["status"] for check in report["checks"]}
    assert code == 0 and report["passed"]
    assert found["native int8"] == "identical" and found["native float32"] == "identical"
    assert found["torch float32"] in ("identical", "same")
    code, out, _ = leave(capsys, "verify", str(model))
    assert code == 0 and "identical" in out


@pytest.mark.parametrize("what", ["ids", "log_probability", "attention"])
def test_another_result_is_noticed(model: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = model / PROBES
    lines = path.read_text(encoding="utf-8").splitlines()
    probe = json.loads(lines[1])
    result = probe["results"]["native int8"]
    if what == "attention":
        result[what][0][0] += 200
    elif what == "ids":
        result[what][-1] += 1
    else:
        result[what] += 0.2
    lines[1] = json.dumps(probe)
    dragoman.modeldir.save.add_file(model, PROBES, "\n".join(lines) + "\n")
    report = verify_probes(model)
    assert [check.status == "differs" for check in report.checks if check.engine == "native"] == [True, False]
    assert leave(capsys, "verify", str(model))[0] == 2


def test_damage_and_missing_probes_are_errors(model: Path, tmp_path: Path) -> None:
    with raises(DragomanError, "no_probes"):
        verify_probes(write_tiny_model(tmp_path / "bare"))
    dragoman.modeldir.save.add_file(model, PROBES, '{"format": 9}\n')
    with raises(DamagedError, "file_damaged"):
        verify_probes(model)
    (model / PROBES).write_text("x")
    with raises(DamagedError, "file_damaged"):
        verify_probes(model)


@pytest.mark.parametrize(
    "changes",
    [
        ("text.targets=['de','fr']",),
        ("model.architecture=recurrent", "model.attention=none", "model.decoder_layers=1"),
        ("model.architecture=recurrent", "model.decoder_layers=3"),
        ("model.positions=syntax",),
        ("model.architecture=convolutional",),
    ],
)
def test_other_models_have_probes_too(changes: tuple[str, ...], tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "m", *changes)
    store_probes(directory, [] if "syntax" in changes[0] else LINES)
    assert verify_probes(directory).passed


def test_models_made_of_a_model_get_its_probes(model: Path, tmp_path: Path) -> None:
    dragoman.quantize(model, out=tmp_path / "small")
    dragoman.average([model, write_tiny_model(tmp_path / "other", seed=4)], out=tmp_path / "mean")
    for name in ("small", "mean"):
        stored, before = read_probes(tmp_path / name), read_probes(model)
        assert stored is not None and before is not None
        assert [probe.text for probe in stored.probes] == [probe.text for probe in before.probes]
        assert dragoman.verify(tmp_path / name).passed


def test_probes_fit_into_learned_positions(tmp_path: Path) -> None:
    settings = ("model.positions=learned", "model.max_positions=10", "data.max_tokens=9")
    directory = write_tiny_model(tmp_path / "short", *settings)
    store_probes(directory, LINES)
    stored = read_probes(directory)
    assert stored is not None and stored.probes and all(len(probe.ids) <= 9 for probe in stored.probes)
    assert verify_probes(directory).passed
