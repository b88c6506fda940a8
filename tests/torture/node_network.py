"""Nodes on one machine: each has a network namespace, a host name and a working directory of its own (Linux, root).

Without root, nodes are only groups of processes with directories of their own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

SUBNET = "10.77.0"
NETWORKS = count()  # the kernel removes the interfaces of a network a while after its namespaces


@dataclass
class Node:
    """A node: commands that run in it see only its own network, and its own host name."""

    name: str
    address: str
    directory: Path
    tag: str
    isolated: bool
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The host name that its processes see."""
        return self.name if self.isolated else socket.gethostname()

    def start(self, words: Sequence[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """Run a command in this node's directory; its output goes to `log`."""
        entry = ["ip", "netns", "exec", f"{self.tag}-{self.name}", "unshare", "--uts", "sh", "-c"]
        script = f'hostname {self.name} && exec "$@"'
        inside = [*entry, script, "sh", *words] if self.isolated else list(words)
        with log.open("ab") as output:
            process = subprocess.Popen(
                inside,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env={**os.environ, "TORTURE_NODE": f"{self.tag}-{self.name}", **environment},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def processes(self) -> dict[int, dict[str, str]]:
        """The processes of this node, with their environments."""
        found = {}
        for place in Path("/proc").iterdir():
            if not place.name.isdigit():
                continue
            try:
                entries = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            environment = dict(entry.partition("=")[::2] for entry in entries)
            if environment.get("TORTURE_NODE") == f"{self.tag}-{self.name}":
                found[int(place.name)] = environment
        return found

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to every process of this node, agents included."""
        for process in self.processes():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue

    def unplug(self) -> None:
        """Take the network away without closing a connection, as a power cut does."""
        subprocess.run(
            ["ip", "netns", "exec", f"{self.tag}-{self.name}", "ip", "link", "set", "eth0", "down"], check=True
        )


def can_make_nodes() -> bool:
    """Whether this system lets us make network namespaces."""
    if sys.platform != "linux" or os.getuid() != 0 or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", f"try{os.getpid()}"], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", f"try{os.getpid()}"], check=True)
    return made


@contextmanager
def node_network(size: int, folder: Path, isolated: bool = True) -> Iterator[list[Node]]:
    """Nodes node-0, node-1, ... that are connected by a bridge; their processes end with the block."""
    tag, nodes = f"d{os.getpid()}n{next(NETWORKS)}", list[Node]()
    bridge = f"{tag}br"
    if isolated:
        run(f"ip link add {bridge} type bridge", f"ip link set {bridge} up")
    try:
        for number in range(size):
            address = f"{SUBNET if isolated else '127.0.0'}.{number + 1}"
            node = Node(f"node-{number}", address, folder / f"node-{number}", tag, isolated)
            node.directory.mkdir(parents=True)
            nodes.append(node)
            if not isolated:
                continue
            space, inside = f"{tag}-{node.name}", f"ip netns exec {tag}-{node.name}"
            run(
                f"ip netns add {space}",
                f"ip link add {tag}v{number} type veth peer name eth0 netns {space}",
                f"ip link set {tag}v{number} master {bridge} up",
                f"{inside} ip address add {node.address}/24 dev eth0",
                f"{inside} ip link set eth0 up",
                f"{inside} ip link set lo up",
            )
        yield nodes
    finally:
        for node in nodes:
            node.kill()
            for process in node.started:
                process.wait()
        if isolated:
            for number in range(size):
                subprocess.run(["ip", "netns", "del", f"{tag}-node-{number}"], capture_output=True)
            run(f"ip link del {bridge}")


def run(*commands: str) -> None:
    """Run commands one after the other."""
    for command in commands:
        subprocess.run(command.split(), check=True, capture_output=True)
