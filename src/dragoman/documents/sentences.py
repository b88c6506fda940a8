"""The translator that documents use: sentences in, aligned translations out, and a retry that must keep some words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Unpack, cast

from dragoman.documents.source_vocabulary import SourceVocabulary, TokenizerVocabulary
from dragoman.engines.base import EngineRequest
from dragoman.errors import SearchError
from dragoman.modeldir.info import read_info
from dragoman.search.types import SearchInterruptedError, StopFlag
from dragoman.translation.options import SearchOptions, TranslationOptions, resolve_search
from dragoman.translation.result import Translation

if TYPE_CHECKING:
    from dragoman.search.constraints.terms import Terms
    from dragoman.translation.translator import Translator


class SentenceTranslator(Protocol):
    """What the core needs from a translator; tests have one without a model."""

    @property
    def threads(self) -> int:
        """How many threads may translate at the same time, with the same results; 0 to translate all texts at once."""

    def interrupt(self) -> None:
        """End the searches that run in other threads."""

    def split(self, line: str) -> list[str]:
        """The sentences of a line, or groups of them, that are translated at once."""

    @property
    def vocabulary(self) -> SourceVocabulary:
        """What the model can read."""

    def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
        """The translation of each text, in order."""

    def stream_requiring(
        self, texts: Sequence[str], words: Sequence[str], alignment: bool
    ) -> Iterator[Translation] | None:
        """The same, with each of the `words` required where its text has it; None if that is not possible here."""


class ModelTranslator:
    """A `Translator` with the options of all sentences."""

    def __init__(self, translator: Translator, **options: Unpack[TranslationOptions]) -> None:
        self.translator, self.options = translator, options
        self.stop = options.get("stop") or StopFlag()
        # Without attention, spans are placed by position.
        self.aligns = not translator.engines.others and translator.recipe.model.attention != "none"

    @cached_property
    def threads(self) -> int:
        """Those of the engine, if its results do not depend on batches; other engines want all sentences at once."""
        given = {name: value for name, value in self.options.items() if name in SearchOptions.__annotations__}
        search = resolve_search(**cast(SearchOptions, given))
        engine = self.translator.engines.for_request(EngineRequest(search))
        batched = self.options.get("batch") is not None or search.sampling is not None
        return engine.threads or 0 if engine.capabilities.batch_invariant and not batched else 0

    def interrupt(self) -> None:
        """End the searches that run in other threads; the caller's flag is left alone, it may serve other documents."""
        if self.options.get("stop") is None:
            self.stop.set()

    def split(self, line: str) -> list[str]:
        """The segments of a line, as the option `split` says."""
        return self.translator.segmenter.split_line(line, self.options.get("split", "auto"))

    @cached_property
    def vocabulary(self) -> TokenizerVocabulary:
        """That of the source tokenizer."""
        return TokenizerVocabulary(self.translator.source, () if self.terms is None else (self.terms,))

    @cached_property
    def terms(self) -> Terms | None:
        """The terms of the options."""
        own = self.options.get("terms")
        if own is None:
            return None
        from dragoman.search.constraints.terms import Terms

        return own if isinstance(own, Terms) else Terms(own)

    def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
        """The translation of each text, in order."""
        return self.translator.stream(texts, **self._options_with(alignment))

    def stream_requiring(
        self, texts: Sequence[str], words: Sequence[str], alignment: bool
    ) -> Iterator[Translation] | None:
        """Translations that keep these words, with an engine that supports lexical constraints, if there is one."""
        from dragoman.search.constraints.terms import Terms

        terms = Terms({word: word for word in words})
        if self.terms is not None:
            terms = self.terms.merge(terms)
        options: TranslationOptions = {**self._options_with(alignment), "terms": terms}
        try:
            found = list(self.translator.stream(texts, **options))
        except SearchInterruptedError:
            raise
        except (SearchError, ImportError):  # no such engine here, or constraints with sampling
            return None
        return iter(found)

    def _options_with(self, alignment: bool) -> TranslationOptions:
        options: TranslationOptions = {**self.options, "alignment": alignment and self.aligns}
        if self.threads:
            options["stop"] = self.stop
        return options


def model_languages(translator: Translator, options: TranslationOptions) -> tuple[str, str]:
    """The codes of the source and target language, empty where the model does not say or has several."""
    info, to = read_info(translator.engines.directory), options.get("to")
    source = info.source_languages[0] if len(info.source_languages) == 1 else ""
    target = info.target_languages[0] if len(info.target_languages) == 1 else ""
    return source, to if isinstance(to, str) else target
