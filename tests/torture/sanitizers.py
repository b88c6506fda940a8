"""The C engine, built with AddressSanitizer and UBSan, on random models and searches: no report of either.

python tests/torture/sanitizers.py --models 5000
python tests/torture/sanitizers.py --models 2000 --directories

Each model has random sizes, settings and weights, some of them absurd, and translates random sentences. With
--directories, each is a model directory with damaged or hostile files (hostile_models.py). A child process does many of
them; one that a sanitizer ends is reported with its number, and the next child goes on after it. The engine's regions
of memory get poisoned gaps (redzones.c), and each weight is an allocation of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from dragoman.arrays import FloatArray
from dragoman.config import ModelRecipe
from dragoman.engines import native_model
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_layout import ACTIVATION_CODES, POSITION_CODES, STRUCTURES
from dragoman.engines.native_model import NativeModel
from dragoman.errors import DragomanError, RecipeError
from dragoman.modeldir.int8 import pair_scales, quantize_weights
from dragoman.modeldir.weights import Weights, tensor_layout
from dragoman.native import build
from dragoman.search.types import Mean, RecordedHead, Sampling, Search, StopFlag
from letters import MIN_LETTERS, random_letters, random_tables

SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
FACTORS = (*[1.0] * 12, 0.0, 1e4, 1e18, 1e38)
STRAY = (*[None] * 12, np.nan, np.inf, -np.inf)  # what stands in place of some weights
PER_CHILD = 500


def draw_recipe(draw: Random) -> ModelRecipe:
    """A model that the engine supports, of any shape."""
    while True:
        positions = draw.choice(list(POSITION_CODES))
        relative = {"max_distance": draw.choice((1, 2, draw.randint(1, 100)))} if positions == "relative" else {}
        try:
            return ModelRecipe(
                d_model=draw.choice((draw.randint(1, 150), draw.randint(1, 20), draw.randint(1, 20), 64, 128)),
                n_heads=draw.choice((1, 2, 3, draw.randint(1, 20))),
                d_k=draw.choice((1, 2, draw.randint(1, 20), draw.randint(1, 70), 16, 32)),
                d_v=draw.choice((1, draw.randint(1, 20), draw.randint(1, 70), 16, 32)),
                d_ff=draw.choice((1, draw.randint(1, 50), draw.randint(1, 300), 256)),
                encoder_layers=draw.choice((1, 1, 2)),
                decoder_layers=draw.choice((1, 1, 2)),
                activation=draw.choice(list(ACTIVATION_CODES)),
                positions=positions,
                max_positions=draw.choice((1, 2, draw.randint(1, 150))),
                attention_bias=draw.random() < 0.5,
                norm_order=draw.choice(("post", "pre")),
                norm_epsilon=draw.choice((1e-5, 1e-12, 0.05, 1.0)),
                tie=draw.choice(("all", "target", "none")),
                output_bias=draw.random() < 0.5,
                autoregression=draw.choice(("self_attention", "self_attention", "ssru")),
                **relative,
            )
        except RecipeError:
            continue


def draw_weights(draw: Random, recipe: ModelRecipe, vocabulary: tuple[int, int]) -> Weights:
    """Weights of any size, with or without numbers that are not finite."""
    random = np.random.default_rng(draw.randrange(1 << 32))
    scale, stray = draw.choice(FACTORS), draw.choice(STRAY)
    weights: dict[str, FloatArray] = {}
    for tensor in tensor_layout(recipe, vocabulary):
        if tensor:
            name, shape = tensor
            with np.errstate(over="ignore"):
                weight = (random.standard_normal(shape) * 0.3 * scale).astype(np.float32)
            if stray is not None:
                weight[random.random(shape) < 0.02] = stray
            weights[name] = weight
    stored = quantize_weights(weights) if draw.random() < 0.3 else weights
    return Weights(Path("random"), [], *pair_scales(stored))


def draw_rows(draw: Random, n: int, vocabulary: int, longest: int) -> list[list[int]]:
    lengths = (draw.choice((0, 1, draw.randint(0, longest))) for _ in range(n))
    return [[draw.randrange(vocabulary) for _ in range(min(length, longest))] for length in lengths]


def draw_sampling(draw: Random) -> Sampling:
    return Sampling(
        draw.choice((1e-6, 0.5, 1.0, 1e6)), draw.choice((0, 1, 3, 1000)), draw.choice((1e-9, 0.5, 0.9, 1.0))
    )


def draw_heads(draw: Random, recipe: ModelRecipe) -> list[RecordedHead]:
    heads = (None, *range(recipe.n_heads))
    return [
        RecordedHead(draw.randrange(recipe.decoder_layers), draw.choice(heads)) for _ in range(draw.choice((0, 1, 2)))
    ]


def draw_search(draw: Random) -> Search:
    while True:
        beam = draw.choice((1, 1, 2, 3, 4, 5, 8, draw.randint(1, 64)))
        try:
            return Search(
                beam=beam,
                n_best=draw.choice((1, beam, draw.randint(1, beam))),
                length_penalty=draw.choice((0.0, 0.6, 1.0, -1.0, 5.0)),
                extra_length=draw.randint(0, 5),
                max_length=draw.choice((None, draw.randint(1, 20), draw.randint(1, 6))),
                min_length=draw.choice((0, 0, 0, draw.randint(0, 20))),
                no_repeat=draw.choice((0, 0, 1, 2, 3, 9)),
                sampling=draw.choice((None, None, draw_sampling(draw))),
            )
        except DragomanError:
            continue


def run_model(code: ctypes.CDLL, draw: Random) -> str:
    """One model with a few searches; how they ended."""
    recipe = draw_recipe(draw)
    size = draw.choice((4, 5, draw.randint(4, 40), draw.randint(4, 700)))
    vocabulary = (size, size if recipe.tie == "all" else draw.randint(4, 400))
    threads, quantize, outcomes = draw.choice((1, 1, 2, 3)), draw.random() < 0.6, []
    models = [
        NativeModel(code, recipe, vocabulary, draw_weights(draw, recipe, vocabulary), threads, quantize)
        for _ in range(draw.choice((1, 1, 1, 2, 3)))
    ]
    engine = NativeEngine(models, threads, quantize, draw.choice(get_args(Mean)))
    letters = random_letters(vocabulary[1], draw) if vocabulary[1] >= MIN_LETTERS and draw.random() < 0.5 else None
    for _ in range(draw.choice((1, 1, 2))):
        sources = draw_rows(draw, draw.choice((1, 2, draw.randint(1, 20))), vocabulary[0], draw.choice((3, 9, 70)))
        prefixes = draw_rows(draw, len(sources), vocabulary[1], 9) if draw.random() < 0.4 else None
        stop = StopFlag()
        if draw.random() < 0.05:
            stop.set()
        try:
            tables = None if letters is None else random_tables(letters, len(sources), draw)
            found = engine.search(sources, draw_search(draw), prefixes, tables, stop, draw_heads(draw, recipe))
            assert all(0 <= token < vocabulary[1] for rows in found for one in rows for token in one.ids)
            pairs = [(source, one.ids) for source, rows in zip(sources, found, strict=True) for one in rows]
            if draw.random() < 0.5:
                assert [len(row) for row in engine.log_probabilities(pairs)] == [len(ids) + 1 for _, ids in pairs]
            if draw.random() < 0.5 and len(models) == 1:
                assert len(list(engine.cross_maps(pairs))) == len(pairs)
                kinds = 3 if recipe.autoregression == "self_attention" else 2
                assert len(engine.attention_maps(*draw.choice(pairs))) == kinds
            outcomes.append("translated")
        except DragomanError as error:
            outcomes.append(error.code)
    return min(outcomes, key=lambda outcome: outcome != "translated")


def run_directory(code: ctypes.CDLL, draw: Random) -> str:
    """One hostile model directory; how its use ended."""
    from hostile_models import use_model, write_hostile

    native_model.load_code = lambda: code
    with tempfile.TemporaryDirectory() as folder:
        write_hostile(Path(folder) / "model", draw)
        return use_model(Path(folder) / "model", draw)


def child(library: Path, work: str, seed: int, first: int, last: int) -> None:
    """Run models `first` to `last`; each line of the output is a number, and then how it ended."""
    code = ctypes.CDLL(str(library))
    code.model_new.restype = code.worker_new.restype = ctypes.c_void_p
    assert build.layout_mismatch(code, STRUCTURES) is None and code.self_test() == 0
    for number in range(first, last):
        print(number, end=" ", flush=True)
        run = run_directory if work == "directories" else run_model
        print(run(code, Random(f"{seed}/{number}")), flush=True)


def compile_library(target: tuple[str, ...], folder: Path) -> Path:
    """The engine with both sanitizers, for one kind of processor."""
    sources = [str(file) for file in sorted((build.HERE / "translate").rglob("*.c")) if file.name != "memory.c"]
    here, built = Path(__file__).parent, folder / f"translate{'-'.join(target)}.so"
    words = [*build.COMMON, *target, *SANITIZE, f"-I{build.HERE / 'translate'}", str(here / "redzones.c"), *sources]
    subprocess.run(["cc", *words, "-o", str(built), "-lm"], check=True)
    return built


def torture(models: int, work: str, seed: int, kinds: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Run so many models, over so many kinds of processors: outcomes, and what the sanitizers reported."""
    tally, reports = Counter[str](), []
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    environment = {**os.environ, "LD_PRELOAD": runtime.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    environment["DRAGOMAN_CACHE"] = str(folder / "cache")
    targets = [target for target in build.TARGETS if not any("amx" in flag for flag in target)]
    libraries = [compile_library(target, folder) for target in targets[:kinds]]
    number, limit = 0, -(-models // len(libraries))
    limit = min(limit, PER_CHILD)
    while number < models:
        library, last = libraries[number // limit % len(libraries)], min(models, (number // limit + 1) * limit)
        words = [sys.executable, __file__, "--child", str(library), work, str(seed), str(number), str(last)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        lines = [line.split() for line in done.stdout.splitlines()]
        tally.update(line[1] for line in lines if len(line) == 2)
        if not done.returncode:
            number = last
            print(f"{number} models, {len(reports)} reports", flush=True)
            continue
        if done.returncode == -4 and not lines:  # SIGILL: the processor announces what it does not have
            print(f"{library.name} does not run here", flush=True)
            libraries.remove(library)
            continue
        number = int(lines[-1][0]) + 1 if lines else last
        tally["FAILED"] += 1
        reports.append(f"model {number - 1}, {library.name}, exit code {done.returncode}:\n{done.stderr[-6000:]}")
        print(reports[-1], flush=True)
    return tally, reports


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        library, work, seed, first, last = sys.argv[2:]
        child(Path(library), work, int(seed), int(first), int(last))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--directories", action="store_true", help="hostile model directories")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--builds", type=int, default=len(build.TARGETS), help="for so many kinds of processors")
    options = parser.parse_args()
    if shutil.which("cc") is None:
        print("no C compiler: nothing is tried")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        work = "directories" if options.directories else "models"
        tally, reports = torture(options.models, work, options.seed, options.builds, Path(folder))
    print(f"{tally.total()} models: {dict(sorted(tally.items()))}; {len(reports)} reports")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
