"""The pool with small processes that speak the workers' protocol: starting, replacing and ending them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.errors import SearchError, describe_exit
from dragoman.serve.options import ServerOptions
from dragoman.serve.workers import handle, pool
from dragoman.serve.workers.handle import WorkerError
from dragoman.serve.workers.pool import WorkerPool
from dragoman.serve.workers.server import check_platform
from raising import raises

GUARD = 60.0  # seconds after which a test fails
PROCESS = """
import json, os, signal, socket, struct, sys
end = socket.socket(fileno=int(sys.argv[1]))
def send(**fields):
    head = json.dumps(fields).encode()
    end.sendall(struct.pack(">II", len(head), 0) + head)
def receive():
    lengths = end.recv(8, socket.MSG_WAITALL)
    return json.loads(end.recv(struct.unpack(">II", lengths)[0], socket.MSG_WAITALL)) if lengths else None
def ready():
    send(type="ready", models=[["m", "fake engine", True]], paths=["/v1/translate"])
while (frame := receive()) is not None:
    if frame["type"] == "start":
        %(start)s
    elif frame["type"] == "ping":
        %(ping)s
    elif frame["type"] == "reload":
        send(type="note", text="reloading")
"""
PONG = 'send(type="pong", alive=True)'


def fake_processes(monkeypatch: pytest.MonkeyPatch, start: str = "ready()", ping: str = PONG) -> None:
    code = PROCESS % {"start": start, "ping": ping}
    monkeypatch.setattr(handle, "worker_command", lambda: [sys.executable, "-I", "-S", "-c", code])
    monkeypatch.setattr(pool, "FIRST_DELAY", 0.0)


def with_pool(test: Callable[[WorkerPool, list[str]], Awaitable[None]], count: int = 2) -> None:
    async def run() -> None:
        notes: list[str] = []
        workers = WorkerPool(count, ServerOptions({"m": Path("m")}), note=notes.append)
        try:
            async with asyncio.timeout(GUARD):
                await test(workers, notes)
        finally:
            await workers.close()

    asyncio.run(run())


async def until(truth: Callable[[], bool]) -> None:
    while not truth():
        await asyncio.sleep(0.001)


def test_a_dead_worker_is_replaced_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processes(monkeypatch, 'send(type="note", text="replacement: " + str(frame["replacement"])); ready()')

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        await workers.start()
        assert [model.engine for model in workers.models] == ["fake engine"]
        assert workers.paths == {"/v1/translate"}
        first = {number: worker.process.pid for number, worker in workers.workers.items()}
        await until(lambda: workers.spare is not None)
        assert workers.spare is not None
        spare = workers.spare.process.pid
        os.kill(first[2], signal.SIGKILL)
        await until(lambda: any("killed by SIGKILL" in text for text in notes))
        await until(lambda: len(workers.ready_workers) == 2)
        assert [text for text in notes if "replacement" in text][2:] == ["worker 2: replacement: True"]
        assert workers.workers[1].process.pid == first[1]
        assert workers.workers[2].process.pid == spare  # which had been waiting for this
        assert workers.metrics.value("dragoman_worker_restarts_total", worker="2") == 1
        workers.reload()
        await until(lambda: {"worker 1: reloading", "worker 2: reloading"} <= set(notes))
        await until(lambda: workers.spare is not None)
        processes = [worker.process for worker in (*workers.workers.values(), workers.spare) if worker is not None]
        await workers.close()
        assert [process.returncode for process in processes] == [0, 0, -signal.SIGKILL]  # two ended by themselves

    with_pool(test)


def test_a_worker_that_cannot_start_ends_the_server_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processes(monkeypatch, 'send(type="failed", message="a damaged model", code="model_damaged")')

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        with raises(WorkerError, "model_damaged", "a damaged model"):
            await workers.start()

    with_pool(test)


def test_a_worker_that_dies_while_loading_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processes(monkeypatch, "os.kill(os.getpid(), signal.SIGKILL)")

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        with raises(WorkerError, "worker_failed", "killed by SIGKILL"):
            await workers.start()

    with_pool(test, 1)


def test_a_worker_that_does_not_answer_pings_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processes(monkeypatch, ping="pass")
    monkeypatch.setattr(handle, "PING_SECONDS", 0.001)

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        await workers.start()
        await until(lambda: any("did not answer" in text for text in notes))

    with_pool(test, 1)


def test_a_worker_whose_translation_thread_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_processes(monkeypatch, ping='send(type="pong", alive=False)')

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        await workers.start()
        await until(lambda: any("its translation thread ended" in text for text in notes))

    with_pool(test, 1)


def test_a_replacement_that_cannot_start_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    failed = 'send(type="failed", message="gone", code="not_a_model")'
    fake_processes(monkeypatch, f"{failed} if os.path.exists({str(broken)!r}) else ready()")

    async def test(workers: WorkerPool, notes: list[str]) -> None:
        await workers.start()
        broken.touch()
        os.kill(workers.workers[1].process.pid, signal.SIGKILL)
        await until(lambda: any("cannot be started: gone" in text for text in notes))
        broken.unlink()
        await until(lambda: len(workers.ready_workers) == 1)

    with_pool(test, 1)


def test_windows_is_rejected_with_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with raises(SearchError, "unsupported_platform", "--workers", "Windows"):
        check_platform()


@pytest.mark.parametrize(("code", "words"), [(-11, "SIGSEGV"), (3, "code 3"), (-200, "signal 200")])
def test_how_a_process_ended(code: int, words: str) -> None:
    assert words in describe_exit(code)
