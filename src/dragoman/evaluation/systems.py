"""Where translations come from: a model, or files that something else wrote."""

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
from dragoman.evaluation.test_sets import HeldOut, read_beside
from dragoman.files import MANIFEST, sha256
from dragoman.progress import Reporter
from dragoman.search.types import Search
from dragoman.translation.source_trees import depths_of_texts, parse_trees


@dataclass(frozen=True)
class Translated:
    """The translations of one test set; seconds where they were made just now."""

    texts: list[str]
    seconds: float | None = None
    flags: dict[str, int] = field(default_factory=dict)


class System(Protocol):
    """Something that has a translation for every sentence of a test set."""

    def about(self) -> dict[str, Any]:
        """What a report says of it."""

    def translated(self, sets: Sequence[HeldOut], reporter: Reporter) -> list[Translated]:
        """Its translations of each set."""


class ModelSystem:
    """A model directory, or several that translate together, with their engine and search."""

    def __init__(self, model: str, search: Search, batch: int | None = None, **engine: Any) -> None:
        from dragoman.translation.translator import Translator

        self.model, self.search, self.batch = model, search, batch
        self.translator = Translator.load(model, **engine)

    @property
    def has_languages(self) -> bool:
        """Whether it must be told which language to translate into."""
        return bool(self.translator.targets)

    @property
    def reads_trees(self) -> bool:
        """Whether sentences must come with their trees."""
        return self.translator.tree_model.reads_trees

    @cached_property
    def running(self) -> EngineInfo:
        """The engine that translates, loaded."""
        return self.translator.running_for(search=self.search)

    def about(self) -> dict[str, Any]:
        """Name, digest of the manifest (and so of every file), engine and search."""
        engines = self.translator.engines
        places = [engines.directory, *engines.others]
        return {
            "model": " + ".join(place.name for place in places),
            "digest": ", ".join(sha256(place / MANIFEST) for place in places),
            **({"mean": engines.mean} if engines.others else {}),
            **{k: v for k, v in asdict(self.running).items() if v is not None},
            "search": ", ".join(f"{k}={v}" for k, v in asdict(self.search).items() if v is not None),
        }

    def check(self, sets: Sequence[HeldOut]) -> None:
        """Refuse sets that cannot be translated, and trees that are not theirs, before an hour goes into the first."""
        for held_out in sets:
            if held_out.sources is None:
                raise DataError(f"{held_out.name} has no sources to translate; give --source for every --reference")
            if self.has_languages:
                self.translator.resolve_target(held_out.to)
            grown = parse_trees(self.translator.tree_model, held_out.trees) if self.reads_trees else None
            if grown is not None:
                _, wrong = depths_of_texts(held_out.sources, grown)
                if wrong is not None:
                    raise wrong
                grown.check_finished()

    def translated(self, sets: Sequence[HeldOut], reporter: Reporter) -> list[Translated]:
        """Translate every set."""
        self.check(sets)
        _ = self.running  # its loading is not part of a set's seconds
        return [self._one(held_out, reporter) for held_out in sets]

    def _one(self, held_out: HeldOut, reporter: Reporter) -> Translated:
        sources, texts, flags = held_out.sources or [], [], Counter[str]()
        reporter.start_stage(held_out.name, len(sources), "sentences")
        begun = time.perf_counter()
        trees = held_out.trees if self.reads_trees else None
        to = held_out.to if self.has_languages else None
        for translation in self.translator.stream(sources, search=self.search, batch=self.batch, trees=trees, to=to):
            texts.append(translation.text)
            flags.update(translation.flags)
            reporter.advance()
        return Translated(texts, time.perf_counter() - begun, dict(flags))


class FileSystem:
    """Files of translations, one for each test set, read at once: a mistake in them costs no translating."""

    def __init__(self, files: Sequence[Path], option: str, sets: Sequence[HeldOut]) -> None:
        if len(files) != len(sets):
            raise DataError(
                f"{len(files)} files came with {option} for {len(sets)} test sets; give one for each --reference, in "
                "the same order"
            )
        self.files = files
        self.texts = [
            Translated(read_beside(path, Path(held_out.name), len(held_out.references)))
            for path, held_out in zip(files, sets, strict=True)
        ]

    def about(self) -> dict[str, Any]:
        """Names and digests."""
        return {"files": ", ".join(path.name for path in self.files), "digest": ", ".join(map(sha256, self.files))}

    def translated(self, sets: Sequence[HeldOut], reporter: Reporter) -> list[Translated]:
        """What was read."""
        return self.texts
