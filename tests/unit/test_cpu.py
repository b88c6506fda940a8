"""The number of cores, also in containers with a CPU limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman import cpu


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "limits"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, [1.5]),  # inside a container
        ("0::/pods/one\n", {"pods/one/cpu.max": "max 100000\n", "pods/cpu.max": "400000 100000\n"}, [4.0]),
        ("0::/pods/one\n", {}, []),
        (
            "3:memory:/a\n1:cpu,cpuacct:/b\n0::/\n",
            {"cpu,cpuacct/b/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/b/cpu.cfs_period_us": "100000\n"},
            [2.0],
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, []),
        ("nonsense", {"cpu.max": "150000 100000\n"}, []),
        ("0::/\n", {"cpu.max": "many cores\n"}, []),
    ],
)
def test_limits_of_control_groups(tmp_path: Path, own: str, files: dict[str, str], limits: list[float]) -> None:
    write_files(tmp_path / "cgroups", files)
    (tmp_path / "own").write_text(own)
    assert list(cpu.cpu_limits(tmp_path / "cgroups", tmp_path / "own")) == limits


@pytest.mark.parametrize(("limit", "cores"), [("50000", 1), ("150000", 2), ("9900000", 8)])
def test_a_limit_is_rounded_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, cores: int) -> None:
    write_files(tmp_path, {"own": "0::/\n", "cpu.max": f"{limit} 100000\n"})
    monkeypatch.setattr(cpu, "CGROUPS", tmp_path)
    monkeypatch.setattr(cpu, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert cpu.available_cores() == cores


def test_without_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "OWN_CGROUPS", tmp_path / "missing")
    assert cpu.available_cores() >= 1
