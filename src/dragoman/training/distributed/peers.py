"""The ranks of a run by name: process, host and node; and the network interface that leads to the others."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

GLOO_INTERFACE: Final = "GLOO_SOCKET_IFNAME"  # the network interface that PyTorch's gloo listens on
SIOCGIFADDR: Final = 0x8915  # Linux: the IPv4 address of an interface


@dataclass(frozen=True)
class Peer:
    """A rank of the run, and where it runs."""

    rank: int
    process: int
    host: str
    node: str  # ranks of one node have the same launcher
    near_store: bool  # whether the run's store is on the same host

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process} on {self.host})"

    @classmethod
    def own(cls, rank: int) -> Peer:
        """This process."""
        host = socket.gethostname()
        node = f"{host}/{os.environ.get('GROUP_RANK', '')}"
        return cls(rank, os.getpid(), host, node, is_own_address(os.environ.get("MASTER_ADDR", "")))

    def to_json(self) -> str:
        """The peer as it is published in the store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes | str) -> Peer:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def format_peers(peers: Iterable[Peer | int]) -> str:
    """Ranks for a message, the first four of them; a number is a rank that was never seen."""
    names = [str(peer) if isinstance(peer, Peer) else f"rank {peer} (never seen)" for peer in peers]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def is_own_address(host: str) -> bool:
    """Whether a host name or address is one of this host."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as test:
            test.bind(address)
    except OSError:
        return False
    return True


def choose_gloo_interface() -> None:
    """Have gloo listen on the interface that leads to the run's store, unless the user has chosen one.

    By default it listens on the address that this host's name resolves to. That is often a loopback address, which
    other nodes cannot reach.
    """
    host = os.environ.get("MASTER_ADDR", "")
    if GLOO_INTERFACE not in os.environ and (name := interface_to(host)) is not None:
        os.environ[GLOO_INTERFACE] = name


def interface_to(host: str) -> str | None:
    """The network interface that leads to a host; None if it is the loopback interface, or not known."""
    if sys.platform != "linux" or not host:
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect((host, 9))  # sends nothing
            address = route.getsockname()[0]
            if address.startswith("127."):
                return None
            return next((name for _, name in socket.if_nameindex() if interface_address(route, name) == address), None)
    except OSError:
        return None


def interface_address(some: socket.socket, name: str) -> str:
    """The IPv4 address of a network interface, empty if it has none."""
    import fcntl

    try:
        found = fcntl.ioctl(some.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(found[20:24])
