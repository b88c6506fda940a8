"""What the Ray launcher does by itself: the environment of a rank, requests to stop, output, messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.cluster.training import (
    STOP,
    connect,
    describe_failure,
    fit_in_thread,
    follow,
    rank_environment,
    scratch_directory,
    signals_unblocked,
)
from dragoman.errors import MissingExtraError
from raising import raises


def test_a_rank_sees_what_torchrun_would_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = rank_environment(5, 8, 1, 2, "10.0.0.1", 4000)
    assert [found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")] == ["5", "8", "1", "2"]
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("10.0.0.1", "4000")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")  # Ray shows a worker one GPU, which is then its first
    assert rank_environment(5, 8, 1, 2, "10.0.0.1", 4000)["LOCAL_RANK"] == "0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert rank_environment(5, 8, 1, 2, "10.0.0.1", 4000)["LOCAL_RANK"] == "1"


def test_a_request_to_stop_reaches_the_rank(tmp_path: Path) -> None:
    program = "import signal; print('ready', flush=True); signal.pause()"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # as Ray blocks signals in its workers
    with signals_unblocked():
        rank = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert signal.pthread_sigmask(signal.SIG_SETMASK, before) == {*before, signal.SIGTERM}
    assert rank.stdout is not None and rank.stdout.readline() == b"ready\n"
    (tmp_path / STOP).write_text(str(int(signal.SIGTERM)))
    code = follow(rank, tmp_path / STOP)
    rank.stdout.close()
    assert code == -signal.SIGTERM


def test_signals_and_output_pass_through_the_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()

    def fit() -> None:
        (tmp_path / "output-1").write_text("rank 1 begins\n")
        os.kill(os.getpid(), signal.SIGTERM)
        while not (tmp_path / STOP).exists():
            asked.wait(0.01)
        (tmp_path / "output-1").write_text("rank 1 begins\nrank 1 ends\n")

    before = signal.getsignal(signal.SIGTERM)
    fit_in_thread(fit, tmp_path)
    assert (tmp_path / STOP).read_text() == str(int(signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err == "rank 1 begins\nrank 1 ends\n"


def test_an_error_of_ray_is_raised_here(tmp_path: Path) -> None:
    def fit() -> None:
        raise ValueError("no such node")

    with pytest.raises(ValueError, match="no such node"):
        fit_in_thread(fit, tmp_path)


def test_the_message_names_the_ranks_that_failed() -> None:
    failures = {3: RuntimeError("Traceback\n  ...\nrank 3 on node-b ended with SIGKILL"), 1: RuntimeError("gone")}
    found = describe_failure("Training failed", failures)
    assert "rank 1: gone; rank 3: rank 3 on node-b ended with SIGKILL" in found and "same command" in found
    assert "no controller" in describe_failure("Training failed:\nno controller", {})


def test_the_scratch_directory_leaves_nothing(tmp_path: Path) -> None:
    with scratch_directory(tmp_path / "m") as scratch:
        (scratch / "left").write_text("")
        assert scratch.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_without_ray_the_error_has_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(MissingExtraError, "missing_extra", "dragoman[ray]"):
        connect("", 2)
