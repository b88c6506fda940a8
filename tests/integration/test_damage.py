"""Flipped bits and cuts of all that is stored are found and made good; tests/torture/damage.py does many more."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tiny_run import prepare_tiny, tiny_run
from torture.damage import damage_all, damage_library

COUNTS = {"checkpoint": 15, "model": 40, "prepared": 30, "library": 4, "converted": 12, "log": 4}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run")
    prepare_tiny(root)
    tiny_run(root, root / "m")
    return root


@pytest.mark.parametrize("kind", COUNTS)
def test_damage_is_found(finished: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "converted":
        pytest.importorskip("ctranslate2")
    if kind == "library" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    random.seed(COUNTS[kind])
    if kind == "library":  # one that is compiled quickly
        tally = damage_library(COUNTS[kind], tmp_path / "cache", "subword_sampling")
    else:
        (tally,) = damage_all(finished, {kind: COUNTS[kind]}).values()
    assert tally.total() == COUNTS[kind]
    assert not [what for what in tally if "MISSED" in what]
