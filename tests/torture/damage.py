"""Damage files in many ways, and fill a disk: what is damaged is found, and the last good one is used or made again.

python tests/torture/damage.py                        (the full disk is a small tmpfs, and needs root)
python tests/torture/damage.py --only model log --model 1000 --log 50
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from dragoman.config import ModelRecipe
from dragoman.data.prepared import Prepared
from dragoman.engines.ctranslate2 import CTranslate2Engine
from dragoman.errors import DragomanError
from dragoman.modeldir.layout import verify_model_cached
from dragoman.native.build import library
from dragoman.search.types import Search
from dragoman.training.checkpoints.checkpoint import Checkpoints, equal_checkpoints
from dragoman.training.reporting.metrics import TrainingResult
from random_models import write_random
from tiny_run import Telling, difference, outcome, prepare_tiny, recipe, start, tiny_run

COUNTS = {"checkpoint": 200, "model": 1000, "prepared": 300, "library": 120, "converted": 120, "log": 50}
SMALL = ModelRecipe(d_model=24, n_heads=3, d_ff=40, encoder_layers=1, decoder_layers=2)
# What a process does that needs the library, with a compiler that is quick: it hands out the good library.
LOAD = """
import sys
from pathlib import Path
from dragoman.native import build

def rebuild(folder, compiler, flags, targets, path):
    sys.stderr.write("built again")
    return Path(sys.argv[1]).read_bytes()[:-build.DIGEST_BYTES]

