"""Translation memories and terminology of served models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from dragoman.documents.memory.lookup import Memory, is_tmx
from dragoman.errors import SearchError
from dragoman.search.constraints.terms import Terms
from dragoman.values import suggest


@dataclass(frozen=True)
class ModelMemory:
    """The translation memories of a model, indexed once for each of its language pairs."""

    files: Sequence[Path]
    indexed: dict[tuple[str, str], Memory] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def between(self, source: str, target: str) -> Memory:
        """The memory for a language pair; its files are read when the first text is looked up."""
        with self.lock:
            if (source, target) not in self.indexed:
                self.indexed[source, target] = Memory(self.files, source, target)
            return self.indexed[source, target]

    def load(self, pairs: Sequence[tuple[str | None, str]]) -> None:
        """Check the files, and read them now if the model has one language pair."""
        for source, target in pairs or [(None, "")]:
            memory = self.between(source or "", target)
            if len(pairs) <= 1:
                memory.index  # noqa: B018 - reads the files


def files_by_model(option: str, given: Sequence[str], models: Collection[str]) -> dict[str, list[Path]]:
    """The files of each model; each argument is FILE, for all models, or MODEL=FILE."""
    found: dict[str, list[Path]] = {model: [] for model in models}
    for one in given:
        name, equals, location = one.partition("=")
        if not equals or Path(one).exists():
            if len(models) > 1 and not (option == "--memory" and is_tmx(Path(one))):
                message = f"{option} {one} does not say for which of {len(models)} models it is"
                raise SearchError(f"{message}; write {option} {next(iter(models))}={one}", code="missing_option")
            chosen, location = list(models), one
        elif name in models:
            chosen = [name]
        else:
            message = f"{option} {one}: no served model has the name {name!r}{suggest(name, [*models])}"
            raise SearchError(message, code="unknown_choice")
        for model in chosen:
            found[model].append(Path(location))
    return found


def merge_terms(files: Sequence[Terms]) -> Terms | None:
    """The terms of all files together; None without files."""
    merged: Terms | None = None
    for terms in files:
        merged = terms if merged is None else merged.merge(terms)
    return merged


def with_request_terms(terms: Terms | None, requested: Mapping[str, tuple[str, ...]]) -> Terms | None:
    """The terms of a model with those of a request, which replace the model's for the same phrases."""
    if terms is None or not requested:
        return terms
    return Terms({**terms.targets, **requested}, terms.ignore_case)
