"""A translator under the test's control: it shouts what it is told, remembers its batches, and waits when told to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.testclient import TestClient

from dragoman.serve.app import create_app
from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from dragoman.translation.result import Translation
from serving import WHOLE_LINES


class FakeTranslator:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.settings: list[dict[str, Any]] = []
        self.go = threading.Event()  # cleared, it holds every batch until it is set
        self.go.set()
        self.holding = threading.Event()  # a batch has begun

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        texts = list(texts)
        self.batches.append(texts)
        self.settings.append(settings)
        self.holding.set()
        assert self.go.wait(30), "the test never let the translator go"
        for text in texts:
            if text == "crash":
                raise ZeroDivisionError("an error that says secret things")
            if text == "huge":
                raise MemoryError
            if text == "large":
                raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has secret things")
            yield self.translation(text, settings)

    def translation(self, text: str, settings: dict[str, Any]) -> Translation:
        n_best = settings["search"].n_best
        others = tuple(Translation(f"{text.upper()} {rank}", -1.0 - rank, -2.0 - rank) for rank in range(1, n_best))
        alignment = ((0, 0),) if settings["alignment"] else None
        weights = [[0.75]] if settings["alignment"] else None
        word = (f"▁{text}",)
        return Translation(
            text.upper(),
            -0.5,
            -1.0,
            (f"▁{text.upper()}",),
            word,
            alignment=alignment,
            alignment_weights=weights,
            alternatives=others,
        )


class Named(FakeTranslator):
    """Writes its name before what it translates."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def translation(self, text: str, settings: dict[str, Any]) -> Translation:
        return super().translation(f"{self.name} {text}", settings)


def fake_model(name: str = "m", translator: FakeTranslator | None = None) -> ServedModel:
    """A model of a fake; every line is a sentence."""
    return ServedModel(name, translator or FakeTranslator(), WHOLE_LINES, "a fake")


def fake_service(*names: str, translator: FakeTranslator | None = None, **limits: Any) -> Service:
    """A service that is not started yet; every line is a sentence."""
    fake = translator or FakeTranslator()
    return Service(
        {name: ServedModel(name, fake, WHOLE_LINES, "a fake") for name in names or ("fake",)}, Limits(**limits)
    )


def pairs_service(*pairs: str, **limits: Any) -> Service:
    """A model for each pair such as en-de; one without a hyphen has unknown languages."""
    models = {}
    for name in pairs:
        source, _, target = name.partition("-")
        languages = (source, target) if target else None
        models[name] = ServedModel(name, Named(name), WHOLE_LINES, "a fake", languages)
    return Service(models, Limits(**limits))


def client_of(service: Service) -> Iterator[TestClient]:
    """A client of a service while it runs."""
    service.start()
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        yield client
    service.close()
    service.worker.thread.join(30)
