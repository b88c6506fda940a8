"""`dragoman serve` among clients of every kind at once: each answer right, nothing left behind, and an orderly end.

    python tests/torture/flood.py MODEL LINES --seconds 60 --clients 1000

LINES is a file of sentences. For so many seconds the clients, each at an address of its own, do what clients do, by
chance: ask for a line, for many, with other settings, with nonsense, with too much, go away in the middle of sending or
of waiting. Every answer is compared with the translator's own. At the end nothing may wait, hold a place or hold
memory, and SIGTERM, sent while the last requests are in flight, must leave none of them unanswered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dragoman.translation.translator import Translator


class Flood:
    """The clients, what they know to be right, and what they met."""

    def __init__(self, place: tuple[str, int], right: dict[tuple[str, int], str], lines: list[str]) -> None:
        self.place, self.right, self.lines = place, right, lines
        self.met: Counter[str] = Counter()

    async def send(
        self, client: int, body: bytes, length: int | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = (f"127.1.{client >> 8}.{client & 255}", 0)
        reader, writer = await asyncio.open_connection(*self.place, local_addr=address, limit=1 << 26)
        head = (
            "POST /v1/translate HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        )
        writer.write(f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body)
        return reader, writer

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, Any]:
        told = await reader.read()
        writer.close()
        head, _, body = told.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    async def ask(self, client: int, texts: list[str], beam: int) -> None:
        status, told = await self.answer(*await self.send(client, json.dumps({"text": texts, "beam": beam}).encode()))
        self.met[str(status)] += 1
        if status == 200:
            found = [one["text"] for one in told["translations"]]
            expected = ["\n".join(self.right[line, beam] for line in text.split("\n")) for text in texts]
            assert found == expected, (texts, found, expected)
        else:
            assert status in (429, 504), told  # 504 on a machine that is too slow for so many clients

    async def one(self, client: int, chance: random.Random) -> None:
        """One thing that a client does."""
        beam, some = chance.choice((1, 4)), chance.choice((1, 1, 1, 2, 8, 200))
        texts = chance.choices(self.lines, k=some)
        match chance.randrange(10):
            case 0:  # gone while it waits
                _, writer = await self.send(client, json.dumps({"text": texts * 20, "beam": beam}).encode())
                await asyncio.sleep(chance.random() / 10)
                writer.transport.abort()
                self.met["gone while waiting"] += 1
            case 1:  # gone while it sends
                _, writer = await self.send(client, b'{"text": "', 5000)
                await asyncio.sleep(chance.random() / 10)
                writer.transport.abort()
                self.met["gone while sending"] += 1
            case 2:
                body = chance.choice((b"{", b"[]", b'{"text": 3}', b'{"text": "a", "beam": 999}', b"\xff", b""))
                status, told = await self.answer(*await self.send(client, body))
                assert status in (400, 422, 429), told
                self.met[str(status)] += 1
            case 3:
                status, told = await self.answer(*await self.send(client, b"x", 1 << 30))
                assert status in (413, 429), told
                self.met[str(status)] += 1
            case 4:  # many lines in one text
                await self.ask(client, ["\n".join(texts)], beam)
            case _:
                await self.ask(client, texts, beam)

    async def client(self, number: int, end: float) -> None:
        chance = random.Random(number)
        while time.monotonic() < end:
            await self.one(number, chance)

    async def metric(self, name: str) -> float:
        reader, writer = await asyncio.open_connection(*self.place)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", (await reader.read()).decode(), re.MULTILINE)
        writer.close()
        assert found, name
        return sum(map(float, found))  # of all workers


async def flood(flooding: Flood, clients: int, seconds: float, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + seconds
    await asyncio.gather(*(flooding.client(number, end) for number in range(clients)))
    for name in ("dragoman_queue_sentences", "dragoman_queue_requests", "dragoman_open_requests"):
        for _ in range(100):
            if not (left := await flooding.metric(name)):
                break
            await asyncio.sleep(0.1)  # those that went away last are noticed in a moment
        assert left == 0, (name, left)
    last = [asyncio.create_task(flooding.ask(number, flooding.lines[:500], 4)) for number in range(20)]
    while await flooding.metric("dragoman_open_requests") < len(last):
        await asyncio.sleep(0.01)
    process.terminate()
    await asyncio.gather(*last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--workers", type=int, help="Worker processes of the server.")
    options = parser.parse_args()
    lines = [line for line in options.lines.read_text(encoding="utf-8").split("\n") if line.strip() == line != ""][:500]
    translator = Translator.load(options.model, device="cpu")
    right: dict[tuple[str, int], str] = {}
    for beam in (1, 4):
        right |= {
            (line, beam): one.text for line, one in zip(lines, translator.translate(lines, beam=beam), strict=True)
        }
    command = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "0"]
    command += ["--max-queue", str(max(40, options.clients // 3))]  # some are answered 429
    command += [] if options.workers is None else ["--workers", str(options.workers)]
    process = subprocess.Popen([*command, "--no-access-log", "--device", "cpu"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
    assert found is not None
    flooding = Flood((found[1], int(found[2])), right, lines)
    try:
        asyncio.run(flood(flooding, options.clients, options.seconds, process))
        assert process.wait(60) == 0
    finally:
        process.kill()
    met = dict(sorted(flooding.met.items()))
    print(f"{options.seconds:g} s, {options.clients} clients: {met}; exit code 0, nothing left")


if __name__ == "__main__":
    main()
