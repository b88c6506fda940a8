"""A served model: translator, segmenter, engine and languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Unpack

from dragoman.engines.base import EngineRequest
from dragoman.search.constraints.terms import Terms
from dragoman.serve.errors import RequestError
from dragoman.serve.models.resources import ModelMemory
from dragoman.translation.options import TranslationOptions
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import Segmenter
from dragoman.values import suggest

# (source, translation, target language) -> the translation with attention; None if a search is needed
ForcedAttention = Callable[[str, str, str | None], Translation | None]


class StreamTranslator(Protocol):
    """The part of a Translator that the worker needs."""

    def stream(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> Iterable[Translation]:
        """The translation of each text, in order."""


class ModelSummary(NamedTuple):
    """What the server says about a model when it starts."""

    name: str
    engine: str
    has_languages: bool


@dataclass(frozen=True, eq=False)  # a reloaded model is a different one
class ServedModel:
    """A served model; after a reload, accepted requests keep the old one."""

    name: str
    translator: StreamTranslator
    segmenter: Segmenter = field(repr=False)
    engine: str = ""
    languages: tuple[str, str] | None = None
    has_attention: bool = True
    targets: tuple[str, ...] = ()  # of a model with several target languages; requests choose one with `to`
    sources: tuple[str, ...] = ()  # if the model lists them
    forced: ForcedAttention | None = field(default=None, repr=False)
    count_tokens: Callable[[str], int] | None = field(default=None, repr=False)  # of a source; None if unknown
    is_concurrent: Callable[[EngineRequest], bool] = field(default=lambda _: False, repr=False)  # see `Capabilities`
    memory: ModelMemory | None = field(default=None, repr=False)  # for documents
    terms: Terms | None = field(default=None, repr=False)  # of all requests, except those that sample

    @property
    def pairs(self) -> list[tuple[str | None, str]]:
        """The known language pairs; a source of None means any language."""
        if self.targets:
            return [(source, to) for source in self.sources or (None,) for to in self.targets if source != to]
        return [] if self.languages is None else [self.languages]

    @property
    def summary(self) -> ModelSummary:
        """What the server says about the model when it starts."""
        return ModelSummary(self.name, self.engine, bool(self.pairs))

    def check_target(self, to: str | None) -> str | None:
        """Check the requested target language; None for a model with only one."""
        if not self.targets:
            if to is None or (self.languages is not None and to == self.languages[1]):
                return None
            known = f"only into {self.languages[1]!r}" if self.languages is not None else "into one language only"
            raise RequestError(422, "unknown_language", f"the model {self.name!r} translates {known}; leave out `to`")
        if to is None:
            choices = ", ".join(self.targets)
            message = f'the model {self.name!r} translates into {choices}; choose one, as in "to": "{self.targets[0]}"'
            raise RequestError(422, "missing_language", message)
        if to not in self.targets:
            message = f"the model {self.name!r} does not translate into {to!r}{suggest(to, self.targets)}"
            raise RequestError(422, "unknown_language", message)
        return to
