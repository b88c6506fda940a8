"""Several nodes in small: data that a node lacks, a store that hangs, batches that other numbers of ranks share."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import torch.distributed as dist

from dragoman.progress import SilentReporter
from dragoman.training.distributed.heartbeat import EXIT_CODE, Heartbeat
from dragoman.training.distributed.peers import Peer, format_peers, interface_to, is_own_address
from dragoman.training.distributed.ranks import CollectiveError, Ranks
from dragoman.training.distributed.shared_files import check_same, open_shared
from raising import raises
from tiny_run import Team, assert_alike, member, prepare_tiny, start, tiny_run


def open_elsewhere(ranks: Ranks, directory: Path) -> None:
    """Rank 1 looks where nothing is, as a node does that lacks the shared disk."""
    with raises(CollectiveError, "not_shared", "rank 1 (process"):
        open_shared(directory if ranks.first else directory / "elsewhere", ranks)
    with raises(CollectiveError, "not_shared", "rank 1 (process"):
        check_same(directory, lambda: f"digest {ranks.rank}", ranks)
    check_same(directory, lambda: "the same digest", ranks)
    open_shared(directory, ranks)


def test_a_node_without_the_data_is_named_on_all(tmp_path: Path) -> None:
    prepare_tiny(tmp_path)
    run = Team(2, member, open_elsewhere, tmp_path / "prepared", folder=tmp_path, DRAGOMAN_SHARED_TIMEOUT="0")
    assert run.wait() == [0, 0], run.said()


def hold_store(directory: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    (directory / "port.new").write_text(str(store.port))
    (directory / "port.new").rename(directory / "port")
    signal.pause()


def freeze_store(ranks: Ranks, holder: int) -> None:
    """Freeze the store as a host without power does, and wait for the heartbeat to end this process."""
    ranks.sum(1.0)  # both have joined
    os.kill(holder, signal.SIGSTOP)
    signal.pause()


def test_a_store_that_does_not_answer_ends_the_run(tmp_path: Path) -> None:
    holder = start(hold_store, tmp_path)
    while not (tmp_path / "port").exists():
        holder.join(0.01)
        assert holder.is_alive()
    port = (tmp_path / "port").read_text()
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    quick = {"DRAGOMAN_HEARTBEAT_INTERVAL": "0.1", "DRAGOMAN_HEARTBEAT_TIMEOUT": "1", "WORLD_SIZE": "2"}
    errors = [tmp_path / f"stderr-{rank}" for rank in (0, 1)]
    ranks = [
        start(member, freeze_store, holder.pid, stderr=errors[rank], RANK=str(rank), **meeting, **quick)
        for rank in (0, 1)
    ]
    for rank in ranks:
        rank.join(30)
    holder.kill()
    assert [rank.exitcode for rank in ranks] == [EXIT_CODE, EXIT_CODE]
    assert f"127.0.0.1:{port}" in errors[0].read_text()


PLAIN = ("train.steps=3", "train.epsilon=1e-3", "train.ema=0.0", "train.save_every=9", "train.evaluate_every=9")


class StopAfterFirst(SilentReporter):
    """Asks the run to stop, which it does after the step that follows."""

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def train_and_stop(ranks: Ranks, data: Path, out: Path) -> None:
    tiny_run(data, out, *PLAIN, ranks=ranks, reporter=StopAfterFirst() if ranks.first else None)


def test_another_number_of_ranks_keeps_the_batches_of_a_step(tmp_path: Path) -> None:
    """Two ranks of two batches each, continued by one rank, equal one rank of four, dropout included."""
    prepare_tiny(tmp_path, pairs=900)  # an epoch of more than 12 batches
    run = Team(2, member, train_and_stop, tmp_path, tmp_path / "run", folder=tmp_path)
    assert run.wait() == [143, 143], run.said()
    tiny_run(tmp_path, tmp_path / "run", *PLAIN)
    tiny_run(tmp_path, tmp_path / "alone", *PLAIN, "train.accumulate=4")
    assert json.loads((tmp_path / "run/training/run.json").read_text())["batches_per_step"] == 4
    assert_alike(tmp_path / "alone", tmp_path / "run", 3)


def test_each_node_has_one_rank_that_reports() -> None:
    nodes = ["a", "a", "b", "b", "b"]
    peers = [Peer(rank, 100 + rank, node, node, near_store=node == "a") for rank, node in enumerate(nodes)]
    for lost, expected in (([], [0, 2]), ([0], [1, 2]), ([2, 3], [0, 4])):
        reporting = []
        for own in (peer for peer in peers if peer.rank not in lost):
            heartbeat = Heartbeat(own.rank, len(peers))
            heartbeat.own, heartbeat.peers = own, dict(enumerate(peers))
            reporting += [own.rank] if heartbeat.reports(lost) else []
        assert reporting == expected
    assert format_peers([peers[2], 4]) == "rank 2 (process 102 on b), rank 4 (never seen)"
    assert Peer.from_json(peers[3].to_json()) == peers[3]


def test_addresses_of_this_host_are_its_own() -> None:
    assert is_own_address("127.0.0.1") and is_own_address("localhost")
    assert not is_own_address("192.0.2.1") and not is_own_address("")  # an address for documentation
    assert interface_to("127.0.0.1") is None and interface_to("") is None  # nodes on one host need no interface
    found = interface_to("192.0.2.1")
    assert found is None or found in [name for _, name in socket.if_nameindex()]
