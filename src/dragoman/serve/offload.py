"""Run large CPU-bound steps in one thread, so that the event loop stays responsive.

One thread, not several: every thread that runs Python competes with the event loop for the interpreter lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
EXECUTOR: Final = ThreadPoolExecutor(1, "large-requests")


async def offload(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a function in the thread for large requests; calls wait for each other."""
    call: Callable[[], Any] = partial(function, *arguments, **options)
    found: T = await asyncio.get_running_loop().run_in_executor(EXECUTOR, call)
    return found
