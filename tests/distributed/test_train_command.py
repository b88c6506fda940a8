"""`dragoman train` as a person uses it: in two processes, stopped with Ctrl-C, gone on with, finished, asked again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from dragoman.cli import main
from dragoman.training.distributed.heartbeat import Heartbeat, connect_store
from dragoman.training.distributed.launch import exit_code_after, wait
from tiny_run import TINY, member, start, write_corpus


def words(directory: Path, *changes: str) -> list[str]:
    corpus = write_corpus(directory)
    settings = [word for change in (*TINY, *changes) for word in ("--set", change)]
    sides = ["--source", str(corpus.source), "--target", str(corpus.target)]
    return ["train", *sides, "--out", str(directory / "m"), "--recipe", "tiny", *settings]


def test_two_processes_stopped_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = words(tmp_path, "train.steps=40", "train.evaluate_every=40")
    log = tmp_path / "stderr"
    with log.open("wb") as errors:
        run = subprocess.Popen(
            [sys.executable, "-m", "dragoman", *command, "--processes", "2"],
            stderr=errors,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        until = time.monotonic() + 60
        while not (tmp_path / "m/training/checkpoints/step-00000004").exists():
            assert run.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130, log.read_text()
    said = log.read_text()
    assert said.count("which is saved; run the same command to resume") == 1
    assert "Traceback" not in said
    assert not (tmp_path / "m/manifest.json").exists()
    main(command)  # on with one process, and to the end
    told = capsys.readouterr().err
    assert "processes 2, now 1" in told and "rounding" in told and "m is finished" in told
    main(command)
    assert "is finished; nothing to do" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main([*command, "--set", "train.seed=9"])
    assert refused.value.code == 2
    assert "train.seed was 1, is now 9" in capsys.readouterr().err
    (tmp_path / "numbers.de").write_text("eins\n" * 300)
    with pytest.raises(SystemExit) as refused:
        main(command)
    assert refused.value.code == 2
    assert "numbers.de" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the children of a process are read from /proc")
def test_ranks_end_with_a_launcher_that_is_killed_before_they_have_joined(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman", *words(tmp_path), "--processes", "2"]
    launcher = subprocess.Popen(command, stderr=subprocess.PIPE)
    children, until = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children"), time.monotonic() + 60
    while len(children.read_text().split()) < 2:  # they need seconds to import PyTorch, and only then join
        assert launcher.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    launcher.kill()
    launcher.communicate(timeout=60)  # until the last of them has closed stderr


def test_ranks_that_stay_alone_end(tmp_path: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    alone = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "DRAGOMAN_JOIN_TIMEOUT": "0.5"}
    rank = start(member, print, stderr=tmp_path / "stderr", **meeting, **alone)
    rank.join(60)
    assert rank.exitcode == 70
    assert "rank 1" in (said := (tmp_path / "stderr").read_text()) and "DRAGOMAN_JOIN_TIMEOUT" in said


def test_the_launcher_names_who_was_killed(capsys: pytest.CaptureFixture[str]) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    children = [subprocess.Popen(sleep) for _ in range(3)]
    children[1].kill()
    assert wait(children) == 70
    assert f"rank 1 (process {children[1].pid}) was killed by SIGKILL" in capsys.readouterr().err
    assert all(child.wait() for child in children)


def test_the_launcher_passes_an_exit_code_on() -> None:
    children = [subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) for code in (0, 2)]
    assert wait(children) == 2
    assert exit_code_after(children, 1, 2) == 2


def test_the_reason_counts_and_not_who_followed() -> None:
    codes = [["import time; time.sleep(0.3); raise SystemExit(2)"], ["raise SystemExit(70)"]]
    children = [subprocess.Popen([sys.executable, "-c", *code]) for code in codes]
    children[1].wait()
    assert wait(children) == 2


def test_a_stopped_heartbeat_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    connect_store().set("beat/1", "0")
    heartbeat = Heartbeat(0, 2)
    heartbeat.start()
    heartbeat.stop()
    assert not heartbeat.is_alive()  # a thread inside the store at the end of Python would end all with SIGABRT


def test_the_options_reach_the_processes_as_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(
        "dragoman.training.distributed.launch.launch", lambda count, arguments: seen.append([str(count), *arguments])
    )
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    given = ["--source", "a b", "--target", "c", "--tsv", "d", "--tsv", "e", "--out", "m", "--set", "x.y=1"]
    given += ["--tensorboard", "--processes", "3", "--to", "de", "--to", "fr", "--to", "it"]
    with pytest.raises(SystemExit):
        main(["train", *given])
    assert seen[0][:2] == ["3", "train"]
    assert [seen[0][i + 1] for i, word in enumerate(seen[0]) if word == "--to"] == ["de", "fr", "it"]
    defaults = ["--source-key", "", "--target-key", "", "--to-key", "", "--device", "auto"]
    assert sorted(seen[0][2:]) == sorted([*given, *defaults])
    with pytest.raises(SystemExit):
        main(["train", *[word for word in given if word != "--tensorboard"]])
    assert "--tensorboard" not in seen[1]
