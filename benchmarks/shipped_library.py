"""The library of a wheel beside the one that is compiled for this machine: milliseconds per call, and the same output.

    make wheels
    unzip -o dist/*manylinux*x86_64.whl 'dragoman/native/*.so' -d /tmp/wheel
    python benchmarks/shipped_library.py /tmp/wheel/dragoman/native/dragoman_native.so --model my-model

Every variant of the shipped library that this processor supports runs in turn with the compiled one, on 20 source
tokens and 20 forced output tokens. The fastest of the rounds counts, so that other programs disturb little; below 1.00,
the shipped library is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import platform
import random
import time
from pathlib import Path

from dragoman.config import Recipe
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_layout import STRUCTURES
from dragoman.engines.native_model import NativeModel
from dragoman.modeldir.info import read_info
from dragoman.modeldir.weights import read_weights
from dragoman.native import library, shipped, why_not
from dragoman.native.build import layout_mismatch
from dragoman.native.variants import machine, variants
from dragoman.search.types import Search

LENGTH = 20
CELLS = [(1, 1), (1, 4), (64, 1), (64, 4)]  # sentences, beam


def engine_of(code: ctypes.CDLL, directory: Path, quantize: bool, threads: int) -> NativeEngine:
    assert layout_mismatch(code, STRUCTURES) is None
    code.model_new.restype = code.worker_new.restype = ctypes.c_void_p
    weights, recipe = read_weights(directory), Recipe.load(directory / "recipe.toml").model
    assert weights is not None
    vocabulary = read_info(directory).vocabulary_sizes
    return NativeEngine([NativeModel(code, recipe, vocabulary, weights, threads, quantize)], threads, quantize)


def shipped_variants(path: Path) -> dict[str, ctypes.CDLL]:
    """The variants that this processor supports; a variant with tiles only if the system grants them."""
    supports = ctypes.CDLL(str(path)).processor_portable_supports
    names = [variant.name for variant in variants("translate", machine()) if supports(variant.name.encode())]
    found = {name: shipped.ShippedLibrary(path, f"translate_{name}_") for name in names}
    return {name: code for name, code in found.items() if code.self_test() == 0 and code.request_tiles() == 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", action="append", help="a variant to measure; all of them if it is not given")
    options = parser.parse_args()
    compiled = library("translate")
    if compiled is None:
        raise SystemExit(f"nothing to compare with: {why_not('translate')}")
    found = shipped_variants(options.library)
    codes = {"compiled here": compiled, **{name: found[name] for name in options.only or found}}
    compiled.instructions.restype = ctypes.c_char_p
    print(f"{platform.machine()}, compiled here with {compiled.instructions().decode()}; {options.threads} threads\n")
    print(f"| precision, sentences, beam | {' | '.join(codes)} |\n|---|{'---|' * len(codes)}")
    rng = random.Random(1)
    for quantize in (True, False):
        engines = {name: engine_of(code, options.model, quantize, options.threads) for name, code in codes.items()}
        vocabulary = engines["compiled here"].vocabulary[0]
        for sentences, beam in CELLS:
            rows = [[rng.randrange(4, vocabulary) for _ in range(LENGTH)] for _ in range(sentences)]
            search = Search(beam=beam, min_length=LENGTH, max_length=LENGTH)
            times: dict[str, list[float]] = {name: [] for name in engines}
            outputs = {}
            for _ in range(options.rounds):
                for name, engine in engines.items():
                    begun = time.perf_counter()
                    outputs[name] = engine.search(rows, search)
                    times[name].append(time.perf_counter() - begun)
            base = min(times["compiled here"])
            cells = [f"{1000 * base:.2f} ms"]
            for name in [*engines][1:]:
                pairs = zip(outputs[name], outputs["compiled here"], strict=True)
                same = sum(a[0].ids == b[0].ids for a, b in pairs)
                cells.append(f"{min(times[name]) / base:.2f} ({same}/{sentences} equal)")
            precision = "int8" if quantize else "float32"
            print(f"| {precision}, {sentences}, {beam} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
