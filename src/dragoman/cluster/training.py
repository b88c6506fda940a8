"""Train on a Ray cluster: Ray Train places the ranks on its nodes, and starts them again when a node is lost.

Each worker of Ray Train runs one rank as a process of its own, as torchrun does, so ranks behave the same under both:
heartbeats, signals, exit codes. The worker of rank 0 holds the run's store.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

from dragoman.cluster.ray_data import import_ray, join_cluster
from dragoman.errors import DragomanError, MissingExtraError, describe_exit
from dragoman.parent_process import PARENT_VARIABLE
from dragoman.training.distributed.heartbeat import EXIT_CODE

POLL_SECONDS: Final = 0.2
# Files by which the driver and the ranks exchange:
STOP: Final = "stop"  # the signal to send to the ranks
EXIT: Final = "exit_code"  # of rank 0
OUTPUT: Final = "output-"  # what a rank prints
RESTARTS: Final = 3  # after a lost node


class RankLostError(RuntimeError):
    """A rank was killed, or ended because another one is lost; Ray Train starts all ranks again."""


@dataclass(frozen=True)
class RayTraining:
    """A `dragoman train` on a cluster: `processes` ranks (by default one for each GPU, or else for each node).

    `address` is as in `ClusterOptions`. `out` must be on a disk that all nodes share. After a node is lost, the run
    resumes on the others, up to `restarts` times.
    """

    arguments: Sequence[str]  # of `dragoman train`
    out: Path
    address: str = ""
    processes: int | None = None
    device: str | None = None
    restarts: int = RESTARTS

    def run(self) -> int:
        """Train; return the exit code of the run."""
        ray = connect(self.address, self.processes)
        try:
            return self._fit(ray)
        finally:
            ray.shutdown()

    def _fit(self, ray: Any) -> int:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
        from ray.train.v2.api.exceptions import TrainingFailedError, WorkerGroupError

        found = ray.cluster_resources()
        cpus, gpus = int(found.get("CPU", 0)), int(found.get("GPU", 0))
        on_gpu = self.device == "cuda" or (self.device in (None, "auto") and gpus > 0)
        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        world = self.processes or (gpus if on_gpu else nodes)
        if world > (gpus if on_gpu else cpus) or world < 1:
            raise DragomanError(
                f"{world} ranks do not fit in the cluster, which has {cpus} CPUs and {gpus} GPUs; give fewer "
                "--processes",
                code="cluster_too_small",
            )
        out = self.out.absolute()
        with scratch_directory(out) as scratch:
            settings = {"arguments": list(self.arguments), "directory": str(Path.cwd()), "scratch": str(scratch)}
            trainer = DataParallelTrainer(
                run_rank,
                train_loop_config=settings,
                scaling_config=ScalingConfig(num_workers=world, use_gpu=on_gpu, placement_strategy="SPREAD"),
                run_config=RunConfig(
                    name=out.name,
                    storage_path=str(scratch),
                    failure_config=FailureConfig(max_failures=self.restarts),
                ),
            )
            try:
                fit_in_thread(trainer.fit, scratch)
            except TrainingFailedError as error:
                failures = error.worker_failures if isinstance(error, WorkerGroupError) else {}
                sys.stderr.write(f"dragoman: {describe_failure(str(error), failures)}\n")
                return EXIT_CODE
            return int((scratch / EXIT).read_text())


def connect(address: str, processes: int | None) -> Any:
    """Ray with Ray Train, connected to a cluster."""
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    ray = import_ray()
    try:
        import_module("ray.train")
    except ImportError:
        raise MissingExtraError("ray", "ray", "training on a cluster") from None
    join_cluster(ray, address, processes)
    return ray


@contextmanager
def scratch_directory(out: Path) -> Iterator[Path]:
    """A directory next to the model for what Ray, the workers and the driver exchange; removed at the end."""
    path = out.parent / f".{out.name}.ray"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fit_in_thread(fit: Callable[[], object], scratch: Path) -> None:
    """Run `fit` in a thread and show what the ranks print; Ctrl-C and SIGTERM ask them to save.

    A second Ctrl-C ends at once.
    """
    stop, shown = scratch / STOP, dict[Path, int]()
    errors = list[BaseException]()

    def work() -> None:
        try:
            fit()
        except BaseException as error:
            errors.append(error)

    def request_stop(number: int, frame: FrameType | None) -> None:
        if stop.exists() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.write_text(str(number))

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request_stop) for number in numbers} if in_main_thread() else {}
    thread = threading.Thread(target=work, daemon=True, name="dragoman-ray-train")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            show_output(scratch, shown)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if errors:
        raise errors[0]


def show_output(scratch: Path, shown: dict[Path, int]) -> None:
    """Print what ranks have printed since the last call; `shown` has the bytes of each that are done."""
    for path in sorted(scratch.glob(f"{OUTPUT}*")):
        with path.open("rb") as file:
            file.seek(shown.get(path, 0))
            new = file.read()
        shown[path] = shown.get(path, 0) + len(new)
        sys.stderr.write(new.decode(errors="replace"))
    sys.stderr.flush()


def in_main_thread() -> bool:
    """Whether this is the main thread, which alone may handle signals."""
    return threading.current_thread() is threading.main_thread()


def run_rank(settings: Mapping[str, Any]) -> None:
    """Run one rank on a worker of Ray Train; raise RankLostError if it was lost, so that Ray starts all again."""
    import ray
    import ray.train
    import torch.distributed as dist
    from ray.train.collective import broadcast_from_rank_zero

    context = ray.train.get_context()
    rank, store, meeting = context.get_world_rank(), None, None
    if rank == 0:
        host = ray.util.get_node_ip_address()
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        meeting = (host, store.port)
    host, port = broadcast_from_rank_zero(meeting)
    environment = rank_environment(
        rank, context.get_world_size(), context.get_local_rank(), context.get_node_rank(), host, port
    )
    directory, scratch = Path(settings["directory"]), Path(settings["scratch"])
    for needed in (directory, scratch):
        if not needed.is_dir():
            raise RuntimeError(f"{needed} does not exist on {socket.gethostname()}: every node needs the same disk")
    command = [sys.executable, "-m", "dragoman", *settings["arguments"]]
    with (scratch / f"{OUTPUT}{rank}").open("ab") as output:
        own = {**os.environ, **environment}
        with signals_unblocked():
            process = subprocess.Popen(command, env=own, cwd=directory, stdout=output, stderr=output)
        code = follow(process, scratch / STOP)
    if code < 0 or code == EXIT_CODE:
        raise RankLostError(f"rank {rank} on {socket.gethostname()} ended: {describe_exit(code)}")
    if store is not None:  # rank 0 leaves last, so nobody needs the store any more
        (scratch / EXIT).write_text(str(code))


@contextmanager
def signals_unblocked() -> Iterator[None]:
    """Let a new process receive signals: Ray blocks some in its workers, and children inherit that."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def rank_environment(rank: int, world: int, local: int, node: int, host: str, port: int) -> dict[str, str]:
    """The variables that torchrun sets, and the parent to end with."""
    if "," not in (os.environ.get("CUDA_VISIBLE_DEVICES") or ","):
        local = 0  # Ray shows each worker its own GPU alone
    return {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world),
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        PARENT_VARIABLE: str(os.getpid()),
    }


def follow(process: subprocess.Popen[bytes], stop: Path) -> int:
    """Wait for a rank, pass a request to stop on to it, and return its exit code."""
    asked = False
    while True:
        try:
            return process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if not asked and stop.exists() and (number := stop.read_text()):
                asked = True
                process.send_signal(int(number))


def describe_failure(message: str, failures: Mapping[int, BaseException]) -> str:
    """Why Ray Train gave up, with the ranks that failed; their own messages are above."""
    reasons = [f"rank {rank}: {last_line(str(failure))}" for rank, failure in sorted(failures.items())]
    reason = "; ".join(reasons[:4]) or last_line(message)
    return f"the run stops ({reason}). The last checkpoint is intact; run the same command to resume."


def last_line(text: str) -> str:
    """The last line of a message; of a traceback, the error."""
    return text.strip().rpartition("\n")[2]
