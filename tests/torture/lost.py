"""Kill or freeze a process of a run with the real settings, and measure the seconds to a clear end.

python tests/torture/lost.py                          (a minute or two for each of the cases)
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tiny_run import TINY, write_corpus


def command(launcher: str, corpus: tuple[str, str], out: Path) -> list[str]:
    """`dragoman train` in two processes, for longer than any case takes."""
    settings = [
        word for change in (*TINY, "train.steps=100000", "train.evaluate_every=100000") for word in ("--set", change)
    ]
    train = ["train", "--source", corpus[0], "--target", corpus[1], "--out", str(out), "--recipe", "tiny", *settings]
    if launcher == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "dragoman", *train]
    return [sys.executable, "-m", "dragoman", *train, "--processes", "2"]


def pid_of(rank: int, parent: int) -> int:
    """The process that is this rank, among the children of the launcher."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                mother = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                environment = (place / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mother == parent and f"RANK={rank}".encode() in environment:
                return int(place.name)
    raise SystemExit(f"rank {rank} is not there")


def case(launcher: str, number: signal.Signals, rank: int, folder: Path) -> bool:
    """One run that loses a rank; True where it ended in time, and said who was lost."""
    corpus = write_corpus(folder)
    out = folder / f"{launcher}-{number.name}-{rank}"
    log = folder / f"{out.name}.log"
    with log.open("wb") as errors:
        words = command(launcher, (str(corpus.source), str(corpus.target)), out)
        run = subprocess.Popen(words, stdout=errors, stderr=errors, start_new_session=True)
        until = time.monotonic() + 120
        while not (out / "training/checkpoints/step-00000008").exists():
            if run.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the run did not begin:\n{log.read_text()}")
            time.sleep(0.05)
        victim = pid_of(rank, run.pid)
        began = time.monotonic()
        os.kill(victim, number)
        said = None
        while run.poll() is None and time.monotonic() < began + 150:
            if said is None and f"rank {rank} (process {victim}" in log.read_text():
                said = time.monotonic() - began
            time.sleep(0.05)
        ended = time.monotonic() - began
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    text = log.read_text()
    if said is None and f"rank {rank} (process {victim}" in text:
        said = ended
    words_said = next((line for line in text.splitlines() if f"rank {rank} (process {victim}" in line), "nothing")
    told = "never" if said is None else f"{said:.1f} s"
    print(
        f"{launcher}, rank {rank}, {number.name}: said after {told}, ended after {ended:.1f} s, code {run.returncode}"
    )
    print(f"  {words_said}", flush=True)
    return said is not None and ended < 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launchers", nargs="+", default=["processes", "torchrun"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[0, 1])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = [
            case(launcher, number, rank, Path(folder))
            for launcher in chosen.launchers
            for number in (signal.SIGKILL, signal.SIGSTOP)
            for rank in chosen.ranks
        ]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
