"""YAML of other toolkits: small values are read, and what grows, nests or does not fit is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConversionError
from hostile_files import yaml_laughs
from raising import raises

pytest.importorskip("yaml", reason="an extra")

from dragoman.conversion.files.yaml_file import read_yaml


def test_anchors_and_merges_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("base: &base {size: 4, names: [a, b]}\nother: {<<: *base, rate: 0.5}\nsame: *base\n")
    base = {"size": 4, "names": ["a", "b"]}
    assert read_yaml(path) == {"base": base, "other": {**base, "rate": 0.5}, "same": base}


@pytest.mark.parametrize(
    "text",
    [
        yaml_laughs(),
        yaml_laughs(merged=True), "a: &a [*a]", "a: *b", "a: " + "[" * 20_000, "a: " + "[" * 40 + "]" * 40,
        "- " * 100 + "a", "a: [" + "1, " * 50_000 + "1]", "a: 1\n" * 100_000, "a: " + "x" * 20_000, "a: " + "9" * 5000,
        "a: " + "1:" * 4000 + "1.5", "a: !!bool maybe", "a: !!timestamp x", "a: !!float ''", "a: !!int x",
        "a: 2001-99-99",
        "a: !!python/object/apply:os.system [ls]", "a: \xff\x00", "{[a]: 1}", "? {a: 1}\n: 2", "", "[1, 2]",
        "%YAML 9", "a: b: c",
    ],
    ids=range(25),
)  # fmt: skip
def test_what_is_no_settings_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with raises(ConversionError, "file_damaged", "config.yaml"):
        read_yaml(path)
