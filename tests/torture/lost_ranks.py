"""Kill or freeze a process of a run with the real settings, and measure the seconds to a clear end.

Then kill the launcher itself at several moments: no process may stay behind.

python tests/torture/lost_ranks.py                          (a minute or two for each of the cases)
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


def marked(mark: str) -> list[int]:
    """The processes with this mark in their environment; those that only wait to be reaped have none."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                environment = (place / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"TORTURE={mark}".encode() in environment:
                found.append(int(place.name))
    return found


def orphans(moment: int, folder: Path) -> bool:
    """A launcher that is killed when there are so many processes, or after step 8; True if none stays behind."""
    corpus, out = write_corpus(folder), folder / f"orphans-{moment}"
    words = command("processes", (str(corpus.source), str(corpus.target)), out)
    environment, quiet = {**os.environ, "TORTURE": str(out)}, subprocess.DEVNULL
    run = subprocess.Popen(words, stdout=quiet, stderr=quiet, env=environment, start_new_session=True)
    until, trained = time.monotonic() + 120, out / "training/checkpoints/step-00000008"
    while len(marked(str(out))) < moment and not trained.exists():
        if run.poll() is not None or time.monotonic() > until:
            raise SystemExit("the run did not begin")
        time.sleep(0.005)
    others = len(marked(str(out))) - 1
    run.kill()
    run.wait()
    began = time.monotonic()
    while (left := marked(str(out))) and time.monotonic() < began + 60:
        time.sleep(0.05)
    gone = time.monotonic() - began
    for process in left:
        os.kill(process, signal.SIGKILL)
    when = "while training" if trained.exists() else "while starting"
    print(f"launcher killed {when}: {others} other processes, gone after {gone:.1f} s, {len(left)} left", flush=True)
    return not left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launchers", nargs="*", default=["processes", "torchrun"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--orphans", type=int, nargs="*", default=[2, 2, 3, 3, 99, 99], help="processes at the kill")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = [
            case(launcher, number, rank, Path(folder))
            for launcher in chosen.launchers
            for number in (signal.SIGKILL, signal.SIGSTOP)
            for rank in chosen.ranks
        ]
        for number, moment in enumerate(chosen.orphans):
            place = Path(folder) / str(number)
            place.mkdir()
            good.append(orphans(moment, place))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
