"""The streaming pipeline: windows of texts, parts of texts, batches of sentences, search, assembly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from dragoman.engines.base import Engine, EngineRequest
from dragoman.engines.forced import attention_layer, select_head
from dragoman.errors import DragomanError, SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import TYPICAL_TOKENS, WINDOW_BATCHES, WINDOW_CHARACTERS, Hypothesis, RecordedHead, Search
from dragoman.text.trees.dependency import TreeAligner
from dragoman.text.trees.token_depths import attach_depths
from dragoman.translation.options import SplitMode, TranslationRequest
from dragoman.translation.result import Assembly, Translation
from dragoman.translation.segmentation import Ids, Layout, LineLayout, split_tokens
from dragoman.translation.source_ids import depths_of_texts, language_tokens
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import ConstraintTables
    from dragoman.translation.translator import Translator

UNCONSTRAINED: Final = Constraints()
MAX_WIDENINGS: Final = 2  # times that the beam is doubled to fill up an n-best list
T = TypeVar("T")
Maps = dict[tuple[Ids, Ids], Any]  # by source and output


class SentenceJob(NamedTuple):
    """A segment to translate, the forced prefix of its translation, and its lexical constraints.

    `n_parts` is the number of segments of its text where limits of length are shared among them, else 1.
    """

    source: Ids
    prefix: Ids
    constraints: Constraints
    n_parts: int = 1


class TextJobs(NamedTuple):
    """The segments of a text, and their layout."""

    layout: Layout
    segments: list[SentenceJob]


def windows(texts: Iterable[str], max_texts: int) -> Iterator[list[str]]:
    """Lists of at most `max_texts` texts, with a bounded total size."""
    window: list[str] = []
    size = 0
    for text in texts:
        if not isinstance(text, str):
            yield window  # the texts before it are translated first
            raise SearchError(f"a text to translate must be a str; got {describe_value(text)}", code="wrong_type")
        window.append(text)
        size += len(text)
        if len(window) == max_texts or size > WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window


def batches(jobs: Sequence[SentenceJob], batch: int) -> Iterator[Sequence[SentenceJob]]:
    """Jobs, longest first, in groups of at most `batch` sentences of typical length, or fewer that are longer."""
    start = 0
    while start < len(jobs):
        length = max(1, len(jobs[start].source))
        size = max(1, min(batch, batch * TYPICAL_TOKENS // length))
        yield jobs[start : start + size]
        start += size


def translate_stream(
    translator: Translator, texts: Iterable[str], request: TranslationRequest
) -> Iterator[Translation]:
    """Translate texts in order; the engine is loaded when the first translation is taken."""
    yield from Pipeline(translator, request).run(texts)


class Pipeline:
    """Translate a stream of texts for one request, in order and with bounded memory."""

    def __init__(self, translator: Translator, request: TranslationRequest) -> None:
        self.translator, self.request = translator, request
        self.engine = translator.engines.for_request(EngineRequest(request.search, request.prefix is not None))
        self.batch = request.batch or self.engine.batch
        self.tables: dict[Constraints, ConstraintTables] = {}  # of the sentences of a window

    def run(self, texts: Iterable[str]) -> Iterator[Translation]:
        """The translation of each text; texts before an invalid one are translated before the error is raised."""
        request, done = self.request, 0
        limit = min(map(len, request.per_text.values()), default=None)
        for window in windows(texts, self.batch * WINDOW_BATCHES):
            self.tables.clear()
            jobs, error = self._jobs(window if limit is None else window[: limit - done], done)
            yield from self._translate(jobs)
            if error is not None:
                raise error
            done += len(window)
            request.check_counts(done, finished=False)
        request.check_counts(done)

    def _jobs(self, window: list[str], first: int) -> tuple[list[TextJobs], DragomanError | None]:
        """The segments of each text up to the first invalid one, and its error."""
        translator, request = self.translator, self.request
        prefixes = self._prefixes(first, len(window))
        error = None
        if request.trees is None:
            layouts, parts = self._segments(window, first)
        else:
            depths, error = depths_of_texts(window, request.trees)
            window = window[: len(depths)]
            layouts, parts = self._tree_segments(window, depths)
        if translator.n_language_tokens:
            before = language_tokens(translator.source, request.to, first, len(window))
            parts = [[(*token, *ids) for ids in of_text] for token, of_text in zip(before, parts, strict=True)]
        jobs: list[TextJobs] = []
        for i, text in enumerate(window):
            try:
                self._check_length(text, parts[i], prefixes[i])
                jobs.append(TextJobs(layouts[i], self._constrain(first + i, parts[i], prefixes[i])))
            except DragomanError as wrong:
                return jobs, wrong
        return jobs, error

    def _segments(self, window: Sequence[str], first: int) -> tuple[list[Layout], list[list[Ids]]]:
        """The layout and the segments of each text; a line with a required phrase stays whole if it can."""
        segmenter, split, constraints = self.translator.segmenter, self.request.split, self.request.constraints
        if split != "auto" or constraints is None:
            return segmenter.encode(*segmenter.split_texts(window, split), split)
        modes: list[SplitMode] = ["never" if constraints.requires_in(first + i) else "auto" for i in range(len(window))]
        found: dict[int, tuple[Layout, list[Ids]]] = {}
        for mode in set(modes):  # all texts of a mode in one call
            chosen = [i for i, own in enumerate(modes) if own == mode]
            encoded = segmenter.encode(*segmenter.split_texts([window[i] for i in chosen], mode), split)
            found.update(zip(chosen, zip(*encoded, strict=True), strict=True))
        return [found[i][0] for i in range(len(window))], [found[i][1] for i in range(len(window))]

    def _tree_segments(self, window: Sequence[str], depths: Sequence[bytes]) -> tuple[list[Layout], list[list[Ids]]]:
        """The same for texts with trees: a tree covers the whole text, which is split only if it is too long."""
        tokenizer, limit = self.translator.source, self.translator.longest
        layouts: list[Layout] = []
        found: list[list[Ids]] = []
        for ids, deep in zip(tokenizer.encode_many(window), depths, strict=True):
            parts = [ids] if self.request.split == "never" else split_tokens(ids, tokenizer, limit)
            found.append([*attach_depths(ids, tokenizer, deep).parts(map(len, parts) if ids else ())])
            layouts.append(Layout((LineLayout("", len(found[-1]), ""),)))
        return layouts, found

    def _prefixes(self, first: int, count: int) -> Sequence[Ids]:
        """The forced prefix of each text from number `first` on."""
        prefix = self.request.prefix
        if prefix is None:
            return [()] * count
        chosen = [prefix] * count if isinstance(prefix, str) else prefix[first : first + count]
        return [*map(tuple, self.translator.target.encode_many(chosen))]

    def _check_length(self, text: str, parts: Sequence[Ids], prefix: Ids) -> None:
        """Raise if the model has no positions for a text or its prefix."""
        translator = self.translator
        for what, ids, limit, advice in (
            *(("it", ids, translator.longest_source, "split it, for example with split='auto'") for ids in parts),
            ("its prefix", prefix, translator.longest_output, "use a shorter one"),
        ):
            if limit is not None and len(ids) > limit:
                raise SearchError(
                    f"{describe_value(text).removeprefix('str ')}: {what} has {len(ids)} tokens, but this model has "
                    f"learned positions for {limit}; {advice}",
                    code="text_too_long",
                )

    def _constrain(self, index: int, parts: Sequence[Ids], prefix: Ids) -> list[SentenceJob]:
        """The jobs of a text, with the constraints of each; raise if this model cannot write them."""
        translator, constraints = self.translator, [UNCONSTRAINED] * len(parts)
        if self.request.constraints is not None:
            n = translator.n_language_tokens
            constraints = self.request.constraints.for_parts(index, [translator.source.decode(p[n:]) for p in parts])
            for one in filter(None, constraints):
                self.tables[one] = translator.constraint_compiler.compile(one)
        prefixes = [prefix if i == 0 else () for i in range(len(parts))]  # a prefix is of the first part
        search = self.request.search
        n_parts = len(parts) if search.for_part(len(parts)) != search else 1
        return [SentenceJob(*job, n_parts) for job in zip(parts, prefixes, constraints, strict=False)]

    def _translate(self, texts: list[TextJobs]) -> list[Translation]:
        """The translations of texts; equal segments are translated once."""
        request, translator = self.request, self.translator
        jobs = sorted({job for text in texts for job in text.segments}, key=lambda job: (-len(job.source), job))
        constrained = [] if request.constraints is None else [job for job in jobs if job.constraints]
        free = [job for job in jobs if not job.constraints] if constrained else jobs
        found = self._search(free, self.engine)
        if constrained:
            asked = EngineRequest(request.search, request.prefix is not None, constraints=True)
            found |= self._search(constrained, translator.engines.for_request(asked))
        attention, alignment = self._attention(found)
        assembly = Assembly(
            translator.source,
            translator.target,
            request.search,
            attention,
            alignment,
            translator.n_language_tokens,
            translator.lengths,
        )
        return [
            assembly.translation(layout, [(job.source, found[job], job.constraints) for job in segments])
            for layout, segments in texts
        ]

    @cached_property
    def recorded(self) -> list[RecordedHead]:
        """The cross-attention that the request needs: for its attention, then for its alignment."""
        found: list[RecordedHead] = []
        if self.request.attention:
            found.append(RecordedHead(attention_layer(self.translator.engines.recipe.decoder_layers), None))
        if self.request.alignment:
            found.append(RecordedHead(self.translator.alignment_head.layer, self.translator.alignment_head.head))
        return found

    def _attention(self, found: Mapping[SentenceJob, list[Hypothesis]]) -> tuple[Maps | None, Maps | None]:
        """The attention and the alignment weights of each hypothesis, if requested.

        They come from the search, or from one forced pass for the hypotheses of engines that record none.
        """
        request = self.request
        attention: Maps | None = {} if request.attention else None
        alignment: Maps | None = {} if request.alignment else None
        if not self.recorded:
            return None, None

        def add(pair: tuple[Ids, Ids], maps: Sequence[Any]) -> None:
            if attention is not None:
                attention[pair] = maps[0][:-1, :-1].copy()
            if alignment is not None:
                alignment[pair] = self.translator.alignment_head.rows(maps[-1]).copy()

        missing: set[tuple[Ids, Ids]] = set()
        for job, hypotheses in found.items():
            for one in hypotheses:
                if one.maps is None:
                    missing.add((job.source, tuple(one.ids)))
                else:
                    add((job.source, tuple(one.ids)), one.maps)
        pairs = sorted(missing)
        for i, weights in self.translator.engines.forced().cross_maps(pairs) if pairs else ():
            if request.stop is not None:
                request.stop.check()
            add(pairs[i], [select_head(weights, head) for head in self.recorded])
        return attention, alignment

    def _search(self, jobs: Sequence[SentenceJob], engine: Engine) -> dict[SentenceJob, list[Hypothesis]]:
        """The hypotheses of each job, best first, no two with the same text.

        The best of several hypotheses with the same text is kept. If too few texts are left for the n-best list, a
        wider beam fills it up.
        """
        search = self.request.search
        if search.n_best == 1 or search.sampling is not None:
            return self._batches(jobs, engine, search)
        found = self._batches(jobs, engine, replace(search, n_best=search.beam))
        distinct = {job: self._distinct(hypotheses) for job, hypotheses in found.items()}
        for _ in range(MAX_WIDENINGS):
            beam = min(2 * search.beam, engine.capabilities.max_beam, self.translator.target.vocabulary_size)
            short = [job for job in jobs if len(distinct[job]) < search.n_best]
            if not short or beam == search.beam:
                break
            search = replace(search, beam=beam)
            for job, more in self._batches(short, engine, replace(search, n_best=beam)).items():
                distinct[job] = self._distinct([*distinct[job], *more])
        return {job: hypotheses[: search.n_best] for job, hypotheses in distinct.items()}

    def _distinct(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The best hypothesis of each text, best first."""
        best: dict[str, Hypothesis] = {}
        for hypothesis in sorted(hypotheses, key=lambda one: -one.score):
            best.setdefault(self.translator.target.decode(hypothesis.ids).strip(), hypothesis)
        return [*best.values()]

    def _batches(
        self, jobs: Sequence[SentenceJob], engine: Engine, search: Search
    ) -> dict[SentenceJob, list[Hypothesis]]:
        """What an engine finds for each job, in batches of similar length."""
        request, found = self.request, dict[SentenceJob, list[Hypothesis]]()
        alone = request.reproducible and not engine.capabilities.batch_invariant
        size = 1 if alone else request.batch or engine.batch
        kinds = [[job for job in jobs if job.n_parts == n] for n in sorted({job.n_parts for job in jobs})]
        for group in (group for kind in kinds for group in batches(kind, size)):
            if request.stop is not None:
                request.stop.check()
            prefixes = [job.prefix for job in group] if request.prefix is not None else None
            tables = [self.tables[job.constraints] for job in group] if group[0].constraints else None
            shared = search.for_part(group[0].n_parts)
            hypotheses = engine.search(
                [job.source for job in group],
                shared,
                prefixes,
                tables,
                request.stop,
                self.recorded if engine.capabilities.records_attention else (),
            )
            found.update(zip(group, hypotheses, strict=True))
        return found


def with_all_trees_used(results: Iterator[T], trees: TreeAligner) -> Iterator[T]:
    """The results; raise at their end if trees are left over."""
    yield from results
    trees.check_finished()
