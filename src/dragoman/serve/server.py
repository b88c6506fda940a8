"""The process: a port, uvicorn on it, and an orderly end."""

from __future__ import annotations

import errno
import gc
import logging
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from dragoman.errors import DragomanError
from dragoman.serve.service import Service

LAST_ANSWERS: Final = 2  # seconds beyond the deadline for answers that are being written when the server leaves
BACKLOG: Final = 2048


class PortError(DragomanError, OSError):
    """An address that cannot be listened on."""


def bind(host: str, port: int) -> socket.socket:
    """The port, taken but not yet open: who connects before the models are there is turned away by the system."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise PortError(f"there is no address {host!r} ({error}); use 127.0.0.1, or 0.0.0.0 for all") from None
    family, kind, protocol, _, address = found[0]
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.EADDRNOTAVAIL:
            todo = "--host must be an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
        else:
            todo = "choose another with --port, or 0 for any that is free"
        raise PortError(f"port {port} of {host} cannot be had ({reason}); {todo}") from None
    return taken


def address(listening: socket.socket) -> str:
    """Where a browser finds the server."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """uvicorn, which ends in good order when it is asked to, and says when it can be asked."""

    def __init__(self, config: uvicorn.Config, service: Service, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self.service, self.listening = service, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self.listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what was accepted; a second signal does not wait for it."""
        self.service.leaving = True
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(app: ASGIApp, service: Service, port: socket.socket, listening: Callable[[], None]) -> None:
    """Answer requests until a signal comes; then finish what was accepted, and return."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(service.limits.timeout) + LAST_ANSWERS,
    )
    service.start()
    gc.collect()
    gc.freeze()  # what is loaded stays, and a collection that looks through all of it holds everybody up for 0.2 s
    try:
        Server(config, service, listening).run(sockets=[port])
    finally:
        service.close()
