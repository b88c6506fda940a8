"""Translate with models whose weights are absurd; run as a child process, which a sanitizer may end.

python absurd_models.py LIBRARY FOLDER
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from dragoman.engines.native import NativeEngine
from dragoman.engines.native_model import NativeModel
from dragoman.errors import SearchError
from dragoman.modeldir.weights import read_weights
from dragoman.search.types import Search
from random_models import RECIPES, sentences, write_random

ABSURD = (1e4, 1e18, 1e38, np.nan, np.inf, -np.inf)  # factors of all weights, and what stands in place of some


def main(library: Path, folder: Path) -> None:
    """Each kind of model with each kind of weights, in both precisions, greedy and with a beam."""
    code, draw = ctypes.CDLL(str(library)), np.random.default_rng(3)
    code.model_new.restype = code.worker_new.restype = ctypes.c_void_p
    for number, name in enumerate(name for name in RECIPES if " head" not in name or "tanh" in name):
        recipe, vocabulary = RECIPES[name]
        directory = write_random(folder / f"m{number}", recipe, vocabulary)
        usual = load_file(directory / "model.safetensors")
        sizes = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
        for absurd in ABSURD:
            with np.errstate(over="ignore"):
                weights = {name: (weight * absurd).astype(np.float32) for name, weight in usual.items()}
            if not np.isfinite(absurd):
                places = {name: draw.random(weight.shape) < 0.02 for name, weight in usual.items()}
                weights = {n: np.where(places[n], absurd, w).astype(np.float32) for n, w in usual.items()}
            save_file(weights, directory / "model.safetensors")
            for quantize in (True, False):
                mapped = read_weights(directory)
                assert mapped is not None
                engine = NativeEngine([NativeModel(code, recipe, sizes, mapped, 2, quantize)], 2, quantize)
                for beam in (1, 3):
                    with suppress(SearchError):  # the model produced NaN
                        engine.search(sentences(4, min(sizes)), Search(beam=beam, max_length=7))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
