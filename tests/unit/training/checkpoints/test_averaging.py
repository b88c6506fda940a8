"""Averaging: the mean of each weight, a model directory that loads, and errors for incompatible models."""

from __future__ import annotations

import resource
import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.cli import main
from dragoman.config import Recipe
from dragoman.errors import RecipeError, TrainingError
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import verify_model
from dragoman.models.loading import load_model
from dragoman.text.special_tokens import PAD
from dragoman.training.checkpoints.averaging import common_info, parts_of_run, write_average
from raising import raises
from small_model import model_at
from tiny_run import prepare_tiny, tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("averaging")
    prepare_tiny(folder)
    tiny_run(folder, folder / "run", "train.keep=5")
    shutil.copytree(folder / "prepared", folder / "run" / "training" / "prepared")
    return folder / "run"


def steps_of(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (run / "training" / "checkpoints").glob("step-*"))


REGULAR = [4, 8, 12, 14]  # every fourth step, and the end


def by_hand(files: list[Path]) -> dict[str, torch.Tensor]:
    sets = [load_file(file) for file in files]
    return {name: torch.stack([each[name].double() for each in sets]).mean(0).float() for name in sets[0]}


def leave(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    try:
        main([str(arg) for arg in args])
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("last", [1, 2, 3])
def test_the_last_checkpoints(run: Path, tmp_path: Path, last: int) -> None:
    main(["average", str(run), "--out", str(tmp_path / "mean"), "--last", str(last)])
    steps = REGULAR[-last:]
    expected = by_hand([run / "training" / "checkpoints" / f"step-{s:08d}" / "model.safetensors" for s in steps])
    found = load_file(tmp_path / "mean" / "model.safetensors")
    assert set(found) == set(expected)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-6, atol=1e-8)
    verify_model(tmp_path / "mean")
    card = (tmp_path / "mean" / "card.md").read_text()
    assert all(f"step {step} |" in card for step in steps)
    assert "numbers.en" in card
    assert str(run.parent) not in card


def test_chosen_steps_and_a_model_that_loads(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [steps_of(run)[0], steps_of(run)[-1]]
    code, out, _ = leave(capsys, "average", run, "--out", tmp_path / "m", "--checkpoints", f"{steps[1]},{steps[0]}")
    assert code == 0
    assert f"step {steps[0]}; " in out
    expected = by_hand([run / "training" / "checkpoints" / f"step-{s:08d}" / "model.safetensors" for s in steps])
    model, recipe = load_model(tmp_path / "m", PAD)
    assert recipe == Recipe.load(run / "recipe.toml")
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-8)


def test_a_training_that_is_not_finished(run: Path, tmp_path: Path) -> None:
    going = tmp_path / "going"
    shutil.copytree(run / "training", going / "training")
    write_average(parts_of_run(going, 2), tmp_path / "mean")
    write_average(parts_of_run(run, 2), tmp_path / "same")
    for name in ("model.safetensors", "recipe.toml", "model.json", "shared.spm"):
        assert (tmp_path / "mean" / name).read_bytes() == (tmp_path / "same" / name).read_bytes()


def test_whole_models(tmp_path: Path) -> None:
    places = [model_at(tmp_path / f"m{seed}", seed) for seed in (1, 2, 3)]
    main(["average", *map(str, places), "--out", str(tmp_path / "mean")])
    expected = by_hand([place / "model.safetensors" for place in places])
    for name, tensor in load_model(tmp_path / "mean", PAD)[0].state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-8)


def test_languages_and_license_are_kept_where_the_parts_agree(run: Path, tmp_path: Path) -> None:
    assert read_info(run).language_pair == ("en", "de")  # of numbers.en and numbers.de
    write_average(parts_of_run(run, 2), tmp_path / "mean")
    assert read_info(tmp_path / "mean") == read_info(run)
    known, silent = ModelInfo(300, ("en",), ("de",), "CC0-1.0"), ModelInfo(300)
    assert common_info([silent, known, known]) == known
    other = ModelInfo(300, ("en",), ("fr",), "MIT")
    assert common_info([known, other]) == ModelInfo(300, ("en",))


