"""Arguments and files of benchmarks that translate a test set, such as Multi30k's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def find_file(directory: Path, name: str) -> Path:
    """The file with this name, compressed or not."""
    for suffix in ("", ".xz", ".gz"):
        if (directory / (name + suffix)).exists():
            return directory / (name + suffix)
    raise SystemExit(f"{directory} has no {name}, compressed or not")


def corpus_parser(
    description: str | None, split: str | None = None, languages: Sequence[str] | None = None
) -> argparse.ArgumentParser:
    """A parser for DATA, MODEL, --from and --to (any of `languages`), and --split if it has a default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    if split is not None:
        parser.add_argument("--split", default=split)
    parser.add_argument("--from", dest="source", default="en", choices=languages)
    parser.add_argument("--to", dest="target", default="de", choices=languages)
    return parser
