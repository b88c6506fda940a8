"""Windows of texts: what is read ahead, split into segments, encoded, and sorted by length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.errors import DragomanError, SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import WINDOW_CHARACTERS
from dragoman.translation.options import SplitMode, TranslationRequest
from dragoman.translation.segmentation import Ids, Layout, LineLayout, split_tokens
from dragoman.translation.source_ids import depths_of_texts, language_tokens
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import ConstraintTables
    from dragoman.translation.translator import Translator

UNCONSTRAINED: Final = Constraints()


class SentenceJob(NamedTuple):
    """A segment to translate, the forced prefix of its translation, and its lexical constraints.

    `n_parts` is the number of segments of its text where limits of length are shared among them, else 1.
    """

    source: Ids
    prefix: Ids
    constraints: Constraints
    n_parts: int = 1


class TextWindow(NamedTuple):
    """Texts that are translated together: the layout and the job numbers of each, and distinct jobs, longest first.

    `tables` are the compiled constraints of the jobs.
    """

    layouts: list[Layout]
    segments: list[list[int]]
    jobs: list[SentenceJob]
    tables: dict[Constraints, ConstraintTables]


def split_windows(texts: Iterable[str], max_texts: int) -> Iterator[list[str]]:
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


def longest_first(jobs: Sequence[SentenceJob]) -> list[int]:
    """The numbers of jobs by the length of their source, those of equal length in a fixed order."""
    sources = [job.source for job in jobs]
    by_length: dict[int, list[int]] = {}  # many short sorts: one long sort would block the engine's thread
    for number, source in enumerate(sources):
        by_length.setdefault(len(source), []).append(number)
    key = (sources if len({*sources}) == len(sources) else jobs).__getitem__  # sources alone sort faster
    return [i for length in sorted(by_length, reverse=True) for i in sorted(by_length[length], key=key)]


class WindowBuilder:
    """Split and encode the texts of one request, `max_texts` at a time."""

    def __init__(self, translator: Translator, request: TranslationRequest, max_texts: int) -> None:
        self.translator, self.request, self.max_texts = translator, request, max_texts
        self.tables: dict[Constraints, ConstraintTables] = {}  # of the window that is built
        search, limits = request.search, (translator.longest_source, translator.longest_output)
        has_rules = request.prefix is not None or request.constraints is not None or limits != (None, None)
        self.plain = not has_rules and search.for_part(2) == search  # a job is no more than a source

    def build(self, blocks: Iterable[Iterable[str]]) -> Iterator[TextWindow | None]:
        """The windows of all blocks; None for an empty block."""
        request, done = self.request, 0
        limit = min(map(len, request.per_text.values()), default=None)
        for block in blocks:
            before = done
            for texts in split_windows(block, self.max_texts):
                self.tables = {}
                window, error = self._window(texts if limit is None else texts[: limit - done], done)
                yield window
                if error is not None:
                    raise error
                done += len(texts)
                request.check_counts(done, finished=False)
            if done == before:
                yield None
        request.check_counts(done)

    def _window(self, texts: list[str], first: int) -> tuple[TextWindow, DragomanError | None]:
        """The window of the texts up to the first invalid one, and its error."""
        translator, request = self.translator, self.request
        error: DragomanError | None = None
        if request.trees is None:
            layouts, parts = self._segments(texts, first)
        else:
            depths, error = depths_of_texts(texts, request.trees)
            texts = texts[: len(depths)]
            layouts, parts = self._tree_segments(texts, depths)
        if translator.n_language_tokens:
            before = language_tokens(translator.source, request.to, first, len(texts))
            parts = [[(*token, *ids) for ids in of_text] for token, of_text in zip(before, parts, strict=True)]
        if self.plain:
            numbers: dict[Ids, int] = {}  # equal segments are translated once
            segments = [[numbers.setdefault(source, len(numbers)) for source in of_text] for of_text in parts]
            jobs = [SentenceJob(source, (), UNCONSTRAINED) for source in numbers]
        else:
            jobs, segments, wrong = self._checked_jobs(texts, parts, first)
            error = wrong or error
        order = longest_first(jobs)
        ranks = [0] * len(order)
        for rank, number in enumerate(order):
            ranks[number] = rank
        segments = [[ranks[number] for number in of_text] for of_text in segments]
        return TextWindow(layouts[: len(segments)], segments, [jobs[number] for number in order], self.tables), error

    def _checked_jobs(
        self, texts: Sequence[str], parts: Sequence[Sequence[Ids]], first: int
    ) -> tuple[list[SentenceJob], list[list[int]], DragomanError | None]:
        """The distinct jobs, and their numbers for each text, up to the first invalid text; and its error."""
        numbers: dict[SentenceJob, int] = {}
        segments: list[list[int]] = []
        prefixes = self._prefixes(first, len(texts))
        for i, (text, prefix, of_text) in enumerate(zip(texts, prefixes, parts, strict=True)):
            try:
                self._check_length(text, of_text, prefix)
                jobs = self._jobs(first + i, of_text, prefix)
            except DragomanError as wrong:
                return [*numbers], segments, wrong
            segments.append([numbers.setdefault(job, len(numbers)) for job in jobs])
        return [*numbers], segments, None

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
        from dragoman.text.trees.token_depths import attach_depths  # few models read trees

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

    def _jobs(self, index: int, parts: Sequence[Ids], prefix: Ids) -> list[SentenceJob]:
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
