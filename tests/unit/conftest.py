"""A model with weights by chance, for the tests of translating."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def translator(directory: Path) -> Translator:
    return Translator.load(directory, device="cpu", engine="torch")
