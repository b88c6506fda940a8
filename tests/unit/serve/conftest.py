"""A server in the test's own process: of a fake, and of a tiny real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_translator import FakeTranslator, client_of, fake_service
from starlette.testclient import TestClient

from dragoman.serve.limits import Limits
from dragoman.serve.models.loading import load_served_model, preferred_batch
from dragoman.serve.service import Service
from tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def fake() -> FakeTranslator:
    return FakeTranslator()


@pytest.fixture(scope="module")
def client(fake: FakeTranslator) -> Iterator[TestClient]:
    yield from client_of(fake_service("first", "second", translator=fake, max_characters=5_000))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("api") / "tiny")


@pytest.fixture(scope="module")
def real(directory: Path) -> Iterator[TestClient]:
    served = load_served_model("en-de", directory, 4, device="cpu", threads=1)
    yield from client_of(Service({"en-de": served}, Limits(), batch=preferred_batch(served, 4)))
