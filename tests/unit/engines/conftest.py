"""Random models for the engines to agree on, written once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from random_models import RECIPES, write_random

MODELS: dict[str, Path] = {}


@pytest.fixture(params=list(RECIPES))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    if name not in MODELS:
        MODELS[name] = write_random(tmp_path_factory.mktemp("models") / "m", *RECIPES[name])
    return MODELS[name]
