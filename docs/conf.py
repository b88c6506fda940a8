"""Sphinx: the site that `make docs` builds into docs/_build/html.

The source directory is the repository, so that links between docs/, benchmarks/results/ and the files at the top work
both in the site and where the repository is browsed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dragoman

sys.path.append(str(Path(__file__).parent))

project = "Dragoman"
author = "The Dragoman authors"
copyright = "The Dragoman authors"  # noqa: A001  # Sphinx's name
version = release = dragoman.__version__

extensions = ["myst_parser", "chinese"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/results/*.md",
    "models/*/card.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = ["docs/_build", ".venv", ".git", "src", "tests", "runs"]

myst_heading_anchors = 4  # links to headings are checked like links to pages
highlight_language = "none"  # indented blocks are commands with their output
smartquotes = False  # -- belongs to options

html_theme = "furo"
html_title = "Dragoman"
html_extra_path = ["site"]  # index.html at the top leads to docs/
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False
