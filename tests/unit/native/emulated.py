"""The engine's C built for another processor and run by an emulator, in the place of the library that Python loads.

A call of `translate` is a run of the program: the model, the job and the answers travel in files.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.config import ModelRecipe
from dragoman.engines.native_layout import ModelConfig, TranslationJob
from dragoman.modeldir.weights import tensor_layout
from dragoman.native import build

NUMBERS = ("sentences", "beam", "n_best", "min_length", "no_repeat", "max_length", "threads")


def program(compiler: Sequence[str], to: Path, *flags: str) -> Path:
    """`emulated.c` and the sources of the library, with its flags, as one static file."""
    folder = build.HERE / "translate"
    words = [*(flag for flag in build.COMMON if flag not in ("-shared", "-fPIC")), "-static", f"-I{folder}"]
    sources = map(str, (Path(__file__).with_name("emulated.c"), *folder.rglob("*.c")))
    subprocess.run([*compiler, *words, *flags, *sources, "-o", str(to), "-lm"], check=True)
    return to


class Emulated:
    """What `NativeEngine` calls of a library, each by a run of the program."""

    def __init__(self, command: list[str], recipe: ModelRecipe, vocabulary: tuple[int, int], room: Path) -> None:
        self.command, self.room, self.jobs = command, room, 0
        self.sizes = [0 if t is None else int(np.prod(t[1])) for t in tensor_layout(recipe, vocabulary)]

    def model_new(self, shape: Any, pointers: Any, scales: Any) -> int:
        parts = [bytes(shape._obj), np.int32(len(self.sizes)).tobytes()]
        for size, at in zip(self.sizes, pointers, strict=True):
            parts += [np.int32(size).tobytes(), ctypes.string_at(at, 4 * size) if size else b""]
        (self.room / "model").write_bytes(b"".join(parts))
        assert len(parts[0]) == ctypes.sizeof(ModelConfig)
        return 1

    def worker_new(self, model: Any) -> int:
        return 1

    def batch_rows(self) -> int:
        return 64

    def translate(self, worker: Any, given: Any) -> int:
        job: TranslationJob = given._obj
        self.jobs += 1
        asked, answered = self.room / f"job{self.jobs}", self.room / f"answers{self.jobs}"
        n, answers = job.sentences, job.sentences * job.n_best

        def numbers(at: int, count: int) -> bytes:
            return ctypes.string_at(at, 4 * count)

        def rows(at: int, lengths: int) -> bytes:
            each = numbers(lengths, n)
            return each + numbers(at, int(np.frombuffer(each, np.int32).sum()))

        asked.write_bytes(
            np.array([getattr(job, name) for name in NUMBERS], np.int32).tobytes()
            + rows(job.source, job.source_lengths)
            + numbers(job.limits, n)
            + numbers(job.normalizers, job.max_length + 2)
            + np.int32(job.prefix is not None).tobytes()
            + (b"" if job.prefix is None else rows(job.prefix, job.prefix_lengths))
        )
        words = [*self.command, str(self.room / "model"), str(asked), str(answered)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.returncode, done.stderr)
        found, counts = answered.read_bytes(), (answers * job.max_length, answers, answers, answers)
        ends = [4 * end for end in accumulate(counts)]
        places = (job.tokens, job.lengths, job.scores, job.log_probabilities)
        for to, start, end in zip(places, (0, *ends), ends, strict=False):
            ctypes.memmove(to, found[start:end], end - start)
        return 0

    def worker_free(self, worker: Any) -> None:
        pass

    def model_free(self, model: Any) -> None:
        pass
