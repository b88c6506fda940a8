"""A small model with more than one of everything, and what it attends to."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.inspect.attention.maps import SentenceAttention, record_attention
from dragoman.translation.translator import Translator
from small_model import model_at

SOURCE, TARGET = "one twenty-two </script> six", "eins zwanzig sechs & $x$"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_at(tmp_path_factory.mktemp("inspect") / "model", encoder_layers=2, decoder_layers=3)


@pytest.fixture(scope="session")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu", engine="torch")


@pytest.fixture(scope="session")
def attention(translator: Translator) -> SentenceAttention:
    return record_attention(translator, SOURCE, TARGET)
