"""Run jobs with Ray Data: a task reads each file in blocks, and a pool of actors, an engine each, works on them.

Ray Data streams the blocks from the readers to the actors with bounded memory, restarts actors that die, and gives
their blocks to others. Rows are pickled: blocks are bytes already, and results are a few numbers.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dragoman.cluster.executor import Block, Found, Item, Outcome
from dragoman.cpu import available_cores
from dragoman.errors import DataError, DragomanError, MissingExtraError

MAX_RETRIES: Final = 3  # of a block whose worker dies
MAX_READERS: Final = 16
LOCAL_STORE_BYTES: Final = 1 << 28  # Ray's shared memory on this machine, and more for each worker
WORKER_STORE_BYTES: Final = 1 << 26


@dataclass(frozen=True)
class ClusterOptions:
    """How to connect, and what each worker gets.

    `address` is HOST:PORT, "local" (this machine), "auto" (a cluster that runs on this machine), or empty for
    $RAY_ADDRESS, or else this machine. `workers` is the number of engines, by default as many as there are CPUs (or
    GPUs) for.
    """

    address: str = ""
    workers: int | None = None
    threads: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        """Reject numbers that are not possible."""
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None and (type(value) is not int or value < 1):
                raise DataError(f"{name} must be a whole number, 1 or more; got {value!r}", code="out_of_range")


def import_ray() -> Any:
    """Ray with Ray Data, quiet: its logs are in /tmp/ray."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("ray", "ray", "running on a cluster") from None
    return ray


@contextmanager
def cluster(options: ClusterOptions) -> Iterator[RayCluster]:
    """Connect to a cluster, or start one on this machine, which ends with the block."""
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        connect(ray, options)
    try:
        yield RayCluster(ray, options)
    finally:
        if ours:
            ray.shutdown()


def connect(ray: Any, options: ClusterOptions) -> None:
    """Connect to the address of the options."""
    cores = max(available_cores(), (options.workers or 1) * options.threads)
    join_cluster(ray, options.address, cores, object_store_memory=LOCAL_STORE_BYTES + WORKER_STORE_BYTES * cores)


