"""`dragoman serve` under requests that cost much and send little: what another client gets meanwhile.

    python tests/torture/abuse.py MODEL --seconds 20

Each kind of abuse is sent in a loop by one client. Another client, at another address, translates one line at a time
and asks for /health. The table has its median and worst latency, that of /health, the memory of the server, and what
the abuser was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

EMOJI = "\N{GRINNING FACE}" * 1000
SHORT = [f"x{number}" for number in range(128)]
COLUMNS = ("median", "worst", "/health ms: median", "worst", "memory MB", "abuser's replies", "s: median / worst")
DEADLINE = 60.0
ATTENTION: dict[str, Any] = {"text": EMOJI, "min_length": 500}
SAMPLED: dict[str, Any] = {"min_length": 500, "beam": 16, "n_best": 16, "sampling": {}}
ABUSES: dict[str, tuple[int, str, dict[str, Any]]] = {  # clients at once, path, body
    "nothing": (0, "", {}),
    "attention of 1,000 emoji, min_length 500": (1, "/v1/attention", ATTENTION),
    "eight of them, beam 16": (8, "/v1/attention", {**ATTENTION, "beam": 16}),
    "attention of 150 emoji, beam 16": (8, "/v1/attention", {"text": EMOJI[:150], "beam": 16}),
    "128 short texts, min_length 500, beam 16, n_best 16": (
        1,
        "/v1/translate",
        {"text": SHORT, "min_length": 500, "beam": 16, "n_best": 16},
    ),
    "the same, sampled": (1, "/v1/translate", {"text": SHORT, **SAMPLED}),
    "4 short texts, min_length 500, sampled": (8, "/v1/translate", {"text": SHORT[:4], **SAMPLED}),
    "1,000 emoji, beam 16, n_best 16": (8, "/v1/translate", {"text": EMOJI, "beam": 16, "n_best": 16}),
    "20,000 texts, n_best 16, alignments": (
        2,
        "/v1/translate",
        {"text": ["ab"] * 20_000, "n_best": 16, "beam": 16, "alignments": True, "scores": True},
    ),
    "one sentence of 80 words, min_length 500, beam 16": (
        2,
        "/v1/translate",
        {"text": "old box " * 40, "min_length": 500, "beam": 16},
    ),
    "one line of a million characters": (4, "/v1/translate", {"text": "old box " * 124_000}),
    "900,000 unknown fields": (1, "/v1/translate", {f"{number:x}": 1 for number in range(900_000)}),
}


class Client:
    """A client of the server at one address of this machine."""

    def __init__(self, place: tuple[str, int], address: str) -> None:
        self.place, self.address = place, address

    async def ask(self, path: str, body: bytes | None = None, forever: bool = False) -> tuple[int, int]:
        """The status and the size of a reply."""
        reader, writer = await asyncio.open_connection(*self.place, local_addr=(self.address, 0), limit=1 << 24)
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body is not None else ""
        writer.write(f"{head}{kind}\r\n".encode() + (body or b""))
        size, status = 0, 0
        while chunk := await reader.read(1 << 20):
            status = status or int(chunk.split(b" ", 2)[1])
            size += len(chunk)
        writer.close()
        return status, size


async def repeat(act: Callable[[], Awaitable[Any]], end: float, seconds: list[float]) -> None:
    """Do something until the end, and note how long it took each time."""
    while time.monotonic() < end:
        start = time.monotonic()
        await act()
        seconds.append(time.monotonic() - start)
        await asyncio.sleep(0.02)


async def scene(place: tuple[str, int], process: int, name: str, line: str, seconds: float) -> list[str]:
    """One abuse for some seconds; a row of the table."""
    clients, path, body = ABUSES[name]
    content, met = json.dumps(body).encode(), Counter[int]()
    abuser, other = Client(place, "127.0.0.2"), Client(place, "127.0.0.1")
    late: list[float] = []

    async def abuse() -> None:
        start = time.monotonic()
        try:
            status, _ = await abuser.ask(path, content)
        except (ConnectionError, IndexError):
            status = 0
        met[status] += 1
        late.append(time.monotonic() - start)

    async def translate() -> None:
        status, _ = await other.ask("/v1/translate", json.dumps({"text": line}).encode())
        assert status == 200, status

    async def health() -> None:
        status, _ = await other.ask("/health")
        assert status == 200, status

    end = time.monotonic() + seconds
    latencies: list[float] = []
    alive: list[float] = []
    largest = 0

    async def watch() -> None:
        nonlocal largest
        largest = max(largest, memory(process))

    await asyncio.gather(
        *(repeat(abuse, end, []) for _ in range(clients)),
        repeat(translate, end, latencies),
        repeat(health, end, alive),
        repeat(watch, end, []),
    )
    assert max(late, default=0.0) < DEADLINE + 1, f"{name}: answered after {max(late):.1f} s"
    milliseconds = [1000 * statistics.median(latencies), 1000 * max(latencies)]
    milliseconds += [1000 * statistics.median(alive), 1000 * max(alive)]
    answered = ", ".join(f"{count} x {status}" for status, count in sorted(met.items()))
    times = f"{statistics.median(late):.2f} / {max(late):.2f}" if late else ""
    return [name, *(f"{value:,.0f}" for value in milliseconds), f"{largest / 1e6:,.0f}", answered, times]


def memory(process: int) -> int:
    """The resident memory of a process, in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--line", default="every Monday at half past seven")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", help="part of the name of an abuse")
    options = parser.parse_args()
    command = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "0", "--no-access-log"]
    process = subprocess.Popen([*command, "--device", "cpu"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
    assert found is not None
    place = (found[1], int(found[2]))
    print(f"| abuse | line ms: {' | '.join(COLUMNS)} |")
    print("|---|---:|---:|---:|---:|---:|---|---|")
    try:
        for name in ABUSES:
            if options.only is None or options.only in name:
                row = asyncio.run(scene(place, process.pid, name, options.line, options.seconds))
                print(f"| {' | '.join(row)} |", flush=True)
        process.terminate()
        assert process.wait(90) == 0
    finally:
        process.kill()


if __name__ == "__main__":
    main()
