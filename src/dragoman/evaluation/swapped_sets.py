"""Warn before evaluating on test sets whose source looks like the target language of the model."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.data.swapped_languages import swapped_warning
from dragoman.evaluation.test_sets import EvaluationSet
from dragoman.modeldir.info import ModelInfo


def swapped_sets_warning(sets: Sequence[EvaluationSet], model: ModelInfo) -> str | None:
    """A warning about the first test set that looks swapped, if the model's languages are known."""
    for one in sets:
        targets = (one.to,) if one.to is not None else model.target_languages
        if one.sources is None or len(model.source_languages) != 1 or len(targets) != 1:
            continue
        languages = model.source_languages[0], targets[0]
        if warning := swapped_warning(one.name, one.sources, one.references, languages):
            return warning
    return None
