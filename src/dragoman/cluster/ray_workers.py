"""Prepare corpora on a Ray cluster: the worker processes of `prepare` as Ray tasks on all machines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dragoman.cluster.ray_data import MAX_RETRIES, ClusterOptions, RayCluster, cluster, worker_error
from dragoman.data.prepare.workers import Workers
from dragoman.errors import DataError

T = TypeVar("T")


@contextmanager
def ray_workers(address: str, processes: int | None = None) -> Iterator[RayWorkers]:
    """Connect to a cluster; its workers for `prepare`, as many as it has CPUs unless `processes` says otherwise."""
    with cluster(ClusterOptions(address, processes, device="cpu")) as found:
        yield RayWorkers(found)


class RayWorkers(Workers):
    """Workers on a cluster: results in order, a bounded number in flight; a task whose worker dies is run again."""

    def __init__(self, cluster: RayCluster) -> None:
        super().__init__(cluster.workers)
        self.ray = cluster.ray

    def map(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """work(*a) for each a of `arguments`, in order."""
        remote = self.ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(work)
        pending: deque[Any] = deque()
        try:
            for each in arguments:
                pending.append(remote.remote(*each))
                if len(pending) > 2 * self.processes:
                    yield self._get(pending.popleft())
            while pending:
                yield self._get(pending.popleft())
        finally:
            for reference in pending:
                self.ray.cancel(reference)

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """work(*arguments), on the cluster."""
        found: T = self._get(self.ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(work).remote(*arguments))
        return found

    def _get(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.WorkerCrashedError:
            raise DataError(
                "a worker died again and again at the same pairs; memory may be full: give fewer --workers",
                code="worker_died",
            ) from None
        except self.ray.exceptions.RayError as error:
            raise worker_error(self.ray, error) from None
