"""End a process with its parent: a launcher that is killed leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

PARENT_VARIABLE: Final = "DRAGOMAN_PARENT"  # the process that starts a rank writes its number there
PR_SET_PDEATHSIG: Final = 1  # of Linux's prctl
POLL_SECONDS: Final = 0.5


def follow_parent() -> None:
    """End this process when the parent named in the environment ends, in whatever way; do nothing without one."""
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None:
        return
    if not _killed_with_parent():
        threading.Thread(target=_watch, args=(int(parent),), daemon=True, name="dragoman-parent").start()
    if os.getppid() != int(parent):  # it was gone before the system knew
        os._exit(1)


def _killed_with_parent() -> bool:
    """Let the system kill this process, if it supports that; this needs no thread, so it works during imports."""
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
