"""Systems to evaluate: a model, or files of translations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from dragoman.engines.select import EngineInfo
from dragoman.errors import DataError
from dragoman.evaluation.metrics import compare_systems, score_corpus
from dragoman.evaluation.report import SetResult
from dragoman.evaluation.test_sets import EvaluationSet, read_matching_lines
from dragoman.files import MANIFEST, sha256
from dragoman.modeldir.locate import model_name
from dragoman.progress import Reporter
from dragoman.search.types import Search
from dragoman.translation.source_ids import depths_of_texts
from dragoman.values import plural


@dataclass(frozen=True)
class SystemOutput:
    """The translations of one test set, and the seconds that they took if they were made now."""

    texts: list[str]
    seconds: float | None = None
    flags: dict[str, int] = field(default_factory=dict)


class System(Protocol):
    """A system with a translation for every sentence of a test set."""

    @property
    def name(self) -> str:
        """The name in a report and in notes, without a path."""

    def describe(self) -> dict[str, Any]:
        """The description in a report."""

    def translate(self, sets: Sequence[EvaluationSet], reporter: Reporter) -> list[SystemOutput]:
        """The translations of each set."""


class ModelSystem:
    """A model or an ensemble, with its engine and search."""

    def __init__(self, model: str, search: Search, batch: int | None = None, **engine: Any) -> None:
        from dragoman.translation.translator import Translator

        self.search, self.batch = search, batch
        self.translator = Translator.load(model, **engine)

    @property
    def name(self) -> str:
        """The name of the model with its adapter, or of each model of an ensemble."""
        engines = self.translator.engines
        adapted = "" if engines.adapter is None else f" ({model_name(engines.adapter)})"
        return model_name(engines.directory) + adapted + "".join(f" + {model_name(other)}" for other in engines.others)

    @property
    def has_target_languages(self) -> bool:
        """Whether the model needs a target language."""
        return bool(self.translator.targets)

    @property
    def reads_trees(self) -> bool:
        """Whether the model reads dependency trees."""
        return self.translator.reads_trees

    @cached_property
    def engine_info(self) -> EngineInfo:
        """The loaded engine."""
        return self.translator.running_for(search=self.search)

    def describe(self) -> dict[str, Any]:
        """Name, digest of the manifest, engine and search."""
        engines = self.translator.engines
        directories = [engines.directory, *([engines.adapter] if engines.adapter else []), *engines.others]
        return {
            "model": self.name,
            "digest": ", ".join(sha256(directory / MANIFEST) for directory in directories),
            **({"mean": engines.mean} if engines.others else {}),
            **{k: v for k, v in asdict(self.engine_info).items() if v is not None},
            "search": ", ".join(f"{k}={v}" for k, v in asdict(self.search).items() if v is not None),
        }

    def check(self, sets: Sequence[EvaluationSet]) -> None:
        """Reject sets without sources, and trees that do not match, before translating."""
        for test_set in sets:
            if test_set.sources is None:
                message = f"{test_set.name} has no sources; give --source for each --reference"
                raise DataError(message, code="missing_option")
            if self.has_target_languages or test_set.to is not None:
                self.translator.resolve_target(test_set.to)
            trees = self.translator.parse_trees(test_set.trees) if self.reads_trees else None
            if trees is not None:
                _, error = depths_of_texts(test_set.sources, trees)
                if error is not None:
                    raise error
                trees.check_finished()

    def translate(self, sets: Sequence[EvaluationSet], reporter: Reporter) -> list[SystemOutput]:
        """Translate every set."""
        self.check(sets)
        _ = self.engine_info  # loading does not count as translation time
        return [self._one(test_set, reporter) for test_set in sets]

    def _one(self, test_set: EvaluationSet, reporter: Reporter) -> SystemOutput:
        sources, texts, flags = test_set.sources or [], [], Counter[str]()
        reporter.start_stage(test_set.name, len(sources), "sentences")
        start = time.perf_counter()
        trees = test_set.trees if self.reads_trees else None
        to = test_set.to if self.has_target_languages else None
        for translation in self.translator.stream(sources, search=self.search, batch=self.batch, trees=trees, to=to):
            texts.append(translation.text)
            flags.update(translation.flags)
            reporter.advance()
        return SystemOutput(texts, time.perf_counter() - start, dict(flags))


class FileSystem:
    """Files of translations, one for each test set, read before any translation starts."""

    def __init__(self, files: Sequence[Path], option: str, sets: Sequence[EvaluationSet]) -> None:
        if len(files) != len(sets):
            raise DataError(
                f"got {plural(len(files), 'file')} of {option} for {plural(len(sets), 'test set')}; give one for each "
                "--reference, in the same order",
                code="count_mismatch",
            )
        self.files = files
        self.outputs = [
            SystemOutput(read_matching_lines(path, Path(test_set.name), len(test_set.references)))
            for path, test_set in zip(files, sets, strict=True)
        ]

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(path.name for path in self.files)

    def describe(self) -> dict[str, Any]:
        """File names and digests."""
        return {"files": self.name, "digest": ", ".join(map(sha256, self.files))}

    def translate(self, sets: Sequence[EvaluationSet], reporter: Reporter) -> list[SystemOutput]:
        """The translations of the files."""
        return self.outputs


def check_models(
    systems: Sequence[System], sets: Sequence[EvaluationSet], *, trees: bool, languages: bool
) -> list[ModelSystem]:
    """The models among the systems; reject sets that they cannot translate, and trees and languages that none uses."""
    models = [each for each in systems if isinstance(each, ModelSystem)]
    if trees and not any(each.reads_trees for each in models):
        raise DataError("source trees have no effect: no model here reads them; drop them", code="unused_option")
    if languages and not models:
        raise DataError("`to` has no effect: there is no model here; leave it out", code="unused_option")
    for each in models:
        each.check(sets)
    return models


def score_systems(
    systems: Sequence[System],
    sets: Sequence[EvaluationSet],
    metrics: Sequence[str],
    tokenize: str | None,
    lowercase: bool,
    reporter: Reporter,
) -> list[SetResult]:
    """Score the first system on each test set, and compare it with the second, if given."""
    ours, *others = [system.translate(sets, reporter) for system in systems]
    settings = metrics, tokenize, lowercase
    results = []
    for i, (test_set, output) in enumerate(zip(sets, ours, strict=True)):
        references = test_set.references
        scores = score_corpus(output.texts, references, *settings)
        compared = compare_systems(output.texts, others[0][i].texts, references, *settings) if others else []
        results.append(SetResult(test_set, output.texts, scores, output.seconds, compared, output.flags))
    return results
