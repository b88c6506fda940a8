"""A process that follows its parent ends with it, however the parent ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHILD = """
import signal, sys
from dragoman import parent_process
if sys.argv[1] == "poll":
    parent_process._killed_with_parent = lambda: False
parent_process.follow_parent()
print("follows", flush=True)
signal.pause()
"""
PARENT = """
import os, signal, subprocess, sys
environment = {**os.environ, "DRAGOMAN_PARENT": str(os.getpid())}
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], env=environment)
signal.pause()
"""


@pytest.mark.parametrize("way", ["system", "poll"])
def test_it_ends_with_its_parent(way: str) -> None:
    if way == "system" and sys.platform != "linux":
        pytest.skip("only Linux can")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD, way], stdout=subprocess.PIPE)
    assert parent.stdout is not None and parent.stdout.readline() == b"follows\n"
    parent.kill()
    parent.communicate(timeout=60)  # until the child has closed its output


@pytest.mark.parametrize("way", ["system", "poll"])
def test_it_ends_at_once_if_its_parent_is_gone(way: str) -> None:
    other = {**os.environ, "DRAGOMAN_PARENT": str(os.getpid() + 1)}
    done = subprocess.run([sys.executable, "-c", CHILD, way], env=other, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
