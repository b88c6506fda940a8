"""A child process of `EngineProcess` without PyTorch: it translates by copying, or not at all.

Beam 7 never returns; beam 5 returns when it is told to stop, and only then.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dragoman.engines.cuda import worker
from dragoman.engines.specs import CUDA
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import Search, StopFlag

COMMAND = [sys.executable, str(Path(__file__))]
FOREVER, UNTIL_STOPPED = Search(beam=7), Search(beam=5)


class CopyEngine:
    """What the worker uses of a `CudaEngine`."""

    name, batch, precision, threads = "cuda", CUDA.preferred_batch, "float32", None
    capabilities, weights = replace(CUDA, max_beam=9), SimpleNamespace(vocabulary=1000)

    def search_arrays(
        self, ids: Any, counts: Any, search: Search, prefixes: Any, constraints: Any, stop: StopFlag, record: Any
    ) -> HypothesisTable:
        if search.beam == FOREVER.beam:
            threading.Event().wait()
        if search.beam == UNTIL_STOPPED.beam:
            print("searching", file=sys.stderr, flush=True)
            while True:
                stop.check()
        n = len(counts)
        return HypothesisTable(np.ones(n, np.int64), counts, ids, np.zeros(n), np.zeros(n), np.zeros(n, np.bool_))


def load(options: Any) -> Any:
    if not options.directory.exists():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return CopyEngine()


if __name__ == "__main__":
    worker.load_engine = load
    worker.main(int(sys.argv[1]))
