"""Train on several nodes, lose one, and resume on others; each node has a network and a host name of its own.

python tests/torture/nodes.py                 (as root on Linux; a minute for each of the cases)
python tests/torture/nodes.py --only lost --nodes 3 --per-node 2

Cases: `lost` kills, freezes and unplugs each node, agent included: the others must name it and end within a minute.
`apart` gives a node no shared directory: a clear error. `copies` gives it a copy of the prepared data: it trains.
`resume` goes on with another number of nodes, and compares with a run that nothing happened to.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from node_network import Node, can_make_nodes, node_network

from tiny_run import TINY, assert_alike, difference, outcome, write_corpus

ENDLESS = ("train.steps=100000", "train.evaluate_every=100000")
SHORT = ("train.steps=24", "train.evaluate_every=8")
PLAIN = ("model.dropout=0.1", "train.steps=12", "train.epsilon=1e-3", "train.ema=0.0", "train.evaluate_every=12")
QUICK = {"DRAGOMAN_SHARED_TIMEOUT": "2", "OMP_NUM_THREADS": "1"}


class Run:
    """`dragoman train` under torchrun on some nodes."""

    def __init__(self, nodes: list[Node], per_node: int, out: Path, corpus: Path, *changes: str) -> None:
        self.nodes, self.out = nodes, out
        settings = [word for change in (*TINY, *changes) for word in ("--set", change)]
        sides = ["--source", f"{corpus}.en", "--target", f"{corpus}.de"]
        train = ["train", *sides, "--out", str(out), "--recipe", "tiny", "--device", "cpu", *settings]
        shape = ["--nnodes", str(len(nodes)), "--nproc-per-node", str(per_node)]
        meeting = ["--master-addr", nodes[0].address, "--master-port", "29511"]
        self.logs = [node.directory / "log" for node in nodes]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *shape, *meeting]
        self.agents = [
            node.start([*torchrun, "--node-rank", str(number), "-m", "dragoman", *train], log, **QUICK)
            for number, (node, log) in enumerate(zip(nodes, self.logs, strict=True))
        ]

    def wait_for_step(self, step: int, out: Path | None = None, seconds: float = 180) -> None:
        """Wait for the checkpoint of a step."""
        until = time.monotonic() + seconds
        while not ((out or self.out) / f"training/checkpoints/step-{step:08d}").exists():
            if any(agent.poll() is not None for agent in self.agents) or time.monotonic() > until:
                raise SystemExit(f"the run did not come to step {step}:\n{self.said()}")
            time.sleep(0.02)

    def wait(self, seconds: float = 180) -> list[int | None]:
        """The exit codes of the agents; None for one that does not end."""
        until = time.monotonic() + seconds
        for agent in self.agents:
            try:
                agent.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        return [agent.returncode for agent in self.agents]

    def ranks_of(self, node: Node) -> dict[int, int]:
        """The ranks of a node, with their processes."""
        found = ((pid, environment) for pid, environment in node.processes().items() if "RANK" in environment)
        return {int(environment["RANK"]): pid for pid, environment in found}

    def said(self, number: int | None = None) -> str:
        """What a node has printed, or all of them."""
        logs = self.logs if number is None else [self.logs[number]]
        return "\n".join(log.read_text(errors="replace") for log in logs if log.exists())


def lost(how: str, victim: int, nodes: list[Node], per_node: int, folder: Path) -> bool:
    """One run that loses a node; True where all others ended within a minute, and named a rank of it."""
    run = Run(nodes, per_node, folder / "m", folder / "numbers", *ENDLESS)
    run.wait_for_step(8)
    ranks = run.ranks_of(nodes[victim])
    names = [f"rank {rank} (process {pid} on {nodes[victim].host})" for rank, pid in ranks.items()]
    others = [number for number in range(len(nodes)) if number != victim]
    began = time.monotonic()
    match how:
        case "kill":
            nodes[victim].kill()
        case "freeze":
            nodes[victim].kill(signal.SIGSTOP)
        case "unplug":
            nodes[victim].unplug()
    ended: dict[int, float] = {}
    while len(ended) < len(others) and time.monotonic() < began + 120:
        for number in others:
            if number not in ended and run.agents[number].poll() is not None:
                ended[number] = time.monotonic() - began
        time.sleep(0.05)
    named = all(any(name in run.said(number) for name in names) for number in others)
    good = named and len(ended) == len(others) and max(ended.values()) < 60
    if how == "unplug":  # it is alive, and must end as well
        good = good and run.wait(60)[victim] is not None
    took = ", ".join(f"{seconds:.1f}" for seconds in ended.values())
    print(f"{how} node {victim} of {len(nodes)} x {per_node}: others ended after {took} s, named: {named}", flush=True)
    if not good:
        print(run.said())
    return good


def apart(nodes: list[Node], folder: Path) -> bool:
    """A node with a directory of its own: all end with the error that names it."""
    run = Run(nodes[:2], 1, Path("m"), folder / "numbers", *SHORT)
    codes = run.wait(90)
    name = re.compile(rf"rank 1 \(process \d+ on {nodes[1].host}\) cannot use")
    good = all(codes) and all(name.search(run.said(number)) for number in (0, 1))
    print(f"a node without the shared directory: exit codes {codes}, named: {good}", flush=True)
    if not good:
        print(run.said())
    return good


def copies(nodes: list[Node], folder: Path) -> bool:
    """A node with a copy of the prepared data, and nothing else of the run."""
    first = Run(nodes[:1], 1, Path("m"), folder / "numbers", *SHORT)
    first.wait_for_step(4, nodes[0].directory / "m")
    nodes[0].kill()
    first.wait()
    (nodes[1].directory / "m/training").mkdir(parents=True)
    shutil.copytree(nodes[0].directory / "m/training/prepared", nodes[1].directory / "m/training/prepared")
    shutil.rmtree(nodes[0].directory / "m/training/checkpoints")
    run = Run(nodes[:2], 1, Path("m"), folder / "numbers", *SHORT)
    codes = run.wait()
    good = codes == [0, 0] and not (nodes[1].directory / "m/training/checkpoints").exists()
    print(f"a node with a copy of the prepared data: exit codes {codes}, nothing written there: {good}", flush=True)
    if not good:
        print(run.said())
    return good


def resume(nodes: list[Node], folder: Path, parallel: str) -> bool:
    """Resume on other nodes: the bits of an unbroken run with as many processes, the numbers with another number."""
    good, settings = True, (*SHORT, f"train.parallel={parallel}")
    for before, after, changes, exact in (
        ((2, 1), (1, 2), settings, True),
        ((2, 2), (1, 1), (*PLAIN, "train.accumulate=1", f"train.parallel={parallel}"), False),
        ((1, 1), (2, 2), (*PLAIN, "train.accumulate=4", f"train.parallel={parallel}"), False),
    ):
        tag = f"{parallel}-{before[0]}x{before[1]}-{after[0]}x{after[1]}"
        whole = Run(nodes[: after[0] if exact else before[0]], after[1] if exact else before[1],
                    folder / f"whole-{tag}", folder / "numbers", *changes)  # fmt: skip
        if any(whole.wait()):
            raise SystemExit(whole.said())
        broken = Run(nodes[: before[0]], before[1], folder / f"broken-{tag}", folder / "numbers", *changes)
        broken.wait_for_step(4)
        nodes[before[0] - 1].kill()
        broken.wait()
        rest = Run(nodes[: after[0]], after[1], folder / f"broken-{tag}", folder / "numbers", *changes)
        if any(rest.wait()):
            raise SystemExit(rest.said())
        if exact:
            told = difference(outcome(whole.out), outcome(rest.out)) or "equal, bit for bit"
            same = told.startswith("equal")
        else:
            assert_alike(whole.out, rest.out, 12)
            told, same = "equal within rounding", "rounding" in rest.said()
        print(f"{parallel}: {before} stopped by a killed node, resumed as {after}: {told}", flush=True)
        good = good and same
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=["lost", "apart", "copies", "resume"])
    parser.add_argument("--how", nargs="+", default=["kill", "freeze", "unplug"])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--per-node", type=int, default=2)
    parser.add_argument("--parallel", nargs="+", default=["ddp"])
    chosen = parser.parse_args()
    isolated = can_make_nodes()
    if not isolated:
        print("network namespaces need root: the nodes share this host's name, and none is unplugged", flush=True)
    good = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder, 3000)  # an epoch of more batches than any run here takes
        cases = [(how, victim) for how in chosen.how for victim in range(chosen.nodes) if isolated or how != "unplug"]
        for how, victim in cases if "lost" in chosen.only else []:
            place = folder / f"{how}-{victim}"
            place.mkdir()
            for side in ("en", "de"):
                shutil.copy(folder / f"numbers.{side}", place)
            with node_network(chosen.nodes, place, isolated) as nodes:
                good.append(lost(how, victim, nodes, chosen.per_node, place))
        for case in (apart, copies):
            if case.__name__ in chosen.only:
                place = folder / case.__name__
                with node_network(2, place, isolated) as nodes:
                    good.append(case(nodes, folder))
        for parallel in chosen.parallel if "resume" in chosen.only else []:
            with node_network(2, folder / f"resume-{parallel}", isolated) as nodes:
                good.append(resume(nodes, folder, parallel))
    sys.exit(0 if good and all(good) else 1)


if __name__ == "__main__":
    main()
