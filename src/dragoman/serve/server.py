"""The server process: bind the port, run uvicorn, shut down gracefully."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from types import FrameType
from typing import Final, Protocol

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from dragoman.errors import DragomanError
from dragoman.serve.http.access import ANY_ADDRESS, TOKEN_VARIABLE
from dragoman.serve.http.connections import Connection, ShortageHandler, raise_descriptor_limit
from dragoman.serve.limits import Limits
from dragoman.serve.service import Service

SHUTDOWN_SECONDS: Final = 2  # beyond the deadline, for responses that are being written at shutdown
SWITCH_SECONDS: Final = 0.001  # switch interval: a busy thread yields to the event loop this soon
BACKLOG: Final = 512


class PortError(DragomanError, OSError):
    """An address that the server cannot listen on."""

    default_code = "port_unavailable"


def bind(host: str, port: int) -> socket.socket:
    """Bind the port without listening yet: connections are refused until the models are loaded."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        message = f"unknown host {host!r} ({error}); use 127.0.0.1, or 0.0.0.0 for all addresses"
        raise PortError(message, code="unknown_host") from None
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.EADDRNOTAVAIL:
            advice = "--host must be an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
        else:
            advice = "choose another --port, or 0 for any free one"
        raise PortError(f"cannot listen on {host}:{port}: {reason}; {advice}") from None
    return bound


def server_url(bound: socket.socket) -> str:
    """The URL of the server."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def own_names(bound: socket.socket) -> list[str]:
    """The names by which other machines reach a server that listens on all addresses: the machine's host name."""
    return [socket.gethostname()] if bound.getsockname()[0] in ANY_ADDRESS else []


def exposure_notes(bound: socket.socket, has_token: bool, root_path: str = "") -> list[str]:
    """What to know about a server that other machines can reach: its address, and that it has no token."""
    address, port = bound.getsockname()[:2]
    if ip_address(address.partition("%")[0]).is_loopback:
        return []
    notes = [
        f"other machines reach it at http://{name}:{port}{root_path}, or at an IP address of this machine"
        for name in own_names(bound)
    ]
    if not has_token:
        advice = f"set one with --api-token, or in the environment variable {TOKEN_VARIABLE}"
        notes.append(f"there is no API token, so anyone who can reach this machine can use the server; {advice}")
    return notes


@contextmanager
def postponed_hangup() -> Iterator[None]:
    """Postpone SIGHUP until the server handles it: by default it ends the process, for example while models load."""
    if not hasattr(signal, "SIGHUP"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Stoppable(Protocol):
    """What is told that the server is shutting down."""

    shutting_down: bool


class Server(uvicorn.Server):
    """uvicorn with a callback when it listens, and a graceful shutdown."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Stoppable,
        on_listening: Callable[[], None],
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self.service, self.on_listening, self.on_hangup = service, on_listening, on_hangup
        self.exit_code = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then call `on_listening`."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(ShortageHandler(self.server_state.connections))
        self.handle_hangup()
        await run_in_threadpool(int)  # import what streaming needs now: later it would block the event loop
        await super().startup(sockets)
        if self.started:
            self.on_listening()

    def handle_hangup(self) -> None:
        """Call `on_hangup` on SIGHUP, at once if one was postponed."""
        if self.on_hangup is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.on_hangup)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish accepted requests; a second signal exits at once."""
        self.service.shutting_down = True
        self.force_exit = self.should_exit
        self.should_exit = True
        self.exit_code = 128 + sig


def tune_interpreter() -> None:
    """Keep a loaded process responsive: short turns for threads, and no collection of what stays."""
    gc.collect()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # a collection that walks all loaded objects would block every request for 0.2 s


def run_server(
    app: ASGIApp,
    service: Service,
    port: socket.socket,
    on_listening: Callable[[], None],
    on_hangup: Callable[[], None] | None = None,
) -> None:
    """Serve until a signal arrives; finish accepted requests, and return. SIGHUP calls `on_hangup`."""
    service.start()
    tune_interpreter()
    server = Server(uvicorn_config(app, service.limits), service, on_listening, on_hangup)
    try:
        server.run(sockets=[port])
    finally:
        service.close()
        if server.force_exit:
            leave_now(server.exit_code)


def leave_now(code: int) -> None:
    """End the process while a thread still translates: if Python ended first, the thread could abort it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def uvicorn_config(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """The configuration of uvicorn for an application with these limits."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Config(
        app,
        http=type("LimitedConnection", (Connection,), {"max_connections": raise_descriptor_limit()}),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(limits.timeout) + SHUTDOWN_SECONDS,
    )
