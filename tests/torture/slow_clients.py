"""`dragoman serve` among slow and half clients: they are answered or disconnected in time, and others do not notice.

    python tests/torture/slow_clients.py MODEL --clients 300

So many clients at one address misbehave at the same time, in each of several ways. Another client, at another address,
translates one line at a time and asks for /health; each must be answered 200. The table has its latencies, what the
slow clients got, and when the last of them was gone. At the end no request may be open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

LIMIT = 120.0  # seconds in which every slow client must be gone
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(text: str | list[str], **more: object) -> bytes:
    body = json.dumps({"text": text, **more}).encode()
    return HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def trickle(writer: asyncio.StreamWriter, content: bytes) -> None:
    """One byte a second, as long as the server listens."""
    for byte in content:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def silent(streams: Streams, line: str) -> None:
    """Connect, and say nothing."""


async def slow_head(streams: Streams, line: str) -> None:
    """The head of a request, one byte a second."""
    await trickle(streams[1], HEAD * 3)


async def slow_body(streams: Streams, line: str) -> None:
    """A body, one byte a second."""
    streams[1].write(HEAD + b"Content-Length: 500\r\n\r\n")
    await trickle(streams[1], b'{"text": "' + b"x" * 490)


async def half_body(streams: Streams, line: str) -> None:
    """The beginning of a body, and then nothing."""
    streams[1].write(HEAD + b'Content-Length: 5000\r\n\r\n{"text": "')


async def half_closed(streams: Streams, line: str) -> None:
    """A whole request; then the client closes its side and waits for the reply."""
    streams[1].write(request(line))
    streams[1].write_eof()


async def cut_off(streams: Streams, line: str) -> None:
    """Half a request; then the client closes its side."""
    streams[1].write(request(line)[:-5])
    streams[1].write_eof()


async def no_reader(streams: Streams, line: str) -> None:
    """A request with a reply larger than the buffers of the system, which nobody reads."""
    streams[1].transport.pause_reading()  # type: ignore[attr-defined]
    streams[1].write(request("\u2003" * 900_000 + line, n_best=4, beam=4))
    while await open_requests(streams[1].get_extra_info("peername")) < 1:  # it has arrived
        await asyncio.sleep(0.05)


async def nonsense(streams: Streams, line: str) -> None:
    """Something that is not HTTP."""
    streams[1].write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n")


KINDS: dict[str, tuple[Callable[[Streams, str], Awaitable[None]], int]] = {  # and the share of the clients
    "connect, and say nothing": (silent, 1),
    "head, one byte a second": (slow_head, 1),
    "body, one byte a second": (slow_body, 1),
    "half a body, then nothing": (half_body, 1),
    "whole request, then half-closed": (half_closed, 1),
    "half a request, then half-closed": (cut_off, 1),
    "nobody reads the reply": (no_reader, 100),
    "not HTTP": (nonsense, 1),
}


async def misbehave(place: tuple[str, int], kind: str, line: str) -> str:
    """One slow client; what it got."""
    connection = socket.create_connection(place, source_address=("127.0.0.2", 0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    streams = await asyncio.open_connection(sock=connection)
    acting = asyncio.ensure_future(KINDS[kind][0](streams, line))
    got = b""
    try:
        if KINDS[kind][0] is no_reader:
            await acting
            while await open_requests(place) > 1:  # that of the other client
                await asyncio.sleep(0.5)
            return "disconnected"
        while chunk := await streams[0].read(1 << 16):
            got = (got + chunk)[:4096]
    except ConnectionError:
        pass
    finally:
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)
        streams[1].close()
    final = [status for status in re.findall(rb"^HTTP/1\.[01] (\d+)", got, re.MULTILINE) if status != b"100"]
    return final[0].decode() if final else "disconnected"


async def ask(place: tuple[str, int], content: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*place)
    writer.write(content)
    told = await reader.read()
    writer.close()
    return told


async def scene(place: tuple[str, int], kind: str, clients: int, line: str) -> list[str]:
    """All slow clients of one kind at once; a row of the table."""
    others: dict[str, list[float]] = {"line": [], "health": []}
    over = asyncio.Event()

    async def watch(name: str, content: bytes) -> None:
        while not over.is_set():
            start = time.monotonic()
            told = await ask(place, content)
            others[name].append(1000 * (time.monotonic() - start))
            assert told.split(b" ", 2)[1] == b"200", told[:300]
            await asyncio.sleep(0.02)

    health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    watching = [asyncio.create_task(watch("line", request(line))), asyncio.create_task(watch("health", health))]
    start, number = time.monotonic(), -(-clients // KINDS[kind][1])
    got = await asyncio.wait_for(asyncio.gather(*(misbehave(place, kind, line) for _ in range(number))), LIMIT)
    last = time.monotonic() - start
    while others["line"] == [] or others["health"] == []:
        await asyncio.sleep(0.01)
    over.set()
    await asyncio.gather(*watching)
    figures = [f"{value:,.0f}" for each in others.values() for value in (statistics.median(each), max(each))]
    found = ", ".join(f"{count} x {name}" for name, count in sorted(Counter(got).items()))
    return [f"{number} x {kind}", *figures, found, f"{last:.1f}"]


async def open_requests(place: tuple[str, int]) -> float:
    told = await ask(place, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    found = re.search(rb"^dragoman_open_requests (\S+)$", told, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def torture(place: tuple[str, int], clients: int, line: str, only: str) -> None:
    print("| slow clients | line ms: median | worst | /health ms: median | worst | got | last gone after s |")
    print("|---|---:|---:|---:|---:|---|---:|")
    for kind in KINDS:
        if only in kind:
            print(f"| {' | '.join(await scene(place, kind, clients, line))} |", flush=True)
    for _ in range(100):
        if not (left := await open_requests(place)):
            break
        await asyncio.sleep(0.1)
    assert left == 0, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--line", default="every Monday at half past seven")
    parser.add_argument("--only", default="", help="part of the name of a kind")
    options = parser.parse_args()
    command = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "0", "--no-access-log"]
    process = subprocess.Popen([*command, "--device", "cpu"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found is not None
        asyncio.run(torture((found[1], int(found[2])), options.clients, options.line, options.only))
        process.terminate()
        assert process.wait(90) == 0
    finally:
        process.kill()


if __name__ == "__main__":
    main()