build._build = rebuild
code = build.library(sys.argv[2])
sys.exit(1 if code is None else code.self_test())
"""


def damaged_files(count: int, files: list[Path]) -> Iterator[tuple[str, Path, bool]]:
    """Flip a bit or cut a file, one at a time over all files; yield what was done, and whether it means nothing.

    Each file is whole again afterwards.
    """
    for number in range(count):
        file = files[number % len(files)]
        whole = file.read_bytes()
        place = random.randrange(len(whole))
        kind = random.choice(("bit", "bit", "cut"))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << random.randrange(8)]) + whole[place + 1 :]
        content = whole[:place] if kind == "cut" else flipped
        file.write_bytes(content)
        try:
            yield f"{kind} in {file.name}", file, file.name == "manifest.json" and means(content) == means(whole)
        finally:
            file.write_bytes(whole)


def means(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def is_found(check: Callable[[], object]) -> bool:
    """Whether a check reports damage; anything but our own error is a crash, and ends all."""
    try:
        check()
    except DragomanError:
        return True
    return False


def damage_checkpoint(count: int, out: Path) -> Counter[str]:
    """The newest checkpoint: the one before it is used, with a warning."""
    directory, tally = out / "training/checkpoints", Counter[str]()
    quiet = Checkpoints(directory, lambda text: None)
    newest, before = quiet.steps()[-1], quiet.steps()[-2]
    good = {step: quiet.read(step) for step in (newest, before)}
    for what, _, harmless in damaged_files(count, sorted(quiet.path_for(newest).iterdir())):
        warnings: list[str] = []
        loaded = Checkpoints(directory, warnings.append).load()
        assert loaded is not None
        if harmless and equal_checkpoints(loaded, good[newest]):
            tally["of no meaning (space in the manifest)"] += 1
        elif equal_checkpoints(loaded, good[before]) and warnings:
            tally[f"{what}: found, step {before} used"] += 1
        else:
            tally[f"{what}: MISSED"] += 1
    return tally


def damage_model(count: int, model: Path) -> Counter[str]:
    """A model that was verified before: the damage is found when it is loaded."""
    tally = Counter[str]()
    verify_model_cached(model)
    files = sorted(path for path in model.iterdir() if path.is_file() and path.name != "card.md")
    for what, _, harmless in damaged_files(count, files):
        found = is_found(lambda: verify_model_cached(model))
        key = "found" if found else "of no meaning (space in the manifest)" if harmless else "MISSED"
        tally[f"{what}: {key}"] += 1
    return tally


def damage_prepared(count: int, prepared: Path) -> Counter[str]:
    """Prepared data: the damage is found when they are verified."""
    tally = Counter[str]()
    files = sorted(path for path in prepared.rglob("*") if path.suffix in (".ids", ".offsets", ".spm"))
    for what, file, _ in damaged_files(count, files):
        found = is_found(lambda: Prepared.open(prepared, verify=True))
        tally[f"{what.split()[0]} in {file.suffix}: {'found' if found else 'MISSED'}"] += 1
    return tally


def damage_library(count: int, cache: Path, name: str = "translate") -> Counter[str]:
    """A C library: a process that starts does not crash, but builds it again, and it works."""
    library.cache_clear()  # it may have been loaded from another cache
    assert library(name) is not None
    (stored,), tally = cache.glob(f"{name}-*.so"), Counter[str]()
    good = cache / "good"
    shutil.copy(stored, good)
    for what, _, _ in damaged_files(count, [stored]):
        words = [sys.executable, "-c", LOAD, str(good), name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        fine = done.returncode == 0 and done.stderr == "built again"
        tally[f"{what.split()[0]}: {'found, built again' if fine else f'MISSED, exit code {done.returncode}'}"] += 1
    return tally


def damage_converted(count: int, model: Path, cache: Path) -> Counter[str]:
    """A model converted for CTranslate2: it is converted again, and translates the same."""
    search, sources, tally = Search(beam=1, max_length=6), [[5, 6], [7]], Counter[str]()

    def translate() -> object:
        engine = CTranslate2Engine.load(model, 1)
        assert engine is not None
        return engine.search(sources, search)

    expected = translate()
    files = sorted(path for path in (cache / "ctranslate2").rglob("*") if path.is_file())
    for what, file, harmless in damaged_files(count, files):
        damaged = file.read_bytes()
        same = translate() == expected and (harmless or file.read_bytes() != damaged)
        tally[f"{what}: {'found, converted again' if same else 'MISSED'}"] += 1
    return tally


def damage_log(count: int, data: Path, out: Path) -> Counter[str]:
    """The log and the result of a finished run: they can be read, and the run can be called again."""
    tally, files = Counter[str](), [out / "training/metrics.jsonl", out / "training/result.json"]
    whole = (out / "model.safetensors").read_bytes()
    for what, _, _ in damaged_files(count, files):
        TrainingResult.read(out / "training", recipe())
        tiny_run(data, out)
        same = (out / "model.safetensors").read_bytes() == whole
        tally[f"{what}: {'the same model' if same else 'MISSED'}"] += 1
    return tally


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


def damage_all(root: Path, counts: dict[str, int]) -> dict[str, Counter[str]]:
    """Damage each kind as often as asked; the finished run is `root`/m. The cache is that of the environment."""
    cache = Path(os.environ["DRAGOMAN_CACHE"])
    kinds: dict[str, Callable[[int], Counter[str]]] = {
        "checkpoint": lambda count: damage_checkpoint(count, root / "m"),
        "model": lambda count: damage_model(count, root / "m"),
        "prepared": lambda count: damage_prepared(count, root / "prepared"),
        "library": lambda count: damage_library(count, cache),
        "converted": lambda count: damage_converted(count, write_random(root / "small", SMALL, 137), cache),
        "log": lambda count: damage_log(count, root, root / "m"),
    }
    return {kind: kinds[kind](count) for kind, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*COUNTS, "disk"], default=[*COUNTS, "disk"])
    for kind, count in COUNTS.items():
        parser.add_argument(f"--{kind}", type=int, default=count, help="how often")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    logging.disable(logging.WARNING)  # what is damaged is named there, each time
    torch.set_num_threads(1)  # as in the children: another number may round otherwise
    good = True
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["DRAGOMAN_CACHE"] = str(root / "cache")
        prepare_tiny(root)
        tiny_run(root, root / "m")
        reference = outcome(root / "m")  # before a damaged checkpoint has moved `latest`
        for kind in COUNTS:
            if kind in chosen.only:
                (tally,) = damage_all(root, {kind: vars(chosen)[kind]}).values()
                print(f"{kind}, {tally.total()} flipped bits and cuts:")
                for what, times in sorted(tally.items()):
                    print(f"  {times:4d}  {what}", flush=True)
                good = good and not any("MISSED" in what for what in tally)
        if "disk" in chosen.only and shutil.which("mount") and os.geteuid() == 0:
            (root / "disk").mkdir()
            print("a disk of 3 MB that fills:")
            good = full_disk(root, root / "disk", reference) and good
        elif "disk" in chosen.only:
            print("no root: the full disk is left out")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
