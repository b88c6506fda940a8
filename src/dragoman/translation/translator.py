"""The public class: text in, translations out.

    translator = Translator.load("my-model")
    translator.translate("Good morning!").text
    for translation in translator.stream(open("book.txt")): ...

Importing this is cheap: PyTorch is imported only where an engine needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from dragoman.config import Recipe
from dragoman.config.recipe import guided_head
from dragoman.engines.base import EngineRequest, check_has_attention
from dragoman.engines.select import EngineInfo, EngineSelector
from dragoman.errors import SearchError
from dragoman.modeldir.adapter import find_adapter
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import RECIPE, load_tokenizers, verify_model_cached
from dragoman.modeldir.locate import find_ensemble, find_model
from dragoman.search.types import Mean, Sampling, Search, StopFlag, check_integer
from dragoman.text import Tokenizer
from dragoman.text.languages.codes import normalize_language
from dragoman.text.line_lengths import LineLengths, common_lengths
from dragoman.translation.options import (
    LengthLimits,
    SearchOptions,
    SplitMode,
    TranslationOptions,
    TranslationRequest,
    check_texts,
    limit_length,
    parse_constraints,
    parse_strings,
    parse_trees,
    resolve_search,
    resolve_target,
)
from dragoman.translation.pipeline import translate_stream, with_all_trees_used
from dragoman.translation.result import Scored, Translation
from dragoman.translation.segmentation import Ids, Segmenter
from dragoman.translation.source_ids import encode_sources
from dragoman.values import suggest

if TYPE_CHECKING:
    from dragoman.search.constraints.phrases import Constraints
    from dragoman.search.constraints.tables import ConstraintCompiler
    from dragoman.search.constraints.terms import Entries, Terms
    from dragoman.text.trees.dependency import Tree, TreeAligner
    from dragoman.translation.alignment_head import AlignmentAttention, AlignmentHead


class Translator:
    """A model that translates text. Results are in order and do not depend on batching.

    To the last bit, that holds for batch-invariant engines (`native`), and for every engine with `reproducible=True`,
    which translates each sentence alone; docs/howto/translating.md has the cost.
    """

    def __init__(
        self,
        engines: EngineSelector,
        source: Tokenizer,
        target: Tokenizer,
        recipe: Recipe,
        others: Sequence[Recipe] = (),
        *,
        language: str = "en",
        lengths: Sequence[LineLengths | None] = (None,),
    ) -> None:
        self.engines, self.source, self.target, self.recipe = engines, source, target, recipe
        limits = LengthLimits.of([recipe, *others])
        self.longest_source, self.longest_output = limits.source, limits.output
        self.n_language_tokens = 1 if source.targets else 0  # tokens before a source that name its target language
        self.longest = max(1, limits.longest - self.n_language_tokens)
        self.tree_model = limits.tree_model  # the model that decides whether sentences need trees
        self.reads_trees = self.tree_model.reads_trees
        self.segmenter = Segmenter(source, language, self.longest, tuple(lengths))
        self.lengths = common_lengths(lengths)  # of training lines, if they are known

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str = "auto",
        engine: str = "auto",
        threads: int | None = None,
        precision: str = "auto",
        language: str | None = None,
        ensemble: str | Path | Iterable[str | Path] | None = None,
        mean: Mean = "probabilities",
        adapter: str | Path | None = None,
    ) -> Translator:
        """Load a model directory, or a model by its name under `$DRAGOMAN_MODELS` or the data directory.

        `device` is "auto", "cpu", "cuda"...; `engine` is "auto", "native", "ctranslate2", "cuda" or "torch";
        `precision` is "auto" (int8 on a CPU where the engine supports it), "int8", "bfloat16" or "float32". `language`
        is the source's code, for splitting text into sentences; by default the one that the model names.

        `ensemble` are further models, of any kind and size but with the same tokenizers. At each step the search uses
        the `mean` of the models' "probabilities" or "log-probabilities". `adapter` was trained on this model with
        train.lora.
        """
        code, directory = None if language is None else normalize_language(language), find_model(model)
        verify_model_cached(directory)
        others = find_ensemble(directory, ensemble)
        adapted = None if adapter is None else find_adapter(adapter, directory)
        described = [adapted or directory, *others]
        recipe, *other_recipes = (Recipe.load(one / RECIPE) for one in described)
        # absolute: engines are loaded lazily, and the working directory may have changed by then
        first, *rest = (one.absolute() for one in (directory, *others))
        changed = None if adapted is None else adapted.absolute()
        engines = EngineSelector(first, device, engine, threads, precision, rest, mean, changed)
        infos = [read_info(one) for one in described]
        code = code or (infos[0].source_languages[0] if len(infos[0].source_languages) == 1 else "en")
        lengths = [info.line_lengths for info in infos]
        return cls(engines, *load_tokenizers(directory), recipe, other_recipes, language=code, lengths=lengths)

    @property
    def language(self) -> str:
        """The code of the source language, for splitting text into sentences."""
        return self.segmenter.language

    def __repr__(self) -> str:
        engines = self.engines
        more = f", ensemble={[str(other) for other in engines.others]!r}" if engines.others else ""
        more += f", adapter={str(engines.adapter)!r}" if engines.adapter else ""
        return f"Translator({str(engines.directory)!r}, engine={engines.engine!r}, device={engines.device!r}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of `load`: another process loads the same model again."""
        names = ("engine", "device", "threads", "precision", "mean", "adapter")
        choices = {name: getattr(self.engines, name) for name in names} | {"ensemble": self.engines.others}
        return partial(Translator.load, language=self.language, **choices), (self.engines.directory,)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[TranslationOptions]
    ) -> Translation: ...

    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> list[Translation]: ...

    def translate(
        self, texts: str | Iterable[str], **options: Unpack[TranslationOptions]
    ) -> Translation | list[Translation]:
        """Translate a text, or many in order; the options are those of `stream`."""
        known = TranslationOptions.__annotations__
        for name in options.keys() - known:
            raise TypeError(f"translate() got an unexpected keyword argument {name!r}{suggest(name, known)}")
        if isinstance(texts, str):
            (only,) = self.stream([texts], **options)
            return only
        return list(self.stream(texts, **options))

    def stream(
        self,
        texts: Iterable[str],
        *,
        search: Search | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        extra_length: int | None = None,
        max_length: int | None = None,
        min_length: int | None = None,
        no_repeat: int | None = None,
        sampling: Sampling | None = None,
        split: SplitMode = "auto",
        batch: int | None = None,
        reproducible: bool = False,
        alignment: bool = False,
        attention: bool = False,
        prefix: str | Iterable[str] | None = None,
        trees: Tree | Iterable[Tree] | TreeAligner | None = None,
        to: str | Sequence[str] | None = None,
        require: str | Sequence[str | Sequence[str]] = (),
        avoid: str | Sequence[str] = (),
        terms: Terms | Entries | None = None,
        constraints: Sequence[Constraints | None] | None = None,
        stop: StopFlag | None = None,
    ) -> Iterator[Translation]:
        """Translate texts one by one, in order and with bounded memory: windows of them are read ahead and sorted.

        While one window is searched in a thread, the one before it is returned, and the one after it is read.

        `search` and the fields of `Search` (`beam` to `sampling`) set the search; `n_best` alone widens the beam.
        Line breaks and indentation are kept. `split`: "auto" splits lines into sentences, and joins neighboring ones as
        far as the model was trained on such lines; "sentences" never joins, "never" never splits. `batch` is the number
        of sentences at a time (default: the engine's choice); `reproducible` translates each sentence alone.
        `alignment` and `attention` add them to the results.

        `prefix` is the beginning of a translation: one for all texts, or one for each. `to` is the target language of a
        multilingual model: one for all texts, or one for each. `trees` are for models that read them, one for each
        text that is not empty; as `TreeAligner`, more than needed may be given.

        `require` are phrases that every translation must contain (a list among them is a choice of alternatives),
        `avoid` are phrases that none may contain, `terms` map source phrases to phrases that their translation must
        contain, and `constraints` has a `Constraints` for each text. Phrases that could not be placed are in the
        `unmet` of the translation.

        Another thread may set `stop` to interrupt a search between two steps: SearchInterruptedError is raised here.
        """
        check_texts(texts)
        request = TranslationRequest(
            limit_length(
                resolve_search(
                    search=search,
                    beam=beam,
                    length_penalty=length_penalty,
                    n_best=n_best,
                    extra_length=extra_length,
                    max_length=max_length,
                    min_length=min_length,
                    no_repeat=no_repeat,
                    sampling=sampling,
                ),
                self.longest_output,
            ),
            split=split,
            batch=batch,
            reproducible=reproducible,
            alignment=alignment,
            attention=attention,
            prefix=parse_strings("prefix", prefix),
            trees=self.parse_trees(trees),
            to=self.resolve_target(to),
            constraints=parse_constraints(require, avoid, terms, constraints),
            stop=stop,
        )
        if alignment or attention:
            self._check_attention()
        if isinstance(texts, Sized):
            request.check_counts(len(texts))
        if request.constraints is not None:
            self.engines.spec_for(EngineRequest(request.search, request.prefix is not None, constraints=True))
            request.constraints.check(request.search)
        found = translate_stream(self, texts, request)
        if request.trees is None or request.trees is trees:
            return found
        return with_all_trees_used(found, request.trees)

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages of a multilingual model."""
        return self.source.targets

    def resolve_target(self, to: str | Sequence[str] | None) -> str | list[str] | None:
        """The target languages of a call; None if the model has only one. Raise if it does not have them."""
        return resolve_target(self.targets, to, lambda: read_info(self.engines.directory).target_languages)

    def parse_trees(self, trees: Tree | Iterable[Tree] | TreeAligner | None) -> TreeAligner | None:
        """The trees of a call, taken one by one; raise if this model needs them, or does not read them."""
        return parse_trees(self.tree_model, trees) if self.reads_trees or trees is not None else None

    @property
    def running(self) -> EngineInfo:
        """The engine that translates with default options, its precision, device and threads."""
        return self.running_for()

    def running_for(
        self,
        *,
        prefix: str | Iterable[str] | None = None,
        constraints: bool = False,
        alignment: bool = False,
        attention: bool = False,
        **options: Unpack[SearchOptions],
    ) -> EngineInfo:
        """The engine that translates with these options of `stream`; it is loaded now, if it is not yet.

        With `constraints`, the engine for texts that have required or avoided phrases.
        """
        if alignment or attention:
            self._check_attention()
        search = limit_length(resolve_search(**options), self.longest_output)
        return self.engines.info(EngineRequest(search, prefix is not None, constraints))

    @cached_property
    def alignment_head(self) -> AlignmentHead:
        """The attention head that was trained to align words, or the one that does it best, found on first use."""
        self._check_attention()
        from dragoman.translation.alignment_head import AlignmentHead, find_alignment_head

        if (guided := guided_head(self.recipe)) is not None:
            return AlignmentHead(*guided, "reads")
        return find_alignment_head(self.engines.forced(), self.source)

    @cached_property
    def alignment_attention(self) -> AlignmentAttention:
        """The attention by which words are aligned: that of the alignment head, and with a guided one of others too."""
        from dragoman.translation.alignment_head import AlignmentAttention, AlignmentHead

        head, last = self.alignment_head, self.recipe.model.decoder_layers - 1
        mixed = guided_head(self.recipe) is not None and head.layer < last
        return AlignmentAttention(head, AlignmentHead(last, None, "writes") if mixed else None)

    @cached_property
    def constraint_compiler(self) -> ConstraintCompiler:
        """The compiler of lexical constraints for this model's vocabulary."""
        from dragoman.search.constraints.tables import ConstraintCompiler
        from dragoman.search.constraints.token_bytes import Spelling

        return ConstraintCompiler(Spelling(self.target))

    def encoded(
        self, texts: Sequence[str], trees: Tree | Iterable[Tree] | None = None, to: str | Sequence[str] | None = None
    ) -> list[Ids]:
        """The source ids of each text, unsplit, with language tokens, and with depths if the model reads trees."""
        taken = self.parse_trees(trees)
        rows, error = encode_sources(self, texts, taken, self.resolve_target(to))
        if error is not None:
            raise error
        if taken is not None:
            taken.check_finished()
        return rows

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        length_penalty: float = 0.6,
        trees: Tree | Iterable[Tree] | None = None,
        batch: int | None = None,
        to: str | Sequence[str] | None = None,
    ) -> list[Scored]:
        """The log-probability of each target text given its source text; the options are those of `stream_scores`."""
        return list(self.stream_scores(pairs, length_penalty=length_penalty, trees=trees, batch=batch, to=to))

    def stream_scores(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        length_penalty: float = 0.6,
        trees: Tree | Iterable[Tree] | TreeAligner | None = None,
        batch: int | None = None,
        before: int = 0,
        to: str | Sequence[str] | None = None,
    ) -> Iterator[Scored]:
        """Score pairs (source, target) in order, with bounded memory; in float32 by default.

        `to` is the target language of a multilingual model: one for all pairs, or one for each. `batch` is the number
        of pairs at a time; with 1, scores are bit-identical and independent of the other pairs. Nothing is split or
        truncated: an error names the number of a pair that is too long for the model, plus `before` from earlier calls.
        """
        from dragoman.translation.scoring import score_pairs

        taken, search = self.parse_trees(trees), Search(length_penalty=length_penalty)
        batch = None if batch is None else check_integer("batch", batch, 1)
        languages, before = self.resolve_target(to), check_integer("before", before, 0)
        found = score_pairs(self, pairs, search, taken, batch, before, languages)
        return found if taken is None or taken is trees else with_all_trees_used(found, taken)

    def _check_attention(self) -> None:
        if self.engines.others:
            message = "an ensemble has no attention or alignment; load one of its models alone"
            raise SearchError(message, code="unsupported_ensemble")
        check_has_attention(self.recipe.model)
