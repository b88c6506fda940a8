"""`dragoman serve` under load on this machine: requests a second and latency, with and without dynamic batching.

    python benchmarks/serve.py                         # preset base, random weights, 20 forced tokens
    python benchmarks/serve.py --model runs/demo/model # a model of yours, on lines of the embedded corpus

Clients are closed loops: each sends a request of one line over a connection it keeps, waits for the answer, and sends
the next. They share the machine with the server, so that what they cost is part of what is measured. "CPU ms" is the
server's processor time per request, which depends less on what else the machine does. "Without" is the same server with
--max-batch 1. With --workers N, the server is compared with itself with one and with N worker processes instead. At the
end, one client's latency is measured while another translates --lines lines.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

CLIENTS = (1, 8, 64)
LENGTH = 20


def random_model(place: Path, preset: str) -> Path:
    """A model with weights by chance, which takes as long as a trained one of its size."""
    import torch

    from dragoman.config import Recipe
    from dragoman.modeldir.info import ModelInfo
    from dragoman.modeldir.save import save_model
    from dragoman.models.loading import as_arrays, build_model
    from dragoman.text.learn import learn
    from dragoman.text.special_tokens import PAD

    torch.manual_seed(1)
    tokenizer = learn("bpe", lines("train", 20_000), 1000)
    recipe = Recipe.load(preset)
    info = ModelInfo(tokenizer.vocabulary_size)
    weights = as_arrays(build_model(recipe.model, tokenizer.vocabulary_size, PAD).state_dict())
    save_model(place, recipe=recipe, info=info, weights=weights, tokenizers=(tokenizer, tokenizer), card="# random\n")
    return place


def lines(split: str, count: int) -> list[str]:
    from dragoman.demo.corpus import pairs

    return [source for source, _ in pairs(count, split=split)]  # type: ignore[arg-type]


@contextmanager
def server(model: Path, *options: str) -> Iterator[tuple[str, int, int]]:
    """A server in a process of its own, ready: host, port and process."""
    command = [sys.executable, "-m", "dragoman", "serve", str(model), "--port", "0", "--no-access-log", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
    if found is None:
        raise SystemExit(f"the server did not start: exit code {process.wait()}")
    try:
        yield found[1], int(found[2]), process.pid
    finally:
        process.terminate()
        process.wait(120)


def processor_seconds(process: int) -> float:
    """What a process and its children have used (Linux), which does not depend on how busy the machine is."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if process in (int(stat.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Client:
    """One connection; requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, place: tuple[str, int]) -> Client:
        return cls(*await asyncio.open_connection(*place, limit=1 << 26))

    async def post(self, body: bytes) -> bytes:
        head = "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        told = await self.reader.readuntil(b"\r\n\r\n")
        if not told.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"the server answered {told.splitlines()[0].decode()}")
        length = re.search(rb"content-length: (\d+)", told)
        assert length is not None
        return await self.reader.readexactly(int(length[1]))


async def loop(
    place: tuple[str, int], bodies: Sequence[bytes], first: int, step: int, end: float
) -> list[tuple[float, float]]:
    """When each answer came, and what it took."""
    client, times, number = await Client.connect(place), [], first
    while time.perf_counter() < end:
        begun = time.perf_counter()
        await client.post(bodies[number % len(bodies)])
        times.append((time.perf_counter(), time.perf_counter() - begun))
        number += step
    client.writer.close()
    return times


async def load(
    place: tuple[str, int], bodies: Sequence[bytes], clients: int, seconds: float
) -> tuple[float, list[float], int]:
    """Requests a second, and the latencies, after a second to settle; and the number of requests with that second."""
    begun = time.perf_counter() + 1
    end = begun + seconds
    found = await asyncio.gather(*(loop(place, bodies, first, clients, end) for first in range(clients)))
    counted = [took for times in found for at, took in times if begun <= at <= end]
    return len(counted) / seconds, counted, sum(map(len, found))


async def beside(place: tuple[str, int], bodies: Sequence[bytes], long: bytes) -> tuple[float, list[float]]:
    """Seconds that a long request takes, and the latencies of a client of single lines meanwhile."""
    large, begun = await Client.connect(place), time.perf_counter()
    working = asyncio.create_task(large.post(long))
    client, times, number = await Client.connect(place), [], 0
    while not working.done():
        asked = time.perf_counter()
        await client.post(bodies[number % len(bodies)])
        times.append(time.perf_counter() - asked)
        number += 1
        await asyncio.sleep(0.05)
    await working
    return time.perf_counter() - begun, times


def shown(times: Sequence[float]) -> str:
    ranked = sorted(times)
    return f"{1000 * statistics.median(ranked):,.1f} / {1000 * ranked[int(0.99 * (len(ranked) - 1))]:,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="A model directory; without it, one with weights by chance.")
    parser.add_argument("--preset", default="base", help="Of the model with weights by chance.")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6, help="For each cell.")
    parser.add_argument("--lines", type=int, default=10_000, help="Of the request that must not make others wait.")
    parser.add_argument("--workers", type=int, help="Compare one process with this many workers behind the same port.")
    options = parser.parse_args()
    forced = {} if options.model else {"min_length": LENGTH, "max_length": LENGTH}
    texts = lines("test", 2000)
    bodies = [json.dumps({"text": text, "beam": options.beam, **forced}).encode() for text in texts]
    many = lines("train", options.lines)
    long = json.dumps({"text": many, "beam": options.beam, **forced}).encode()
    with tempfile.TemporaryDirectory() as work:
        model = options.model or random_model(Path(work) / "model", options.preset)
        name = str(options.model) if options.model else f"{options.preset}, random weights, {LENGTH} forced tokens"
        print(
            f"{name}; beam {options.beam}; {datetime.date.today()}, {os.cpu_count()} cores of {platform.machine()}, ",
            end="",
        )
        print(
            f"uvicorn {version('uvicorn')}, fastapi {version('fastapi')}, Python {platform.python_version()}\n",
            flush=True,
        )
        kinds: dict[str, tuple[str, ...]] = {"batching": (), "without": ("--max-batch", "1")}
        if options.workers:
            kinds = {"one process": ()} | {f"{n} workers": ("--workers", str(n)) for n in {1, options.workers}}
        print(f"| clients |{''.join(f' {kind}: requests/s | p50 / p99 ms | CPU ms |' for kind in kinds)}")
        print(f"|---:|{'---:|---:|---:|' * len(kinds)}", flush=True)
        limits = ("--timeout", "600", "--beam", str(options.beam))
        with ExitStack() as stack:
            places = [stack.enter_context(server(model, *limits, *kind)) for kind in kinds.values()]
            for clients in CLIENTS:
                cells = []
                for *place, process in places:
                    before = processor_seconds(process)
                    rate, times, count = asyncio.run(load((place[0], place[1]), bodies, clients, options.seconds))
                    used = processor_seconds(process) - before
                    cells += [f"{rate:,.0f}", shown(times), f"{1000 * used / count:.2f}"]
                print(f"| {clients} | {' | '.join(cells)} |", flush=True)
            host, port, _ = places[-1] if options.workers else places[0]
            took, times = asyncio.run(beside((host, port), bodies, long))
        pace = f"{took:.1f} s, {options.lines / took:,.0f} lines/s"
        print(f"\nWhile a request of {options.lines:,} lines was translated ({pace}), ", end="")
        print(f"one line took {shown(times)} ms (p50 / p99 of {len(times)}), {1000 * max(times):,.1f} at most.")


if __name__ == "__main__":
    main()
