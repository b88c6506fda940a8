"""The word alignments of a run's training data, computed once and kept beside its checkpoints."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from dragoman.data.alignment.statistical import align_corpus
from dragoman.data.prepared import Prepared
from dragoman.data.shards import Alignment, Sentences, SentenceWriter, Split
from dragoman.errors import DamagedError
from dragoman.files import parse_json, staged, verify_manifest, write_manifest
from dragoman.progress import Reporter

NAME: Final = "train.links"
ABOUT: Final = "about.json"
METHOD: Final = 1  # changes when the aligner would give other links


def ensure_alignments(prepared: Prepared, directory: Path, reporter: Reporter) -> None:
    """Align the training data, unless they were prepared with alignments or `directory` has them already."""
    if prepared.has_alignment:
        return
    about = {"method": METHOD, "data": prepared.fingerprint}
    if directory.is_dir():
        try:
            verify_manifest(directory, [ABOUT])
            if parse_json((directory / ABOUT).read_bytes()) == about:
                return
        except (DamagedError, OSError, ValueError):
            pass  # computed again: the result is the same
        shutil.rmtree(directory)
    split = prepared.split("train")
    vocabulary = [tokenizer.vocabulary_size for tokenizer in prepared.tokenizers]
    try:
        with staged(directory) as staging:
            with SentenceWriter(staging, NAME, "uint32") as writer:
                for links in align_corpus(split.source, split.target, (vocabulary[0], vocabulary[1]), reporter):
                    writer.append(links.ids, np.diff(links.offsets))
            (staging / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
            write_manifest(staging)
    finally:
        reporter.close()


def with_alignments(split: Split, prepared: Prepared, directory: Path) -> Split:
    """The training split with its alignments: those that it was prepared with, or those of a directory."""
    links = Sentences.open(prepared.directory if prepared.has_alignment else directory, NAME, "uint32")
    source, target = (np.array(tokenizer.widths, np.int64) for tokenizer in prepared.tokenizers)
    return replace(split, alignment=Alignment(links, (source, target)))