def test_what_does_not_fit_is_refused_with_both_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = model_at(tmp_path / "one", 1)
    wide = model_at(tmp_path / "wide", 2, d_ff=14)
    code, _, err = leave(capsys, "average", one, wide, "--out", tmp_path / "mean")
    assert code == 2
    assert f"{one} has model.d_ff=10 but {wide} has 14" in err
    other = model_at(tmp_path / "other", 2, words="vier fünf sechs sieben")
    code, _, err = leave(capsys, "average", one, other, "--out", tmp_path / "mean")
    assert code == 2
    assert str(one) in err and str(other) in err and "vocabulary" in err
    assert not (tmp_path / "mean").exists()


def test_mistakes_are_messages(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = steps_of(run)
    one = model_at(tmp_path / "one", 1)
    cases = [
        ([run, "--checkpoints", "999"], f"no checkpoint of step 999; available: {there[0]}"),
        ([run, "--checkpoints", "best"], "such as 1000,2000; got 'best'"),
        ([run, "--checkpoints", ","], "such as 1000,2000; got none"),
        ([run, "--last", "99"], f"--last 99 is more than the {len(REGULAR)} regular checkpoints that {run} has"),
        ([run, "--last", "2", "--checkpoints", "4"], "cannot be combined"),
        ([run, one, "--last", "2"], "2 directories"),
        ([one], "has no checkpoints"),
        ([one, tmp_path], "is not a model"),
        ([tmp_path / "nowhere"], f"available in {tmp_path}: one"),
        ([tmp_path / "onee"], f"did you mean {one}?"),
        ([run.with_name("rnu")], f"did you mean {run}?"),
    ]
    for arguments, message in cases:
        code, _, err = leave(capsys, "average", *arguments, "--out", tmp_path / "mean")
        assert (code, message in err, "Traceback" in err) == (2, True, False), err
    code, _, err = leave(capsys, "average", run, "--out", one)
    assert code == 2
    assert f"{one} already exists and contains card.md, manifest.json" in err
    verify_model(one)


def test_no_room_for_the_average(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))  # as a full disk: safetensors fails in its own way
    try:
        code, _, err = leave(capsys, "average", run, "--out", tmp_path / "mean")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert (code, "File too large" in err and str(tmp_path / "mean") in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_not_averaged(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    step = steps_of(copy)[-1]
    file = copy / "training" / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)
    code, _, err = leave(capsys, "average", copy, "--last", 2, "--out", tmp_path / "mean")
    assert code == 2
    assert "was changed or damaged" in err
    assert not (tmp_path / "mean").exists()


def test_a_checkpoint_of_ctrl_c_is_averaged_only_by_its_step(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    saved = copy / "training" / "checkpoints"
    shutil.copytree(saved / "step-00000012", saved / "step-00000013")  # as a stop after step 13 leaves it
    assert "step 12; copy, step 14" in leave(capsys, "average", copy, "--last", 2, "--out", tmp_path / "regular")[1]
    code, out, _ = leave(capsys, "average", copy, "--checkpoints", "13", "--out", tmp_path / "one")
    assert (code, "the model of one checkpoint: copy, step 13" in out) == (0, True)
    for name, tensor in by_hand([saved / "step-00000013" / "model.safetensors"]).items():
        assert torch.equal(tensor, load_file(tmp_path / "one" / "model.safetensors")[name])


def test_a_number_of_checkpoints_below_one_is_rejected(run: Path, tmp_path: Path) -> None:
    for last in (0, -2):
        with raises(RecipeError, "out_of_range", str(last)):
            dragoman.average(run, out=tmp_path / "mean", last=last)


def test_the_same_model_twice_is_rejected(run: Path, tmp_path: Path) -> None:
    one = model_at(tmp_path / "one", 1)
    (tmp_path / "link").symlink_to(one)
    for other in (one, tmp_path / "link"):
        with raises(TrainingError, "duplicate_model", str(other)):
            dragoman.average([one, other], out=tmp_path / "mean")