def join_cluster(ray: Any, address: str, cores: int | None, **local: Any) -> None:
    """Connect to an address (see `ClusterOptions`); `cores` and `local` are for a cluster on this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    # Not Ray's own default, which joins any cluster of this machine, also one that another command started for itself.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **local, **quiet)
        return
    try:
        ray.init(address=address, **quiet)
    except ConnectionError as error:
        raise DragomanError(
            f"cannot connect to a Ray cluster at {address}: {error}; start one with `ray start --head`",
            code="cluster_unreachable",
        ) from None


class RayCluster:
    """An `Executor` on the cluster that this process is connected to."""

    def __init__(self, ray: Any, options: ClusterOptions) -> None:
        self.ray, self.options = ray, options
        found = ray.cluster_resources()
        cpus, gpus = int(found.get("CPU", 0)), int(found.get("GPU", 0))
        on_gpu = options.device.startswith("cuda") or (options.device == "auto" and gpus > 0)
        self.gpus_per_worker = 1 if on_gpu else 0
        self.cpus_per_worker = min(options.threads, cpus) if on_gpu else options.threads
        room = gpus if on_gpu else cpus // max(1, options.threads)
        self.workers = options.workers or room
        if not room or self.workers > room:
            raise DragomanError(
                f"{options.workers or 1} workers with {options.threads} CPUs and {self.gpus_per_worker} GPUs each do "
                f"not fit in the cluster, which has {cpus} CPUs and {gpus} GPUs; give fewer --workers or --threads",
                code="cluster_too_small",
            )

    @property
    def device(self) -> str:
        """The device of each engine."""
        return "cuda" if self.gpus_per_worker else "cpu"

    def map(
        self,
        items: Sequence[Item],
        read: Callable[[Item], Iterator[Block]],
        load: Callable[[], Callable[[Block], Found]],
    ) -> Iterator[Outcome[Found]]:
        """Work on the blocks of all items with a pool of actors."""
        if not items:
            return
        data = self.ray.data
        with quiet_context(data):
            rows = [{"row": pickle.dumps(item)} for item in items]
            blocks = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
                partial(read_batch, read=read),
                batch_size=1,
                num_cpus=0,  # readers wait for workers most of the time
                compute=data.TaskPoolStrategy(size=min(MAX_READERS, len(rows), max(2, self.workers))),
            )
            found = blocks.map_batches(
                BlockWorker,
                batch_size=1,
                fn_constructor_args=(load, self.ray.remote(num_cpus=0)(Attempts).remote()),
                num_cpus=self.cpus_per_worker,
                num_gpus=self.gpus_per_worker or None,
                compute=data.ActorPoolStrategy(size=self.workers),
            )
            try:
                for row in found.iter_rows():
                    outcome = pickle.loads(row["row"])
                    if isinstance(outcome, WorkerFailure):
                        raise DragomanError(outcome.message, code=outcome.code)
                    yield outcome
            except self.ray.exceptions.RayError as error:
                raise worker_error(self.ray, error) from None

    def submit(self, work: Callable[..., Found], *arguments: Any) -> Callable[[], Found]:
        """Start a call on any machine of the cluster."""
        reference = self.ray.remote(num_cpus=0, max_retries=MAX_RETRIES)(work).remote(*arguments)

        def wait() -> Found:
            try:
                found: Found = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                raise worker_error(self.ray, error) from None
            return found

        return wait


class Attempts:
    """An actor that counts how often a block was started: Ray Data would restart workers forever if one kills them."""

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}

    def add(self, block: bytes) -> int:
        """Count a start."""
        self.counts[block] = self.counts.get(block, 0) + 1
        return self.counts[block]


def read_batch(batch: dict[str, Any], read: Callable[[Any], Iterator[Any]]) -> Iterator[dict[str, list[bytes]]]:
    """The blocks of the items of a batch, one at a time."""
    for row in batch["row"]:
        for block in read(pickle.loads(row)):
            yield {"row": [pickle.dumps(block)]}


@dataclass(frozen=True)
class WorkerFailure:
    """An error that ends the job; returned, because Ray Data would wrap it if it were raised."""

    message: str
    code: str


class BlockWorker:
    """An actor: loads its engine once, and works on blocks."""

    def __init__(self, load: Callable[[], Callable[[Any], Any]], attempts: Any) -> None:
        self.ray, self.attempts = import_ray(), attempts
        self.name = f"{self.ray.util.get_node_ip_address()}/{os.getpid()}"
        self.failure: WorkerFailure | None = None
        try:
            self.work = load()
        except DragomanError as error:
            self.failure = WorkerFailure(f"{self.name}: {error}", error.code)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        """Work on the blocks of a batch."""
        return {"row": [pickle.dumps(self.failure or self._work(row)) for row in batch["row"]]}

    def _work(self, row: bytes) -> Outcome[Any] | WorkerFailure:
        attempt = self.ray.get(self.attempts.add.remote(hashlib.sha256(row).digest()))
        if attempt > MAX_RETRIES + 1:
            return WorkerFailure(
                f"{attempt - 1} workers died at the same block, so the job was stopped; memory may be full: give fewer "
                "--workers, or smaller blocks with --block",
                "worker_died",
            )
        started = time.perf_counter()
        value = self.work(pickle.loads(row))
        return Outcome(value, self.name, time.perf_counter() - started)


@contextmanager
def quiet_context(data: Any) -> Iterator[None]:
    """Ray Data's settings for a job: a row is a block of its own, and nothing is printed."""
    context = data.DataContext.get_current()
    before = context.target_max_block_size, context.enable_progress_bars
    levels = {name: logging.getLogger(name).level for name in ("ray.data", "ray")}
    context.target_max_block_size, context.enable_progress_bars = 1, False
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.target_max_block_size, context.enable_progress_bars = before
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def worker_error(ray: Any, error: Exception) -> Exception:
    """The error to raise for one of Ray's: our own if a worker raised it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ray.exceptions.RayTaskError):  # also an instance of its cause, with a traceback as text
            cause = cause.cause
        elif isinstance(cause, DragomanError):
            return DragomanError(str(cause), code=cause.code)
        else:
            cause = cause.__cause__
    return error
