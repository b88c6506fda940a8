"""Bulk translation on Ray against plain processes with the same number of workers: time, CPU time, memory.

    python benchmarks/ray_bulk.py MODEL --lines 200000 --workers 2 --beam 1
    python benchmarks/ray_bulk.py MODEL --lines 2000000 --workers 2 --beam 1 --rounds 1
    python benchmarks/ray_bulk.py MODEL --lines 2000000 --workers 2 --stand-in    # no engine: what Ray takes

The text repeats sentences of the embedded demo corpus. "plain" is what `dragoman translate` does, in a process for each
worker, with a share of the lines each; "ray" is `dragoman.ray.translate` of one file with as many workers. Both have a
thread for each engine, and take turns. Their outputs must be equal. The seconds of "plain" include starting Python and
loading the model, and those of "ray" starting a cluster. Where all cores are busy, the ratio of CPU times is the ratio
of speeds, also on a machine with other users; "start" are the CPU seconds of a run with 100 lines, which do not grow.
Memory is the largest resident size of a process, shared pages included.
"""

from __future__ import annotations

import argparse
import datetime
import filecmp
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from dragoman.demo.corpus import pairs

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
PLAIN = """
import sys
from dragoman.cli import main
model, text, out, beam = sys.argv[1:]
main(["translate", model, text, "-o", out, "--beam", beam, "--threads", "1", "--no-progress"])
"""
RAY = """
import json, sys
import dragoman.ray
model, text, out, beam, workers = sys.argv[1:]
lines = []
dragoman.ray.translate(
    model, text, out, address="local", workers=int(workers), beam=int(beam), show=lines.append
)
print(json.dumps(lines))
"""
STAND_IN = """
import json, sys
from dragoman.cluster.job import run_job
from dragoman.cluster.plan import make_plan
from dragoman.cluster.ray_data import ClusterOptions, cluster
from dragoman.cluster.storage import OutputDirectory, find_inputs
from dragoman.cluster.throughput import WorkerThroughput

class Echo:
    settings, columns = {"task": "echo"}, {"translation": str}
    def load(self):
        return lambda texts, before: [{"translation": text} for (text,) in texts]

model, text, out, beam, workers = sys.argv[1:]
plan = make_plan(find_inputs([text]), OutputDirectory(out), ("text",), Echo.settings)
with cluster(ClusterOptions("local", int(workers), device="cpu")) as ray:
    throughput = WorkerThroughput(plan.size, None)
    run_job(plan, Echo(), ray, block_rows=4096, throughput=throughput)
print(json.dumps(throughput.summary()))
"""


@dataclass
class Usage:
    """The largest resident size and the CPU seconds of each process of a run, by what it is."""

    wall: float = 0.0
    cpu: dict[int, float] = field(default_factory=dict)
    rss: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    def cpu_by_kind(self) -> dict[str, float]:
        found = defaultdict[str, float](float)
        for pid, seconds in self.cpu.items():
            found[self.names.get(pid, "ray")] += seconds
        return {kind: round(seconds, 1) for kind, seconds in found.items()}

    def peak(self, kind: str) -> float:
        """MiB of the largest process of a kind."""
        return max((self.rss[pid] for pid, name in self.names.items() if name == kind), default=0) / (1 << 20)


def kind_of(pid: int, root: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if pid == root:
        return "driver"
    if "BlockWorker" in words:
        return "worker"
    return "reader" if "read_batch" in words else "ray"


def sample(roots: list[int], usage: Usage) -> None:
    """Add the descendants of the root processes."""
    parents: dict[int, int] = {}
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            stats[int(entry.name)] = text.rsplit(")", 1)[1].split()
            parents[int(entry.name)] = int(stats[int(entry.name)][1])
    children = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    waiting = [pid for pid in roots if pid in stats]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        fields = stats[pid]
        usage.cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
        usage.rss[pid] = max(usage.rss.get(pid, 0), int(fields[21]) * PAGE)
        try:
            name = kind_of(pid, roots[0])
        except OSError:
            continue
        if name not in ("ray",) or pid not in usage.names:  # a worker is idle before it has a name
            usage.names[pid] = name


def measure(commands: list[list[str]]) -> tuple[Usage, list[str]]:
    """Run commands at the same time; what they used, and what they printed."""
    usage, started = Usage(), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        for command in commands
    ]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            sample([process.pid for process in running], usage)

    watcher = threading.Thread(target=watch)
    watcher.start()
    printed = [process.communicate()[0] for process in running]
    usage.wall = time.perf_counter() - started
    done.set()
    watcher.join()
    if any(process.returncode for process in running):
        raise SystemExit(f"a run failed: {printed}")
    return usage, printed


