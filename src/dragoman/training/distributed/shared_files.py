"""Files that every rank reads: check that all nodes see the same ones before the first step.

Only rank 0 writes. The others need the prepared data and the model to fine-tune, on a shared disk or as copies at the
same paths.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dragoman.data.prepared import Prepared
from dragoman.errors import DragomanError
from dragoman.modeldir.weights import weights_sha256
from dragoman.training.distributed.heartbeat import seconds_from
from dragoman.training.distributed.ranks import CollectiveError, Ranks

# A network file system may show a new directory to other hosts only after a while; DRAGOMAN_SHARED_TIMEOUT changes it.
VISIBLE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.5


def open_shared(directory: Path, ranks: Ranks) -> Prepared:
    """Open the prepared data of the run on every rank; raise on all if one does not see those of rank 0."""
    check_same(directory, lambda: data_digest(directory), ranks)
    return Prepared.open(directory)


def check_starting_weights(model: Path, ranks: Ranks) -> None:
    """Raise on all ranks if one does not see the model that rank 0 starts from."""
    if ranks.world > 1:  # hashing takes a while
        check_same(model, lambda: weights_sha256(model), ranks)


def data_digest(directory: Path) -> str:
    """A hash of the sizes and hashes of all files of prepared data."""
    files = Prepared.open(directory).manifest["files"]
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def check_same(path: Path, digest: Callable[[], str], ranks: Ranks) -> None:
    """Raise CollectiveError on all ranks unless `digest` finds the same at `path` on each of them."""
    expected = ranks.broadcast(digest)
    problem = "" if ranks.first else find_problem(digest, expected)
    problems = ranks.gather(f"{path.absolute()}: {problem}" if problem else "")
    wrong = [rank for rank, problem in enumerate(problems) if problem]
    if wrong:
        raise CollectiveError(
            f"{ranks.describe(*wrong)} cannot use {problems[wrong[0]]}; every node must see the same files there as "
            "rank 0: put them on a disk that all nodes share and give absolute paths, or copy them",
            code="not_shared",
        )


def find_problem(digest: Callable[[], str], expected: str) -> str:
    """Why this rank does not see what rank 0 sees, after waiting for the file system; empty if it does."""
    until = time.monotonic() + seconds_from("DRAGOMAN_SHARED_TIMEOUT", VISIBLE_SECONDS)
    while problem := describe_difference(digest, expected):
        if time.monotonic() > until:
            break
        time.sleep(POLL_SECONDS)
    return problem


def describe_difference(digest: Callable[[], str], expected: str) -> str:
    """Why this rank does not see what rank 0 sees now; empty if it does."""
    try:
        return "" if digest() == expected else "it differs from that of rank 0"
    except (OSError, DragomanError) as error:
        return str(error).partition(";")[0]
