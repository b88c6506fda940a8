"""Chromium without a window, for pages: it loads an address, runs what the page runs, and gives back what was found."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1200,900"),
)


def chromium(address: str, profile: Path, *options: str) -> str:
    """The document as it is in the end, or what the options print instead."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [str(CHROMIUM), *QUIET, *sandbox, f"--user-data-dir={profile}", *options, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def found(document: str) -> Any:
    """What a driving script has left in the document: `data-found` of the body, or `data-error` of the root."""
    error = re.search(r'data-error="([^"]*)"', document)
    assert error is None, html.unescape(error.group(1))
    answer = re.search(r'data-found="([^"]*)"', document)
    assert answer is not None, document[-3000:]
    return json.loads(html.unescape(answer.group(1)))
