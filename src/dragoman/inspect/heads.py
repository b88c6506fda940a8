"""What each head of a translator does, and what it is worth, over a corpus of sentence pairs.

    found = survey(Translator.load("my-model", engine="torch"), sources, targets)
    for head in found.heads:
        print(head.place, head.label, head.worth)

What it does is counted over all that it looks at (Voita et al., 2019). What it is worth is the rise of the
cross-entropy when it is removed, or an estimate of that from one pass back (Michel et al., 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from dragoman.engines.forced_decoding import Pairs
from dragoman.errors import SearchError
from dragoman.inspect.attention_maps import Kind
from dragoman.inspect.gates import Gates, Place, batches
from dragoman.inspect.head_labels import Behavior, label
from dragoman.inspect.head_passes import (
    Point,
    curve_of,
    looked_at,
    removed_in_turn,
    slopes_of,
    translations,
)
from dragoman.models import Transformer
from dragoman.progress import Reporter, SilentReporter
from dragoman.text import Tree
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator

LONGEST: Final = 512  # tokens of a side: the weights of all heads take its square
# Weights times tokens times heads, up to which heads are removed one by one unasked: some three minutes on one core.
CHEAP: Final = 4e12

Score = Callable[[Sequence[str], Sequence[str]], float]


@dataclass(frozen=True)
class Head:
    """A head: which one, what it does, and what it is worth in nats of cross-entropy a target token.

    `removal` is the rise when this head alone is removed, None where it was not tried. `slope` is the estimate of it
    to first order: minus the derivative by the head's gate. `sensitivity` is Michel's: the derivative's absolute value,
    sentence by sentence. `does` is None where weights are no shares (low-rank attention).
    """

    place: Place
    does: Behavior | None
    label: str
    removal: float | None
    slope: float
    sensitivity: float
    points: bool = False  # this is the head from which word alignments are read

    @property
    def worth(self) -> float:
        """The exact figure where it is there, else Michel's."""
        return self.sensitivity if self.removal is None else self.removal


