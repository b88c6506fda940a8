"""Probe sentences for new models, so that `verify` can compare engines with their stored translations."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from dragoman.errors import DataError, SearchError


def add_probes(directory: Path, parent: Path | None = None) -> None:
    """Store probes in a model without probes: sentences of its validation set, or the probes of its parent model."""
    from dragoman.modeldir.layout import model_kind
    from dragoman.modeldir.locate import is_model
    from dragoman.modeldir.probe_file import has_probes
    from dragoman.translation.probes import probe_texts, store_probes

    if model_kind(directory) != "translation" or has_probes(directory):
        return
    texts = probe_texts(parent) if parent is not None and is_model(parent) else _validation_texts(directory)
    with suppress(SearchError, OSError):  # weights that are not finite, or a full disk: the model itself is complete
        store_probes(directory, texts)


def add_probes_to_new(directory: Path, parent: Path | None = None) -> None:
    """Store probes in a model that this call has written; remove the model if that is interrupted."""
    try:
        add_probes(directory, parent)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _validation_texts(run: Path) -> list[str]:
    """Sources of a run's validation set; empty if it is not there."""
    return [source for source, _ in validation_pairs(run)[:100]]


def validation_pairs(run: Path) -> list[tuple[str, str]]:
    """Up to 500 pairs of a run's validation set; empty if it is not there."""
    from dragoman.data.prepared import Prepared
    from dragoman.training.run_record import prepared_directory

    try:
        prepared = Prepared.open(prepared_directory(run))
        split, (source, target) = prepared.split("valid"), prepared.tokenizers
    except DataError:
        return []
    return [
        (source.decode(split.source[i].tolist()), target.decode(split.target[i].tolist()))
        for i in range(min(len(split), 500))
    ]
