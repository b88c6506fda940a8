"""`dragoman serve --workers` while workers are killed: every request is answered, correctly or with an error.

    python tests/torture/workers.py MODEL --requests 100000 --kill-every 60

Clients send requests over connections that they keep. Each request has a text of its own, and is compared with what the
translator says about it: the translation and its score, which tells texts apart that have the same translation. At each
interval, one of the workers is killed with SIGKILL. A request may then get a 503 with the code `worker_died`; anything
else that is not the right translation fails the script: a reset or closed connection, another error, another request's
reply. The time until the killed worker is replaced is taken from the server's log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from dragoman.demo.corpus import pairs
from dragoman.documents.lines import LineTranslator
from dragoman.translation.translator import Translator

READY = re.compile(r"worker (\d+) \(process (\d+)\) is ready")
LONG = 40  # lines of a long request, of which there is one in LONG


class Log(threading.Thread):
    """Follow the server's log: which process is which worker, and when it became ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.process, self.lines = process, list[str]()
        self.workers: dict[int, tuple[int, float]] = {}  # number -> (process, time)
        self.start()

    def run(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := READY.search(line):
                self.workers[int(found[1])] = int(found[2]), time.monotonic()


class Clients:
    """The clients, what they know to be right, and what they met."""

    def __init__(self, place: tuple[str, int], texts: list[list[str]], right: dict[str, tuple[str, float]]) -> None:
        self.place, self.waiting, self.right = place, iter(texts), right
        self.met: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection(*self.place, limit=1 << 24)
        for texts in self.waiting:
            start = time.perf_counter()
            try:
                status, reply = await self.ask(reader, writer, texts)
            except (OSError, EOFError) as error:
                self.wrong.append(f"connection: {error!r}")
                writer.close()
                reader, writer = await asyncio.open_connection(*self.place, limit=1 << 24)
                continue
            self.seconds.append(time.perf_counter() - start)
            self.check(texts, status, reply)
        writer.close()

    async def ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, texts: list[str]
    ) -> tuple[int, bytes]:
        body = json.dumps({"text": texts, "scores": True, "beam": 1}).encode()
        head = "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        told = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", told)
        assert length is not None, told
        return int(told.split()[1]), await reader.readexactly(int(length[1]))

    def check(self, texts: list[str], status: int, reply: bytes) -> None:
        found = json.loads(reply)
        if status == 200:
            got = [(one["text"], one["score"]) for one in found["translations"]]
            if got != [self.right[text] for text in texts]:
                self.wrong.append(f"{texts} -> {got}")
            self.met["right"] += 1
        elif status == 503 and found["error"]["code"] == "worker_died":
            self.met["worker_died"] += 1
        else:
            self.wrong.append(f"{status}: {found}")


async def kill_workers(log: Log, interval: float, replaced: list[float]) -> None:
    """Kill a worker at each interval, and note how long it took to replace it."""
    chance = random.Random(1)
    while True:
        await asyncio.sleep(interval)
        number = chance.choice(sorted(log.workers))
        killed, now = log.workers[number][0], time.monotonic()
        os.kill(killed, signal.SIGKILL)
        while log.workers[number][0] == killed:
            await asyncio.sleep(0.01)
        replaced.append(log.workers[number][1] - now)


async def attack(clients: Clients, log: Log, options: argparse.Namespace, replaced: list[float]) -> None:
    killing = asyncio.create_task(kill_workers(log, options.kill_every, replaced))
    try:
        await asyncio.gather(*(clients.run() for _ in range(options.clients)))
    finally:
        killing.cancel()


def make_requests(model: Path, count: int) -> tuple[list[list[str]], dict[str, tuple[str, float]]]:
    """Distinct texts, in requests of one line or of many, and what the translator says about each."""
    sizes = [LONG if number % LONG == 0 else 1 for number in range(count)]
    sources = [source for source, _ in pairs(5_000, split="train")]
    lines = [f"{sources[number % len(sources)]} {number}" for number in range(sum(sizes))]
    translator = Translator.load(model, device="cpu")
    right = {}
    found = LineTranslator(translator, beam=1).stream([lines])  # keeps what the model cannot read, as the server does
    for line, one in zip(lines, found, strict=True):
        right[line] = one.text, one.score
    taken = iter(lines)
    return [[next(taken) for _ in range(size)] for size in sizes], right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=60, help="Seconds.")
    options = parser.parse_args()
    texts, right = make_requests(options.model, options.requests)
    command = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "0", "--no-access-log"]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--workers", str(options.workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log, replaced = Log(process), list[float]()
    assert process.stdout is not None
    place = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
    assert place is not None, log.lines
    clients, start = Clients((place[1], int(place[2])), texts, right), time.perf_counter()
    try:
        try:
            asyncio.run(attack(clients, log, options, replaced))
        except OSError:
            raise SystemExit(f"the server is gone: exit code {process.poll()}; {''.join(log.lines[-20:])}") from None
        took = time.perf_counter() - start
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert not clients.wrong, (len(clients.wrong), clients.wrong[:10])
    assert sum(clients.met.values()) == options.requests
    assert replaced, "no worker was killed: send more --requests, or set a shorter --kill-every"
    times = sorted(clients.seconds)
    latency = f"p50 {1000 * statistics.median(times):.0f} ms, p99 {1000 * times[int(0.99 * len(times))]:.0f} ms"
    distinct = len(set(right.values()))
    print(f"{options.requests:,} requests, {options.clients} clients, {took:.0f} s: {dict(clients.met)}; {latency}")
    print(f"{len(right):,} texts with {distinct:,} distinct replies; none was mixed up, none was lost")
    print(f"{len(replaced)} workers killed; replaced after {min(replaced):.2f} to {max(replaced):.2f} s; exit code 0")


if __name__ == "__main__":
    main()
