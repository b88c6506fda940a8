"""The child process of `EngineProcess`: load a model, and answer searches until the parent is gone.

It ends when the socket is closed, that is, with its parent. Signals are for the parent: a terminal sends them to both.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import traceback
import warnings
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from dragoman.arrays import split_rows
from dragoman.engines.cuda.messages import (
    Answer,
    Cancel,
    EngineOptions,
    Failure,
    PackedTable,
    Ready,
    Request,
    receive,
    send,
)
from dragoman.errors import DragomanError
from dragoman.search.types import StopFlag

if TYPE_CHECKING:
    from dragoman.engines.cuda.engine import CudaEngine

IGNORED_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Worker:
    """The child's end of the socket pair.

    Messages are read and written by threads of their own, so that the engine finds its next request waiting, and does
    not wait for the parent to take a result.
    """

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.running: dict[int, StopFlag] = {}  # the requests that are not answered yet

    def run(self) -> None:
        """Load the engine, then answer requests."""
        options: EngineOptions | None = receive(self.end)
        if options is None:
            os._exit(0)
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()
        try:
            engine = load_engine(options)
        except Exception as error:
            self.answers.put(Answer(0, describe_failure(error)))
        else:
            gc.freeze()  # what was imported is never garbage
            self.answers.put(Ready(engine.capabilities.max_beam, engine.weights.vocabulary))
            while True:
                self._answer(engine, self.requests.get())
        threading.Event().wait()  # the parent has the error, and closes the socket

    def _answer(self, engine: CudaEngine, request: Request) -> None:
        number, sources, search, prefixes, record = request
        forced = None if prefixes is None else split_rows(*prefixes)
        stop = self.running[number]
        found: PackedTable | Failure
        try:
            stop.check()
            found = PackedTable.of(engine.search_arrays(*sources, search, forced, None, stop, record))
        except Exception as error:
            found = describe_failure(error)
        del self.running[number]
        self.answers.put(Answer(number, found))

    def _read(self) -> None:
        """Queue requests; end the process with its parent, whatever it does then."""
        while (message := receive(self.end)) is not None:
            match message:
                case Request():
                    self.running[message.number] = StopFlag()
                    self.requests.put(message)
                case Cancel():
                    stop = self.running.get(message.number)
                    if stop is not None:
                        stop.set()
        os._exit(0)

    def _write(self) -> None:
        while True:
            try:
                send(self.end, self.answers.get())
            except OSError:
                os._exit(0)


def load_engine(options: EngineOptions) -> CudaEngine:
    """The engine that `load_cuda` loads in the parent."""
    import torch

    from dragoman.engines.cuda.engine import CudaEngine
    from dragoman.models.loading import load_model
    from dragoman.text.special_tokens import PAD

    model: Any = load_model(options.directory, PAD, options.device, options.adapter)[0]
    dtype = torch.float32 if options.precision == "float32" else torch.bfloat16
    return CudaEngine(model.bfloat16() if options.round_weights else model, dtype, options.device)


def describe_failure(error: Exception) -> Failure:
    """An error for the parent, which need not be able to import its class."""
    text = "".join(traceback.format_exception(error))
    if isinstance(error, DragomanError):
        return Failure(type(error), str(error), error.code, text)
    kind = MemoryError if isinstance(error, MemoryError) else RuntimeError
    named = str(error) if isinstance(error, kind) else f"{type(error).__name__}: {error}"
    return Failure(kind, named, None, text)


def main(descriptor: int) -> None:
    """Answer requests on the given descriptor."""
    for name in IGNORED_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    warnings.simplefilter("ignore")  # the parent has loaded the same model, and has shown them
    end = socket.socket(fileno=descriptor)
    end.set_inheritable(False)
    Worker(end).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
