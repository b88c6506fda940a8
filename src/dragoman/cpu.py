"""The processor that this process runs on."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def available_cores() -> int:
    """How many cores this process may use; a container with a CPU limit of 1.5 has two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, cpu_limits(CGROUPS, OWN_CGROUPS))]))


def cpu_limits(cgroups: Path, own: Path) -> Iterator[float]:
    """The CPU limits, in cores, of the control groups of this process (version 2 or 1) and of those around them."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = cgroups / controllers if controllers else cgroups
            path = PurePosixPath(place.lstrip("/"))
            for group in (path, *path.parents):
                yield from _limit(root / group)


def _limit(group: Path) -> Iterator[float]:
    """The limit of one control group, if it has one."""
    with suppress(OSError, ValueError):
        quota, period = map(float, (group / "cpu.max").read_text().split())  # "max 100000" has no limit
        yield quota / period
    with suppress(OSError, ValueError):
        quota, period = (float((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        if quota > 0:
            yield quota / period
