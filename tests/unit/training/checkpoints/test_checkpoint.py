"""Checkpoints: damaged ones are never loaded, and a full disk leaves the last one intact."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DamagedError, TrainingError
from dragoman.progress import SilentReporter
from dragoman.training.checkpoints.checkpoint import Checkpoint, Checkpoints, average_weights, equal_checkpoints
from raising import raises
from tiny_run import Telling, difference, outcome, prepare_tiny, start, tiny_run


def checkpoint(step: int) -> Checkpoint:
    torch.manual_seed(step)
    weights = {"w": torch.randn(3, 5), "b": torch.randn(7), "count": torch.tensor(step)}
    state = {"w/exp_avg": torch.randn(3, 5), "w/step": torch.tensor(float(step))}
    progress = {"loader": 11 * step, "window": {"norm": 1 / 3 + step}, "best_value": None, "tiny": 5e-324}
    return Checkpoint(step, weights, state, {"w": torch.randn(3, 5)}, progress)


def store(directory: Path, *steps: int) -> tuple[Checkpoints, list[str]]:
    warnings: list[str] = []
    checkpoints = Checkpoints(directory, warnings.append)
    for step in steps:
        checkpoints.save(checkpoint(step))
    return checkpoints, warnings


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path) -> None:
    checkpoints, warnings = store(tmp_path, 4, 8)
    loaded = checkpoints.load()
    assert loaded is not None
    assert equal_checkpoints(loaded, checkpoint(8)) and not equal_checkpoints(loaded, checkpoint(4))
    assert loaded.state["tiny"] == 5e-324
    assert (tmp_path / "latest").read_text() == "step-00000008\n"
    assert not warnings
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("left", [b"step-00000004\n", b"\xff", None])
def test_a_pointer_that_was_left_behind_is_put_right(tmp_path: Path, left: bytes | None) -> None:
    checkpoints, _ = store(tmp_path, 4, 8)
    (tmp_path / "latest").unlink() if left is None else (tmp_path / "latest").write_bytes(left)
    assert checkpoints.load() is not None
    assert (tmp_path / "latest").read_text() == "step-00000008\n"


def test_same_sees_a_single_bit() -> None:
    one, other = checkpoint(1), checkpoint(1)
    other.optimizer["w/exp_avg"].view(torch.int32)[2, 4] ^= 1
    assert equal_checkpoints(one, checkpoint(1)) and not equal_checkpoints(one, other)
    negative = checkpoint(1)
    one.model["b"][0], negative.model["b"][0] = 0.0, -0.0
    assert torch.equal(one.model["b"], negative.model["b"]) and not equal_checkpoints(one, negative)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("two")
    store(directory, 4, 8)
    return directory


FILES = ("model.safetensors", "optimizer.safetensors", "ema.safetensors", "progress.json", "manifest.json")


@given(file=st.sampled_from(FILES), where=st.floats(0, 1, exclude_max=True), bit=st.integers(-1, 7))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_or_a_cut_is_found_and_the_one_before_is_used(
    two: Path, file: str, where: float, bit: int
) -> None:
    path = two / "step-00000008" / file
    whole = path.read_bytes()
    place = int(where * len(whole))
    damaged = whole[:place] if bit < 0 else whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
    path.write_bytes(damaged)
    warnings: list[str] = []
    try:
        loaded = Checkpoints(two, warnings.append).load()
    finally:
        path.write_bytes(whole)
    assert loaded is not None
    if file == "manifest.json" and means_the_same(damaged, whole):
        assert equal_checkpoints(loaded, checkpoint(8))  # the space between words may change
    else:
        assert equal_checkpoints(loaded, checkpoint(4))
        assert "step-00000008" in warnings[0]


def means_the_same(damaged: bytes, whole: bytes) -> bool:
    try:
        return bool(json.loads(damaged) == json.loads(whole))
    except ValueError:
        return False


def test_missing_files_and_all_damaged(tmp_path: Path) -> None:
    checkpoints, warnings = store(tmp_path, 4, 8)
    (tmp_path / "step-00000008/ema.safetensors").unlink()
    loaded = checkpoints.load()
    assert loaded is not None and loaded.step == 4 and "is missing" in warnings[0]
    shutil.rmtree(tmp_path / "step-00000004")
    with raises(TrainingError, "file_damaged"):
        checkpoints.load()
    with pytest.raises(DamagedError):
        checkpoints.weights(8)


@pytest.mark.parametrize("part", ["model", "optimizer", "ema"])
def test_what_is_not_finite_is_not_saved(tmp_path: Path, part: str) -> None:
    checkpoints, _ = store(tmp_path, 4)
    bad = checkpoint(8)
    next(iter(bad.parts()[part].values()))[0, 0] = float("nan")
    with raises(TrainingError, "diverged", part, "step 8"):
        checkpoints.save(bad)
    assert checkpoints.steps() == [4]
    assert not list(tmp_path.glob(".*"))


def test_what_cannot_be_read_back_is_not_taken_for_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    checkpoints, _ = store(tmp_path, 4)
    real = safetensors.torch.save_file

    def lying(tensors: dict[str, torch.Tensor], path: Path) -> None:
        real({name: tensor + 0.25 for name, tensor in tensors.items()}, path)

    monkeypatch.setattr(safetensors.torch, "save_file", lying)
    with raises(TrainingError, "cannot_write", "step 4"):
        checkpoints.save(checkpoint(8))
    assert checkpoints.steps() == [4]
    assert not list(tmp_path.glob(".*"))


def test_pruning_keeps_what_it_is_told_and_tidying_removes_what_was_left(tmp_path: Path) -> None:
    checkpoints, _ = store(tmp_path, 4, 8, 12, 16)
    checkpoints.prune({8, 16})
    assert checkpoints.steps() == [8, 16]
    (tmp_path / ".step-00000020.staging").mkdir()
    (tmp_path / ".step-00000020.staging" / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".step-00000020.lock").touch()
    (tmp_path / ".latest.77.new").touch()
    (tmp_path / "step-00000016").rename(tmp_path / ".step-00000016.old")  # killed between two renames
    loaded = checkpoints.load()
    assert loaded is not None and equal_checkpoints(loaded, checkpoint(16))
    assert not list(tmp_path.glob(".*"))


def test_an_average_is_the_mean_and_refuses_what_does_not_match() -> None:
    weights = [{"w": torch.randn(3, 5), "n": torch.tensor(i)} for i in range(4)]
    mean = average_weights(weights)
    for row in range(3):
        for column in range(5):
            wanted = sum(float(w["w"][row, column]) for w in weights) / 4
            assert float(mean["w"][row, column]) == pytest.approx(wanted, rel=1e-6)
    assert int(mean["n"]) == 3
    with raises(TrainingError, "shape_mismatch", "'n'"):
        average_weights([weights[0], {"w": weights[1]["w"]}])
    with raises(TrainingError, "shape_mismatch", "(2, 5)"):
        average_weights([{"w": torch.zeros(2, 5)}, {"w": torch.zeros(3, 5)}])


def with_small_files(data: Path, out: Path, full_from: int) -> None:
    """Write as on a disk that is full from a step on: no file grows beyond what the log is long, and a little."""

    class Late(Telling):
        def step_done(self, step: int, target_tokens: float, loss: float) -> None:
            if step == full_from:
                limit = (out / "training/metrics.jsonl").stat().st_size + 10
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    tiny_run(data, out, reporter=Late())


@pytest.mark.parametrize(("full_from", "what"), [(8, "the checkpoint of step 8"), (9, "metrics.jsonl")])
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path: Path, full_from: int, what: str) -> None:
    prepare_tiny(tmp_path)
    tiny_run(tmp_path, tmp_path / "reference")
    process = start(with_small_files, tmp_path, tmp_path / "m", full_from, stderr=tmp_path / "stderr")
    process.join()
    said = (tmp_path / "stderr").read_text()
    assert process.exitcode == 2, said
    assert what in said and "File too large" in said
    checkpoints = Checkpoints(tmp_path / "m/training/checkpoints", lambda text: pytest.fail(text))
    assert not list(checkpoints.directory.glob(".*"))
    loaded = checkpoints.load()
    assert loaded is not None and loaded.step == (6 if full_from == 8 else 8)
    tiny_run(tmp_path, tmp_path / "m")
    assert difference(outcome(tmp_path / "reference"), outcome(tmp_path / "m")) == ""


def test_a_damaged_newest_checkpoint_does_not_push_out_a_good_one(tmp_path: Path) -> None:
    """Resumed from step 4 beside a damaged step 8, a run that is stopped at step 6 keeps step 6."""
    prepare_tiny(tmp_path)
    tiny_run(tmp_path, tmp_path / "reference")

    class Crash(BaseException):
        pass

    class At(SilentReporter):
        def __init__(self, step: int) -> None:
            self.step = step

        def logged(self, entry: dict[str, float]) -> None:
            if entry["step"] >= self.step:
                raise Crash

    out = tmp_path / "m"
    with pytest.raises(Crash):
        tiny_run(tmp_path, out, reporter=At(9))
    place = out / "training/checkpoints/step-00000008"
    (place / "optimizer.safetensors").write_bytes(b"x")
    warned: list[str] = []

    class AtSeven(At):
        def note(self, text: str) -> None:
            warned.append(text)

    with pytest.raises(Crash):
        tiny_run(tmp_path, out, reporter=AtSeven(6))
    assert "step-00000008" in warned[0]
    (place / "model.safetensors").write_bytes(b"y")
    tiny_run(tmp_path, out)
    assert difference(outcome(tmp_path / "reference"), outcome(out)) == ""
