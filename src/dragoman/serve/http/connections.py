"""Connections: a cap, timeouts for request heads and slow readers, and eviction when file descriptors run out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10.0  # to receive a request head, from its first byte or from the start of the connection
WRITE_SECONDS: Final = 20.0  # without progress, after which a client that does not read its reply is disconnected
PROBE_SECONDS: Final = 0.5  # between probes of a client that has closed its side
MAX_CONNECTIONS: Final = 4_096
RESERVED_DESCRIPTORS: Final = 64  # for everything that is not a connection
LOG_SECONDS: Final = 60.0  # between log lines about the same shortage
EVICTED, EVICT_SECONDS = 8, 1.0  # in a shortage, close this many idle connections at most this often
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
logger = logging.getLogger("dragoman.serve")


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files as far as allowed; return the number of connections that fit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + RESERVED_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        new = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # the system allows less
            resource.setrlimit(resource.RLIMIT_NOFILE, (new, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - RESERVED_DESCRIPTORS
    return max(8, min(MAX_CONNECTIONS, room))


class Connection(H11Protocol):
    """A connection with timeouts. At the cap, an idle connection of the client with the most is evicted."""

    max_connections = MAX_CONNECTIONS
    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS
    probe_seconds = PROBE_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.head_timer: asyncio.TimerHandle | None = None
        self.write_timer: asyncio.TimerHandle | None = None
        self.probe_timer: asyncio.TimerHandle | None = None
        self.half_closed = False

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; at the cap, evict an idle one, or reject this one."""
        super().connection_made(transport)
        others = self.connections - {self}
        if len(others) >= self.max_connections and not evict_idle(others, 1):
            self.transport.abort()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._cancel_timers()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Start the head timeout at the first byte of a request."""
        if self.idle and self.head_timer is None:
            self._wait_for_head()
        super().data_received(data)
        if not self.idle and self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def on_response_complete(self) -> None:
        """Limit the time for the rest of the request body or of the reply."""
        super().on_response_complete()
        if self.half_closed and self.idle:
            self.transport.close()
        if self.transport.is_closing():
            self._limit_flush()
        elif self.conn.their_state is h11.SEND_BODY:
            self._wait_for_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that closes its side after a whole request; close the connection otherwise."""
        if not self.idle and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self.half_closed = True
            self._probe()
            return True
        self._limit_flush()
        return False

    def _probe(self) -> None:
        """Send `100 Continue` until the reply: a client that has left looks half-closed until sending fails."""
        if self.idle or self.cycle.response_started or self.transport.is_closing():
            return
        if self.cycle.scope["http_version"] != "1.0":  # which has no interim replies
            self.transport.write(self.conn.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        self.probe_timer = self.loop.call_later(self.probe_seconds, self._probe)

    def pause_writing(self) -> None:
        """Start the write timeout: the client does not read."""
        super().pause_writing()
        if self.write_timer is None:
            self.write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the write timeout: the client reads again."""
        super().resume_writing()
        if self.write_timer is not None:
            self.write_timer.cancel()
            self.write_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort it if the client has not read its last reply."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def _limit_flush(self) -> None:
        """Abort a closing connection whose client does not read the rest of its reply."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.write_seconds, self.transport.abort)

    def _wait_for_head(self) -> None:
        self.head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self.head_timer = None
        if self.idle:
            self.transport.abort()

    def _cancel_timers(self) -> None:
        for timer in (self.head_timer, self.write_timer, self.probe_timer):
            if timer is not None:
                timer.cancel()


def evict_idle(connections: Any, count: int) -> int:
    """Close up to `count` idle connections, of the clients with the most first; return how many were closed."""
    counts = Counter(one.address for one in connections)
    idle = sorted(
        (one for one in connections if one.idle), key=lambda one: (one.cycle is not None, -counts[one.address])
    )
    for one in idle[:count]:
        one.transport.abort()
    return len(idle[:count])


class ShortageHandler:
    """Exception handler of the event loop; when descriptors run out, log once a minute and evict idle connections."""

    def __init__(self, connections: Any) -> None:
        self.connections, self.logged, self.evicted = connections, -LOG_SECONDS, 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle one error."""
        if "_start_serving" in str(context.get("message")):  # a retry after a shortage, when the server has shut down
            return
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in SHORTAGES:
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now - self.evicted >= EVICT_SECONDS:
            self.evicted = now
            evict_idle([one for one in self.connections if one.cycle is None], EVICTED)
        if now - self.logged >= LOG_SECONDS:
            self.logged = now
            logger.error("cannot accept connections: %s; raise the limit on open files (ulimit -n)", error.strerror)
