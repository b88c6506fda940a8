"""`--processes N`: so many processes on this machine, one run; what torchrun does, with fewer words and no wait."""

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
from dragoman.training.distributed.heartbeat import LOST

GRACE: Final = 3.0  # seconds for the others to end by themselves after one of them ended badly


def launch(count: int, arguments: Sequence[str]) -> int:
    """Run `dragoman` with these arguments in so many processes; returns the exit code of the run.

    The store that the processes meet in is held here, so that no process is more needed than another, and so that all
    of them notice when this one is gone. They have sessions of their own: Ctrl-C reaches them through here, once.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(count),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 joins the store above, and makes none of its own
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, available_cores() // count))),
    }
    command = [sys.executable, "-m", "dragoman", *arguments]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            own = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            children.append(subprocess.Popen(command, env=own, start_new_session=True))
        pass_signals_on(children)
        return wait(children)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()


def pass_signals_on(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Give the first signal to all processes; a second Ctrl-C ends them at once, with the last checkpoint whole."""
    came: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        at_once = bool(came) and number == signal.SIGINT
        came.append(number)
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL if at_once else number)
        if at_once:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, pass_on)


def wait(children: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; when one ends badly, the others get a moment to end by themselves."""
    while True:
        codes = [child.poll() for child in children]
        bad = [(rank, code) for rank, code in enumerate(codes) if code]
        if bad:
            return ended_badly(children, *bad[0])
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def ended_badly(children: Sequence[subprocess.Popen[bytes]], rank: int, code: int) -> int:
    """Say who was killed, give the others time, and choose the run's exit code."""
    if code < 0:
        name = signal.Signals(-code).name
        sys.stderr.write(
            f"dragoman: rank {rank} (process {children[rank].pid}) was killed by {name}, so the run ends. The last "
            "checkpoint is safe; run the same command to go on.\n"
        )
        for child in children:
            child.kill()
        return LOST
    patience = 60.0 if code > 128 else GRACE  # asked to stop: the first process may still be saving
    until = time.monotonic() + patience
    while time.monotonic() < until and any(child.poll() is None for child in children):
        time.sleep(0.05)
    # Who only follows another one's end may be seen first; the other one's code says why.
    reasons = [ended for child in children if (ended := child.poll()) is not None and ended > 0 and ended != LOST]
    return reasons[0] if code == LOST and reasons else code
