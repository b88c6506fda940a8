"""A short run of tests/torture/foreign_files.py: no hostile file ends in a traceback, a crash or without memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="an extra")
SCRIPT = Path(__file__).resolve().parents[1] / "torture" / "foreign_files.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc and setrlimit")
def test_every_foreign_file_is_accepted_or_rejected(tmp_path: Path) -> None:
    count = 80
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "--count", str(count), "--seed", "3", "--keep", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = {kind: int(n) for n, kind in re.findall(r"^ +(\d+)  (.+)$", ended.stdout, re.MULTILINE)}
    assert sum(counts.values()) == count
    rejected = {kind.partition(":")[0] for kind in counts if kind.endswith("rejected")}
    assert rejected == {"pickle", "yaml", "json", "safetensors", "spm", "toml", "model", "prepared data", "marian"}