def write_text(path: Path, lines: int) -> None:
    sentences = [english for english, _ in pairs(40_000, split="train")]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in islice(cycle(sentences), lines))


def run_plain(model: str, text: Path, folder: Path, beam: int, workers: int, lines: int) -> Usage:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    share = -(-lines // workers)
    with text.open("rb") as file:
        for worker in range(workers):
            with (folder / f"in-{worker}").open("wb") as part:
                part.writelines(islice(file, share))
    commands = [
        [sys.executable, "-c", PLAIN, model, str(folder / f"in-{n}"), str(folder / f"out-{n}"), str(beam)]
        for n in range(workers)
    ]
    usage, _ = measure(commands)
    with (folder / "all").open("wb") as joined:
        for n in range(workers):
            joined.write((folder / f"out-{n}").read_bytes())
    return usage


def run_ray(
    model: str, text: Path, folder: Path, beam: int, workers: int, script: str = RAY
) -> tuple[Usage, list[str]]:
    shutil.rmtree(folder, ignore_errors=True)
    usage, printed = measure([[sys.executable, "-c", script, model, str(text), str(folder), str(beam), str(workers)]])
    return usage, json.loads(printed[0].splitlines()[-1])


def run_stand_in(lines: int, workers: int, out: Path | None) -> None:
    """What a job takes besides its engines: CPU seconds at the start and for all lines, and memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, few = folder / "text", folder / "few"
        write_text(text, lines)
        write_text(few, 100)
        start, _ = run_ray("none", few, folder / "ray", 1, workers, STAND_IN)
        usage, shown = run_ray("none", text, folder / "ray", 1, workers, STAND_IN)
        assert filecmp.cmp(text, folder / "ray" / "text", shallow=False), "the output differs"
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f}",
        "lines": lines,
        "workers": workers,
        "wall_seconds": usage.wall,
        "cpu_seconds": usage.cpu_seconds,
        "cpu_seconds_by_process": usage.cpu_by_kind(),
        "start_wall_seconds": start.wall,
        "start_cpu_seconds": start.cpu_seconds,
        "start_cpu_seconds_by_process": start.cpu_by_kind(),
        "peak_mib": {kind: usage.peak(kind) for kind in ("driver", "worker", "reader", "ray")},
        "start_peak_mib": {kind: start.peak(kind) for kind in ("driver", "worker", "reader", "ray")},
        "workers_shown": shown,
    }
    print(json.dumps(result, indent=1))
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stand-in", action="store_true", help="no engine: all time is that of Ray and of the job")
    given = parser.parse_args()
    if given.stand_in:
        run_stand_in(given.lines, given.workers, given.out)
        return
    walls, cpus = defaultdict(list), defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, few = folder / "text", folder / "few"
        write_text(text, given.lines)
        write_text(few, 100)
        start = {
            "plain": run_plain(given.model, few, folder / "plain", given.beam, given.workers, 100).cpu_seconds,
            "ray": run_ray(given.model, few, folder / "ray", given.beam, given.workers)[0].cpu_seconds,
        }
        for _ in range(given.rounds):
            plain = run_plain(given.model, text, folder / "plain", given.beam, given.workers, given.lines)
            ray, shown = run_ray(given.model, text, folder / "ray", given.beam, given.workers)
            same = filecmp.cmp(folder / "plain" / "all", folder / "ray" / "text", shallow=False)
            assert same, "the outputs differ"
            for kind, usage in (("plain", plain), ("ray", ray)):
                walls[kind].append(usage.wall)
                cpus[kind].append(usage.cpu_seconds)
            print(f"plain {plain.wall:.1f} s, CPU {plain.cpu_seconds:.1f} s; ", end="")
            print(f"ray {ray.wall:.1f} s, CPU {ray.cpu_seconds:.1f} s: {ray.cpu_by_kind()}", flush=True)
            print("\n".join(shown), flush=True)
    wall, cpu = ({kind: statistics.median(of[kind]) for kind in of} for of in (walls, cpus))
    steady = (cpu["ray"] - start["ray"]) / (cpu["plain"] - start["plain"]) - 1
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f}",
        "lines": given.lines,
        "workers": given.workers,
        "beam": given.beam,
        "rounds": given.rounds,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "start_cpu_seconds": start,
        "ray_cpu_seconds_by_process": ray.cpu_by_kind(),
        "overhead_wall": wall["ray"] / wall["plain"] - 1,
        "overhead_cpu": cpu["ray"] / cpu["plain"] - 1,
        "overhead_cpu_without_start": steady,
        "peak_mib": {kind: ray.peak(kind) for kind in ("driver", "worker", "reader", "ray")},
        "peak_mib_plain": plain.peak("driver"),
        "workers_shown": shown,
    }
    print(json.dumps(result, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
