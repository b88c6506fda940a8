"""Training on Ray nodes: a killed node is replaced, and the run ends with the bits of one that lost nothing.

Needs Ray, so it runs in .ci/run, not in `make test`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny_run import TINY, difference, outcome, write_corpus

ray = pytest.importorskip("ray")
pytest.importorskip("ray.train")
CHANGES = ("train.steps=40", "train.evaluate_every=20", "train.save_every=2")


def start(folder: Path, out: str, address: str, *changes: str) -> subprocess.Popen[bytes]:
    settings = [word for change in (*TINY, *CHANGES, *changes) for word in ("--set", change)]
    sides = ["--source", "numbers.en", "--target", "numbers.de", "--out", out, "--device", "cpu"]
    words = ["train", *sides, "--recipe", "tiny", *settings, "--processes", "2", "--ray", address]
    with (folder / f"{out}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "dragoman", *words], cwd=folder, stderr=log, stdout=log)


def wait_for(path: Path, run: subprocess.Popen[bytes], log: Path) -> None:
    while not path.exists():
        assert run.poll() is None, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()


def test_a_killed_node_is_replaced_and_nothing_differs(cluster, tmp_path: Path) -> None:
    write_corpus(tmp_path, 1000)
    whole = start(tmp_path, "whole", cluster.address)
    assert whole.wait(600) == 0, (tmp_path / "whole.log").read_text()
    broken = start(tmp_path, "broken", cluster.address)
    wait_for(tmp_path / "broken/training/checkpoints/step-00000006", broken, tmp_path / "broken.log")
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    cluster.add_node(num_cpus=1)
    assert broken.wait(600) == 0, (tmp_path / "broken.log").read_text()
    assert difference(outcome(tmp_path / "whole"), outcome(tmp_path / "broken")) == ""
    assert not list(tmp_path.glob(".*.ray"))


def test_ctrl_c_saves_and_an_error_keeps_its_exit_code(cluster, tmp_path: Path) -> None:
    write_corpus(tmp_path, 1000)
    run = start(tmp_path, "m", cluster.address, "train.steps=100000", "train.evaluate_every=100000")
    wait_for(tmp_path / "m/training/checkpoints/step-00000004", run, tmp_path / "m.log")
    os.kill(run.pid, signal.SIGINT)
    assert run.wait(300) == 130, (tmp_path / "m.log").read_text()
    assert "is saved" in (tmp_path / "m.log").read_text()
    run = start(tmp_path, "m", cluster.address, "train.seed=9")
    assert run.wait(300) == 2, (tmp_path / "m.log").read_text()
    assert "train.seed was 1, is now 9" in (tmp_path / "m.log").read_text()
