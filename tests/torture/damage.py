"""Damage a checkpoint in many ways, and fill a disk: what is damaged is found, and the last good one is used.

python tests/torture/damage.py --damages 200          (the full disk is a small tmpfs, and needs root)
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from dragoman.training.checkpoints.checkpoint import Checkpoints, equal_checkpoints
from tiny_run import Telling, difference, outcome, prepare_tiny, start, tiny_run


def damages(count: int, out: Path) -> bool:
    """Flip single bits and cut files of the newest checkpoint, one at a time, over all its files."""
    directory = out / "training/checkpoints"
    quiet = Checkpoints(directory, lambda text: None)
    newest, before = quiet.steps()[-1], quiet.steps()[-2]
    good = {step: quiet.read(step) for step in (newest, before)}
    files = sorted(quiet.path_for(newest).iterdir())
    tally: Counter[str] = Counter()
    for number in range(count):
        file = files[number % len(files)]
        whole = file.read_bytes()
        place = random.randrange(len(whole))
        kind = random.choice(("bit", "bit", "cut"))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << random.randrange(8)]) + whole[place + 1 :]
        damaged = whole[:place] if kind == "cut" else flipped
        harmless = file.name == "manifest.json" and means(damaged) == means(whole)
        file.write_bytes(damaged)
        warnings: list[str] = []
        loaded = Checkpoints(directory, warnings.append).load()
        file.write_bytes(whole)
        assert loaded is not None
        if harmless and equal_checkpoints(loaded, good[newest]):
            tally["of no meaning (space in the manifest)"] += 1
        elif equal_checkpoints(loaded, good[before]) and warnings:
            tally[f"{kind} in {file.name}: found, step {before} used"] += 1
        else:
            tally[f"{kind} in {file.name}: MISSED"] += 1
    for what, times in sorted(tally.items()):
        print(f"  {times:4d}  {what}")
    return not any("MISSED" in what for what in tally)


def means(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def fill_at(data: Path, out: Path, step: int) -> None:
    """Train, and have another program fill the disk at a step."""

    class Filling(Telling):
        def step_done(self, done: int, target_tokens: float, loss: float) -> None:
            if done == step:
                try:
                    with (out / "filler").open("wb", buffering=0) as file:
                        while True:
                            file.write(bytes(4096))
                except OSError:
                    return

    tiny_run(data, out, reporter=Filling())


def full_disk(data: Path, disk: Path, reference: dict[str, object]) -> bool:
    """A small disk that fills at different steps: the run ends with words, the last checkpoint is whole, it goes on."""
    good = True
    for step in (2, 4, 7, 8, 9, 14):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
        try:
            log = data / "stderr"
            log.unlink(missing_ok=True)
            process = start(fill_at, data, disk / "m", step, stderr=log)
            process.join()
            said = log.read_text().strip().splitlines()[-1]
            checkpoints = Checkpoints(disk / "m/training/checkpoints", lambda text: print("  DAMAGED:", text))
            stray = [p.name for p in disk.rglob(".*")]
            loaded = checkpoints.load()
            (disk / "m/filler").unlink()
            tiny_run(data, disk / "m")
            told = difference(reference, outcome(disk / "m"))
            fine = process.exitcode == 2 and "No space left" in said and not stray and not told
            good = good and fine
            last = loaded.step if loaded else 0
            print(
                f"  full at step {step}: exit code {process.exitcode}, last good step {last}; {told or 'resumed equal'}"
            )
            print(f"    {said.replace(str(disk), '<disk>')}")
            if stray:
                print(f"    LEFT BEHIND: {stray}")
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    torch.set_num_threads(1)  # as in the children: another number may round otherwise
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare_tiny(root)
        tiny_run(root, root / "m")
        reference = outcome(root / "m")  # before a damaged checkpoint has moved `latest`
        print(f"{chosen.damages} flipped bits and cuts:")
        good = damages(chosen.damages, root / "m")
        if shutil.which("mount") and subprocess.run(["id", "-u"], capture_output=True, text=True).stdout.strip() == "0":
            (root / "disk").mkdir()
            print("a disk of 3 MB that fills:")
            good = full_disk(root, root / "disk", reference) and good
        else:
            print("no root: the full disk is left out")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
