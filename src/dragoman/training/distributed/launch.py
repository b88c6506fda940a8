"""`--processes N`: start the ranks of a run on this machine, like torchrun, but with less output and no delay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

import torch.distributed as dist

from dragoman.cpu import available_cores
from dragoman.parent_process import PARENT_VARIABLE
from dragoman.training.distributed.heartbeat import EXIT_CODE

GRACE_SECONDS: Final = 3.0  # seconds for the others to end by themselves after one has failed


def launch(count: int, arguments: Sequence[str]) -> int:
    """Run `dragoman` with these arguments in `count` processes; return the exit code of the run.

    This process holds the store, so no rank is special, and all ranks end with this process. Each rank has a session of
    its own, so Ctrl-C reaches it once, through here.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(count),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 joins the store above and starts none
        PARENT_VARIABLE: str(os.getpid()),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, available_cores() // count))),
    }
    command = [sys.executable, "-m", "dragoman", *arguments]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            own = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            children.append(subprocess.Popen(command, env=own, start_new_session=True))
        forward_signals(children)
        return wait(children)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()


def forward_signals(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Forward the first signal to all ranks; a second Ctrl-C kills them, with the last checkpoint intact."""
    received: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        kill = bool(received) and number == signal.SIGINT
        received.append(number)
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL if kill else number)
        if kill:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
            signal.signal(number, forward)


def wait(children: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks; when one fails, give the others a moment to end by themselves."""
    while True:
        codes = [child.poll() for child in children]
        failed = [(rank, code) for rank, code in enumerate(codes) if code]
        if failed:
            return exit_code_after(children, *failed[0])
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def exit_code_after(children: Sequence[subprocess.Popen[bytes]], rank: int, code: int) -> int:
    """Name a rank that was killed, give the others time to end, and choose the run's exit code."""
    if code < 0:
        name = signal.Signals(-code).name
        sys.stderr.write(
            f"dragoman: rank {rank} (process {children[rank].pid}) was killed by {name}; the run stops. The last "
            "checkpoint is intact; run the same command to resume.\n"
        )
        for child in children:
            child.kill()
        return EXIT_CODE
    # After a request to stop, rank 0 may still be saving.
    until = time.monotonic() + (60.0 if code > 128 else GRACE_SECONDS)
    while time.monotonic() < until and any(child.poll() is None for child in children):
        time.sleep(0.05)
    # A rank that exits because another failed may be noticed first; the other's exit code has the reason.
    reasons = [ended for child in children if (ended := child.poll()) is not None and ended > 0 and ended != EXIT_CODE]
    return reasons[0] if code == EXIT_CODE and reasons else code
