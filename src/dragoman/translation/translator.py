"""The public class: text in, translations out.

    translator = Translator.load("my-model")
    translator.translate("Good morning!").text
    for translation in translator.stream(open("book.txt")): ...

Importing this costs next to nothing: PyTorch is imported only where an engine needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from dragoman.config import Recipe
from dragoman.engines.select import Engines, Running
from dragoman.errors import SearchError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import RECIPE
from dragoman.modeldir.locate import find_ensemble, find_model
from dragoman.modeldir.tokenizers import load_tokenizers
from dragoman.modeldir.verify import verify_model_cached
from dragoman.search.constraints.phrases import Demands
from dragoman.search.constraints.terms import Entries, Terms
from dragoman.search.types import WINDOW_BATCHES, Engine, Hypothesis, Mean, Search, whole
from dragoman.text import Tokenizer, Tree
from dragoman.text.language_codes import language_of
from dragoman.text.trees.dependency import TreeAligner
from dragoman.text.trees.token_depths import parsed
from dragoman.translation.assembly import Assembly, Ids
from dragoman.translation.batches import Job, all_taken, groups, windows
from dragoman.translation.constraints import Wishes, demanded, searched
from dragoman.translation.length_limits import Reach
from dragoman.translation.options import Request, check_texts, pairs_of, prefixes_of, request
from dragoman.translation.result import Scored, Translation
from dragoman.translation.scoring import scored
from dragoman.translation.segmentation import encode_segments
from dragoman.translation.source_trees import laid_over, trees_for
from dragoman.translation.target_language import To, asked_for, heads
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import Planner
    from dragoman.translation.alignment_head import Pointer

NOTHING: Final = Demands()


class Translator:
    """A model that translates text. Results come in the order asked, and do not depend on how the work is grouped.

    To the last bit that holds for engines whose sums have a fixed order (`native`), and for every engine with
    `reproducible=True`, which translates each sentence alone; docs/translating.md has what that costs.
    """

    def __init__(
        self, engines: Engines, source: Tokenizer, target: Tokenizer, recipe: Recipe, others: Sequence[Recipe] = ()
    ) -> None:
        self.engines, self.source, self.target, self.recipe = engines, source, target, recipe
        reach = Reach.of([recipe, *others])
        self.longest_source, self.longest_output = reach.source, reach.output
        self.lead = 1 if source.targets else 0  # tokens before a source, which say its target language
        self.longest = max(1, reach.longest - self.lead)
        self.reader = reach.reader  # the model that says whether sentences come with trees
        self.language = "en"  # for the rules by which long text is split into sentences

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str = "auto",
        engine: str = "auto",
        threads: int | None = None,
        precision: str = "auto",
        language: str = "en",
        ensemble: str | Path | Iterable[str | Path] | None = None,
        mean: Mean = "probabilities",
    ) -> Translator:
        """The translator of a model directory, or of a model's name under `$DRAGOMAN_MODELS` or the data directory.

        `device` is "auto", "cpu", "cuda"...; `engine` is "auto", "native", "ctranslate2", "cuda" or "torch";
        `precision` is "auto" (int8 on a CPU where the engine has it), "int8", "bfloat16" or "float32". `language` is
        the source's code, by whose rules text that is too long is split into sentences.

        `ensemble` are models that translate together with the first: of any kind and size, but with the same
        tokenizers. At each step the search sees the `mean` of their "probabilities", or of their "log-probabilities".
        """
        code, directory = language_of(language), find_model(model)
        verify_model_cached(directory)
        others = find_ensemble(directory, ensemble)
        recipe, *more = (Recipe.load(place / RECIPE) for place in (directory, *others))
        # absolute: an engine is loaded when it is needed, and the program may be elsewhere by then
        first, *beside = (place.absolute() for place in (directory, *others))
        engines = Engines(first, device, engine, threads, precision, beside, mean)
        translator = cls(engines, *load_tokenizers(directory), recipe, more)
        translator.language = code
        return translator

    def __repr__(self) -> str:
        chosen = self.engines
        more = f", ensemble={[str(other) for other in chosen.others]!r}" if chosen.others else ""
        return f"Translator({str(chosen.directory)!r}, engine={chosen.chosen!r}, device={chosen.device!r}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same model again, with the same choices: engines cannot be sent there."""
        chosen = {name: getattr(self.engines, name) for name in ("device", "threads", "precision", "mean")}
        chosen |= {"engine": self.engines.chosen, "ensemble": self.engines.others}
        again = partial(Translator.load, language=self.language, **chosen)
        return again, (self.engines.directory,)

    @overload
    def translate(self, texts: str, **settings: Any) -> Translation: ...

    @overload
    def translate(self, texts: Iterable[str], **settings: Any) -> list[Translation]: ...

    def translate(self, texts: str | Iterable[str], **settings: Any) -> Translation | list[Translation]:
        """The translation of a text, or those of many in their order; `settings` as in `stream`."""
        if isinstance(texts, str):
            (only,) = self.stream([texts], **settings)
            return only
        return list(self.stream(texts, **settings))

    def stream(
        self,
        texts: Iterable[str],
        *,
        prefix: str | Sequence[str] | None = None,
        trees: Tree | Iterable[Tree] | TreeAligner | None = None,
        to: To = None,
        require: str | Sequence[str | Sequence[str]] = (),
        avoid: str | Sequence[str] = (),
        terms: Terms | Entries | None = None,
        demands: Sequence[Demands | None] | None = None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """The translation of each text, in order, with bounded memory: a window of them is read ahead and sorted.

        `require` are phrases that every translation must contain (one that is a list is a choice of which one will
        do), `avoid` are phrases that none may, `terms` map phrases of a source to what its translation must contain,
        and `demands` has a `Demands` for each text. What could not be met is the `unmet` of the translation.
        `prefix` is what a translation must begin with: one for all, or one for each text. `to` is the language to
        translate into, for a model of several: one for all, or one for each text. `trees` are for models that
        read them, one for each text that is not empty, in order; more are refused, unless they come as `Trees`, of
        which as many are taken as are needed. `settings` are the fields of `Search` (`beam`, `length_penalty`,
        `n_best`, `sampling`, ...) or a `search`, and: `batch` (sentences at a time; the engine's own choice without
        it), `split` ("long": text longer than the model was trained for is split into sentences; "sentences": all text
        is; "never"), `reproducible` (each sentence alone), `alignment` and `attention` (have them in the result).
        """
        check_texts(texts)
        asked, begins, grown = self._asked(settings), prefixes_of(prefix), trees_for(self.reader, trees)
        if grown is not None and asked.split == "sentences":
            raise SearchError("split 'sentences' cannot be: a tree belongs to a whole line; give a line a sentence")
        if isinstance(begins, list) and isinstance(texts, Sized) and len(texts) != len(begins):
            raise SearchError(f"{len(begins)} prefixes came for {len(texts)} texts; give one for each, or one for all")
        into = self.asked_for(to)
        if isinstance(into, list) and isinstance(texts, Sized) and len(texts) != len(into):
            raise SearchError(f"{len(into)} languages came for {len(texts)} texts; give one for each, or one for all")
        wishes = Wishes.of(require, avoid, terms, demands)
        if wishes is not None:
            wishes.check(self.engines, asked.search, begins is not None, texts)
        found = self._stream(texts, begins, asked, grown, into, wishes)
        return found if grown is None or grown is trees else all_taken(found, grown)

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that this model translates into, where they are several."""
        return self.source.targets

    def asked_for(self, to: To) -> str | list[str] | None:
        """The target languages of a call, refused where this model does not have them; None where it has but one."""
        return asked_for(self.targets, to, lambda: read_info(self.engines.directory).target_languages)

    @property
    def running(self) -> Running:
        """What translates with the usual settings: the engine, its precision, the device and the threads."""
        return self.running_for()

    def running_for(
        self, *, prefix: str | Sequence[str] | None = None, demands: bool = False, **settings: Any
    ) -> Running:
        """What translates with these settings, as `stream` takes them; it is loaded now, if it is not yet.

        With `demands`, what translates the texts of which anything is required or avoided.
        """
        return self.engines.running(self._asked(settings).search, prefix is not None, demands)

    @cached_property
    def pointer(self) -> Pointer:
        """The head of this model that aligns words, found when it is first asked for."""
        self._refuse_attention()
        from dragoman.translation.alignment_head import find_pointer

        return find_pointer(self.engines.torch, self.source, self.target)

    def encoded(self, texts: Sequence[str], trees: Tree | Iterable[Tree] | None = None, to: To = None) -> list[Ids]:
        """The tokens of each text as a whole, with their places in its tree where the model reads trees.

        Those of a model of several target languages begin with that of the one that is asked for.
        """
        grown, rows = trees_for(self.reader, trees), self.source.encode_many(texts)
        before = heads(self.source, self.asked_for(to), 0, len(rows))
        if grown is None:
            return [(*head, *ids) for head, ids in zip(before, rows, strict=True)]
        laid, wrong = laid_over(texts, grown)
        if wrong is not None:
            raise wrong
        grown.check_finished()
        return [parsed(ids, self.source, deep) for ids, deep in zip(rows, laid, strict=True)]

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        length_penalty: float = 0.6,
        trees: Tree | Iterable[Tree] | None = None,
        batch: int | None = None,
        to: To = None,
    ) -> list[Scored]:
        """How likely the model finds each target text, given the source text of the pair, and its tree if need be.

        `to` is the language of all targets, or of each, for a model of several.
        """
        return list(self.stream_scores(pairs, length_penalty=length_penalty, trees=trees, batch=batch, to=to))

    def stream_scores(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        length_penalty: float = 0.6,
        trees: Tree | Iterable[Tree] | TreeAligner | None = None,
        batch: int | None = None,
        before: int = 0,
        to: To = None,
    ) -> Iterator[Scored]:
        """The same for any number of pairs, in order, with bounded memory. PyTorch does it, whatever the engine.

        `batch` is how many are scored at a time; one at a time, a score is the same to the last bit in any company.
        Nothing is split or cut: a pair for which the model has no positions is refused, with its number, to which
        `before` is added, as for pairs that came in calls before this one.
        """
        grown, search = trees_for(self.reader, trees), Search(length_penalty=length_penalty)
        batch = None if batch is None else whole("batch", batch, 1)
        into, before = self.asked_for(to), whole("before", before, 0)
        found = scored(self, pairs_of(pairs), search, grown, batch, before, into)
        return found if grown is None or grown is trees else all_taken(found, grown)

    def _asked(self, settings: dict[str, Any]) -> Request:
        """What a call asks for, within what this model's positions allow."""
        asked, longest = request(**settings), self.longest_output
        if asked.alignment or asked.attention:
            self._refuse_attention()
        if longest is None or (asked.search.max_length is not None and asked.search.max_length <= longest):
            return asked
        if asked.search.min_length > longest:
            raise SearchError(
                f"min_length={asked.search.min_length} cannot be: this model has learned positions for {longest} tokens"
            )
        return replace(asked, search=replace(asked.search, max_length=longest))

    @cached_property
    def planner(self) -> Planner:
        """What makes tables of demands, for the tokens of this model."""
        from dragoman.search.constraints.tables import Planner
        from dragoman.search.constraints.token_bytes import Spelling

        return Planner(Spelling(self.target))

    def _refuse_attention(self) -> None:
        if self.engines.others:
            raise SearchError(
                "several models that translate together have no attention of their own, and no alignment; ask one of "
                "them alone, with the translation given, as `dragoman inspect` does with --target"
            )

    def _stream(
        self,
        texts: Iterable[str],
        prefix: str | list[str] | None,
        asked: Request,
        trees: TreeAligner | None,
        to: str | list[str] | None,
        wishes: Wishes | None,
    ) -> Iterator[Translation]:
        engine = self.engines.for_search(asked.search, prefix is not None)
        batch: int = asked.batch or getattr(engine, "batch", 0) or 64
        done = 0
        for window in windows(texts, batch * WINDOW_BATCHES):
            begins: list[str] | None = None
            if prefix is not None:
                begins = [prefix] * len(window) if isinstance(prefix, str) else prefix[done : done + len(window)]
                if len(begins) != len(window):
                    raise SearchError(f"there are more texts than the {len(prefix)} prefixes; give one for each")
            laid, wrong = None, None
            if trees is not None:
                laid, wrong = laid_over(window, trees)
                window, begins = window[: len(laid)], begins and begins[: len(laid)]  # those before a wrong one
            parts = encode_segments(window, self.source, self.longest, self.language, asked.split, laid)
            if self.lead:
                before = heads(self.source, to, done, len(window))
                parts = [[(*head, *ids) for ids in of_text] for head, of_text in zip(before, parts, strict=True)]
            forced = self.target.encode_many(begins) if begins is not None else [[] for _ in window]
            fit = next((i for i in range(len(window)) if self._too_long(parts[i], forced[i])), len(window))
            jobs: list[list[Job]] = [
                [(ids, tuple(forced[i]) if number == 0 else (), NOTHING) for number, ids in enumerate(parts[i])]
                for i in range(fit)
            ]
            refused = None
            if wishes is not None:
                jobs, refused = demanded(jobs, wishes, done, self._read, self.planner)
            yield from self._window(jobs, prefix is not None, engine, batch, asked)
            if refused is not None:
                raise refused
            if fit < len(window):
                raise SearchError(
                    f"{describe_value(window[fit]).removeprefix('str ')}: {self._too_long(parts[fit], forced[fit])}"
                )
            if wrong is not None:
                raise wrong
            done += len(window)
        if prefix is not None and not isinstance(prefix, str) and len(prefix) > done:
            raise SearchError(f"there are {len(prefix)} prefixes, but only {done} texts; give one for each")
        if wishes is not None:
            wishes.refuse_more(done)
        if isinstance(to, list) and len(to) > done:
            raise SearchError(f"there are {len(to)} languages in to, but only {done} texts; give one for each")

    def _read(self, ids: Ids) -> str:
        """The text of a source's tokens."""
        return self.source.decode(ids[self.lead :])

    def _too_long(self, parts: list[Ids], prefix: list[int]) -> str:
        """Why there are no positions for a text or its prefix; nothing where there are, or where they do not end."""
        for what, ids, most, advice in (
            *(("it", ids, self.longest_source, "leave it to be split, as by split 'long'") for ids in parts),
            ("its prefix", prefix, self.longest_output, "use a shorter one"),
        ):
            if most is not None and len(ids) > most:
                return f"{what} has {len(ids)} tokens, but this model has learned positions for {most}; {advice}"
        return ""

    def _window(
        self, jobs: list[list[Job]], prefixed: bool, engine: Engine, batch: int, asked: Request
    ) -> list[Translation]:
        """The translations of some texts, each in its parts, each part translated once however often it comes."""
        todo = sorted({job for of_text in jobs for job in of_text}, key=lambda job: (-len(job[0]), job))
        found: dict[Job, list[Hypothesis]] = {}
        free, bound = [job for job in todo if not job[2]], [job for job in todo if job[2]]
        alone = asked.reproducible and not getattr(engine, "independent", False)
        for group in groups(free, 1 if alone else batch):
            prefixes = [prefix for _, prefix, _ in group] if prefixed else None
            hypotheses = engine.search([ids for ids, _, _ in group], asked.search, prefixes)
            found.update(zip(group, hypotheses, strict=True))
        if bound:
            self.engines.for_search(asked.search, prefixed, demands=True)  # refused where it is not to be had
            size = 1 if asked.reproducible else asked.batch or self.engines.torch.batch
            found |= searched(self.engines.torch, bound, asked.search, size, prefixed, self.planner)
        looked: dict[tuple[Ids, Ids], Any] | None = None
        aligning: dict[tuple[Ids, Ids], Any] | None = None
        if asked.alignment or asked.attention:
            from dragoman.engines.forced_decoding import cross_maps, mean_attention

            pairs = sorted({(ids, tuple(h.tokens)) for (ids, _, _), best in found.items() for h in best})
            looked, aligning = ({} if asked.attention else None), ({} if asked.alignment else None)
            for i, weights in cross_maps(self.engines.torch, pairs):  # one forced pass for both
                if looked is not None:
                    looked[pairs[i]] = mean_attention(weights)
                if aligning is not None:
                    aligning[pairs[i]] = self.pointer.of(weights).copy()
        assembly = Assembly(self.source, self.target, asked.search, looked, aligning, self.lead)
        return [
            assembly.translation([(job[0], found[job]) for job in of_text], [demands for _, _, demands in of_text])
            for of_text in jobs
        ]
