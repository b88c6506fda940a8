"""Kill a run of training at random points, resume it each time, and compare all that it leaves, bit for bit.

python tests/torture/resume.py --kills 20 --processes 1 2 3

Half of the kills come from outside after a random time; the other half strike from inside, at a random call that syncs
or renames a file, so that they hit saves, prunings and the writing of the model.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from dragoman.training.distributed.ranks import Ranks
from tiny_run import Team, difference, member, outcome, prepare_tiny, tiny_run

CHANGES = ("train.steps=60", "train.save_every=5", "train.evaluate_every=7", "train.log_every=3")


def work(ranks: Ranks, data: Path, out: Path, changes: tuple[str, ...], deadly: int) -> None:
    """Train; where `deadly` is given, be killed at so many calls that sync or rename."""
    if deadly and ranks.first:
        arm(deadly)
    tiny_run(data, out, *changes, ranks=ranks)


def arm(deadly: int) -> None:
    """Have this process killed at a call that syncs or renames."""
    calls = 0

    def striking(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    os.fsync = striking(os.fsync)
    Path.rename, Path.replace = striking(Path.rename), striking(Path.replace)  # type: ignore[method-assign]


def life(world: int, folder: Path, changes: tuple[str, ...], deadly: int, seconds: float | None) -> bool:
    """One life of the run; True where it was killed."""
    quick = {"DRAGOMAN_HEARTBEAT_INTERVAL": "0.2", "DRAGOMAN_HEARTBEAT_TIMEOUT": "3"}
    args = (folder.parent, folder / "m", changes, deadly)
    team = Team(world, member, work, *args, folder=folder, **quick)
    if seconds is not None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(m.is_alive() for m in team.members):
            time.sleep(0.005)
        if all(m.is_alive() for m in team.members):
            os.kill(random.choice(team.members).pid, signal.SIGKILL)
    codes = team.wait(120)
    if all(code == 0 for code in codes):
        return False
    if -signal.SIGKILL not in codes:
        raise SystemExit(f"ended with {codes}, and nobody was killed:\n{team.said()}")
    return True


def torture(world: int, parallel: str, more: list[str], kills: int, root: Path) -> str:
    changes = (*CHANGES, f"train.parallel={parallel}", *more)
    whole, broken = root / f"whole-{world}-{parallel}", root / f"broken-{world}-{parallel}"
    for folder in (whole, broken):
        folder.mkdir()
    began = time.monotonic()
    if life(world, whole, changes, 0, None):
        raise SystemExit("the run that nobody kills was killed")
    took = time.monotonic() - began
    done, inside, steps = 0, 0, []
    while done < kills:
        strike = done % 2 == 1
        # a life has some 20 calls a save; outside kills fall anywhere in the time that the whole run took
        killed = life(
            world,
            broken,
            changes,
            random.randint(1, 60) if strike else 0,
            None if strike else random.uniform(0.1, took),
        )
        if not killed:  # it came to its end: begin anew, and go on killing
            told = difference(outcome(whole / "m"), outcome(broken / "m"))
            if told:
                return f"DIFFERENT: {told}"
            (broken / "m").rename(broken / f"done-{done}-{time.monotonic_ns()}")
            continue
        done, inside = done + 1, inside + strike
        found = sorted((broken / "m/training/checkpoints").glob("step-*"))
        steps.append(int(found[-1].name[5:]) if found else 0)
    while life(world, broken, changes, 0, None):
        pass
    told = difference(outcome(whole / "m"), outcome(broken / "m"))
    left = [p.name for p in (broken / "m/training").rglob(".*")]
    verdict = f"DIFFERENT: {told}" if told else f"left behind: {left}" if left else "equal, bit for bit"
    return f"{verdict}; {done} kills, {inside} of them inside a save; last checkpoints then: {steps}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--parallel", nargs="+", default=["ddp"])
    parser.add_argument("--set", dest="more", nargs="+", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        prepare_tiny(Path(folder))
        for world in chosen.processes:
            for parallel in chosen.parallel:
                told = torture(world, parallel, chosen.more, chosen.kills, Path(folder))
                good = good and told.startswith("equal")
                print(f"{world} process{'es' if world > 1 else ''} ({parallel}): {told}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