@dataclass(frozen=True)
class Survey:
    """All heads, encoder, decoder and cross, and what they were asked about."""

    heads: tuple[Head, ...]
    cross_entropy: float  # nats a target token, end marks counted
    sentences: int
    tokens: int  # target tokens and end marks
    left_out: int  # pairs that were empty on a side, or too long
    pointer: str
    curve: tuple[Point, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether heads were removed one by one."""
        return self.heads[0].removal is not None

    def agreement(self) -> dict[str, float]:
        """Spearman's correlation of both estimates with the exact figures over all heads; nothing without those."""
        exact = [head.removal for head in self.heads if head.removal is not None]
        if len(exact) < 3:
            return {}
        return {
            name: spearman(exact, [getattr(head, name) for head in self.heads]) for name in ("sensitivity", "slope")
        }

    def order(self) -> list[Place]:
        """The heads, the least worthy first."""
        return [head.place for head in sorted(self.heads, key=lambda head: head.worth)]

    def of_kind(self, kind: Kind) -> list[list[Head]]:
        """The heads of each layer of one use of attention."""
        here = [head for head in self.heads if head.place.kind == kind]
        return [[head for head in here if head.place.layer == n + 1] for n in range(max(h.place.layer for h in here))]

    def data(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        rows = [
            {
                **head.place._asdict(),
                "label": head.label,
                **{name: getattr(head, name) for name in ("worth", "removal", "slope", "sensitivity", "points")},
                "does": None if head.does is None else asdict(head.does),
            }
            for head in self.heads
        ]
        own = ("cross_entropy", "sentences", "tokens", "left_out", "pointer", "exact")
        told: dict[str, Any] = {name: getattr(self, name) for name in own}
        return {**told, "agreement": self.agreement(), "heads": rows, "curve": [asdict(point) for point in self.curve]}


def survey(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    trees: Iterable[Tree] | None = None,
    to: str | Sequence[str] | None = None,
    ablate: bool | None = None,
    curve: bool = False,
    bleu: Score | None = None,
    reporter: Reporter | None = None,
) -> Survey:
    """Ask every head about these sentence pairs.

    With `ablate` each head is removed in turn, which takes a pass for each; without a word, that is done where it takes
    a few minutes at most. With `curve` heads are removed together, the least worthy first; `bleu`, given translations
    and references, scores what the model then writes. `trees` and `to` as in `Translator.stream`.
    """
    model, reporter = transformer_of(translator), reporter if reporter is not None else SilentReporter()
    pairs, kept = pairs_of(translator, sources, targets, trees, to)
    gates, engine = Gates(model), translator.engines.torch
    few, many = list(batches(engine, pairs, few=True)), list(batches(engine, pairs))
    tokens = sum(len(target) + 1 for _, target in pairs)
    does, slopes = looked_at(translator, gates, few, reporter), slopes_of(gates, few, reporter)
    if ablate is None:
        passing = sum(len(source) + len(target) + 2 for source, target in pairs)
        ablate = model.parameter_count() * passing * len(gates.places) <= CHEAP
    removals = removed_in_turn(gates, many, reporter) if ablate else None
    pointer, first = (
        translator.alignment_head,
        "the language mark" if translator.n_language_tokens else "the first token",
    )
    pointing = head_of(pointer, model.recipe.n_heads)
    heads = tuple(
        Head(
            place,
            does[place],
            label(does[place], "the start mark" if place.kind == "decoder" else first),
            None if removals is None else float(removals[i]) / tokens,
            -float(slopes.signed[i]) / tokens,
            float(slopes.sizes[i]) / tokens,
            place == pointing,
        )
        for i, place in enumerate(gates.places)
    )
    found = Survey(heads, slopes.cost / tokens, len(pairs), tokens, len(sources) - len(pairs), str(pointer))
    if not (curve or bleu):
        return found
    references = [targets[i] for i in kept]
    score = None if bleu is None else lambda gates: bleu(translations(gates, translator, pairs), references)
    return replace(found, curve=curve_of(gates, found.order(), many, reporter, score))


def transformer_of(translator: Translator) -> Transformer:
    """Its model, if it has heads to compare."""
    if not isinstance(translator, Translator):
        raise SearchError(f"survey takes a Translator, such as Translator.load('my-model'); got {translator!r}")
    if translator.engines.others:
        raise SearchError("several models that translate together have heads of their own each; ask one of them alone")
    model = translator.engines.torch.model
    if not isinstance(model, Transformer):
        raise SearchError(
            f"a {translator.recipe.model.architecture} model has attention to the source alone, with one head, so that "
            "there are no heads to compare; `dragoman inspect attention` shows what it looks at"
        )
    return model


def pairs_of(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    trees: Iterable[Tree] | None,
    to: str | Sequence[str] | None,
) -> tuple[Pairs, list[int]]:
    """The tokens of the pairs that have something on both sides and are not too long, and their numbers."""
    if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
        raise SearchError("pairs come as two lists of as many sentences each, such as ['one'] and ['eins']")
    read, written = translator.encoded(list(sources), trees, to), translator.target.encode_many(list(targets))
    most = min(LONGEST, translator.longest_source or LONGEST, translator.longest_output or LONGEST)
    kept = [
        i
        for i, (source, target) in enumerate(zip(read, written, strict=True))
        if translator.n_language_tokens < len(source) <= most and 0 < len(target) <= most
    ]
    if not kept:
        raise SearchError(
            f"no pair to ask about: none of {len(read):,} has something on both sides and at most {most:,} tokens on "
            "each; give some hundreds of sentences with their translations"
        )
    return [(read[i], written[i]) for i in kept], kept


def head_of(pointer: AlignmentHead, heads: int) -> Place | None:
    """The head that points, if it is one: a mean is none, but of a single head."""
    if pointer.head is None and heads > 1:
        return None
    return Place("cross", pointer.layer + 1, (pointer.head or 0) + 1)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The correlation of ranks, those of equal values shared; 0 where one side has no order at all."""
    ranks = [ranked(np.asarray(values, dtype=np.float64)) for values in (one, other)]
    centered = [rank - rank.mean() for rank in ranks]
    size = float(np.sqrt((centered[0] ** 2).sum() * (centered[1] ** 2).sum()))
    return float(centered[0] @ centered[1]) / size if size else 0.0


def ranked(values: Any) -> Any:
    """The place of each value in their order; equal ones have the mean of theirs."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[group]
