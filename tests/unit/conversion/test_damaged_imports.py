"""Damaged or invalid files of other toolkits give a clear error, never a traceback."""

from __future__ import annotations

import copy
import json
import random
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_files import write_fairseq

from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.errors import ConversionError
from opus_model import write_opus

ODD: list[Any] = [None, "x", -1, 0, [], {}, 10**9, 2**40, True, 1.5, "", [1], {"a": 1}, float("nan")]
KINDS: dict[str, Callable[[Path], Path]] = {
    "opus": write_opus,
    "opus, two vocabularies": lambda place: write_opus(place, separate=True, binary=True),
    "fairseq": lambda place: write_fairseq(place).parent,
}


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[request.param](tmp_path_factory.mktemp("whole") / "model")


def answered(place: Path) -> bool:
    """Whether it is taken; what is refused is refused in words."""
    try:
        read_source_model(place, ImportOptions())
    except ConversionError as error:
        assert str(place.name) in str(error) and len(str(error)) > 30
        return False
    return True


def test_damaged_bytes(whole: Path, tmp_path: Path) -> None:
    draw, refused = random.Random(3), 0
    for _ in range(60):
        place = tmp_path / "model"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        file = draw.choice(sorted(place.iterdir()))
        data = bytearray(file.read_bytes())
        match draw.randrange(4):
            case 0:
                data = data[: draw.randrange(len(data))]
            case 1:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 2:
                for _ in range(3):
                    data[draw.randrange(min(len(data), 600))] = draw.randrange(256)
            case 3:
                file.unlink()
        if file.exists():
            file.write_bytes(data)
        refused += not answered(place)
    assert refused > 20


def places_in(settings: Any) -> list[tuple[dict[str, Any], str]]:
    table = vars(settings) if isinstance(settings, Namespace) else settings
    if not isinstance(table, dict):
        return []
    return [(table, key) for key in table] + [found for value in table.values() for found in places_in(value)]


def test_settings_that_make_no_sense(whole: Path, tmp_path: Path) -> None:
    draw, refused = random.Random(5), 0
    place, config = tmp_path / "model", whole / "config.json"
    shutil.copytree(whole, place)
    saved = None if config.exists() else torch.load(whole / "checkpoint_best.pt", weights_only=False)
    for _ in range(60):
        settings = copy.deepcopy(saved["cfg"]) if saved is not None else json.loads(config.read_text())
        table, key = draw.choice(places_in(settings))
        table[key] = draw.choice(ODD)
        if saved is None:
            (place / "config.json").write_text(json.dumps(settings))
        else:
            torch.save({**saved, "cfg": settings}, place / "checkpoint_best.pt")
        refused += not answered(place)
    assert refused > 20
