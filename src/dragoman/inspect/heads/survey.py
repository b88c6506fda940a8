"""What each head of a translator does, and how important it is, over a corpus of sentence pairs.

    survey = survey_heads(Translator.load("my-model", engine="torch"), sources, targets)
    for head in survey.heads:
        print(head.id, head.label, head.importance)

Statistics cover everything that a head attends to (Voita et al., 2019). The importance is the increase in cross-entropy
when the head is removed, or an estimate from one backward pass (Michel et al., 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from dragoman.engines.base import check_has_attention
from dragoman.engines.forced import AttentionKind, EncodedPairs
from dragoman.engines.torch_forced import forced_batches, small_batch
from dragoman.errors import SearchError
from dragoman.inspect.alignment import Texts, encode_pairs
from dragoman.inspect.heads import passes
from dragoman.inspect.heads.gates import GatedModel, HeadId
from dragoman.inspect.heads.passes import PruningPoint, translate_greedily
from dragoman.inspect.heads.statistics import HeadStatistics, label_head
from dragoman.models import Transformer
from dragoman.progress import Reporter, SilentReporter
from dragoman.text.trees.dependency import Tree
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator
from dragoman.values import plural

MAX_SENTENCE_TOKENS: Final = 512  # tokens per sentence: the weights of all heads grow with its square
# Heads are ablated by default up to this product of parameters, tokens and heads: about three minutes on one core.
MAX_DEFAULT_ABLATION: Final = 4e12

ScoreTexts = Callable[[Sequence[str], Sequence[str]], float]


@dataclass(frozen=True)
class HeadReport:
    """A head, its statistics, and its importance in nats of cross-entropy per target token.

    `ablation` is the increase when only this head is removed, or None. `gradient` is its first-order estimate:
    minus the derivative with respect to the head's gate. `sensitivity` is Michel's: the mean absolute value of the
    derivative over sentences. `statistics` is None if weights are not a distribution (low-rank attention).
    """

    id: HeadId
    statistics: HeadStatistics | None
    label: str
    ablation: float | None
    gradient: float
    sensitivity: float
    alignment_head: bool = False  # word alignments are read from this head

    @property
    def importance(self) -> float:
        """The ablation if it was measured, else the sensitivity."""
        return self.sensitivity if self.ablation is None else self.ablation


@dataclass(frozen=True)
class HeadSurvey:
    """All heads, encoder, decoder and cross, over a corpus."""

    heads: tuple[HeadReport, ...]
    cross_entropy: float  # nats per target token, EOS tokens included
    sentences: int
    tokens: int  # target tokens and EOS tokens
    skipped_pairs: int  # pairs with an empty side, or too long
    alignment_head: str
    curve: tuple[PruningPoint, ...] = ()

    @property
    def ablated(self) -> bool:
        """Whether heads were removed one by one."""
        return self.heads[0].ablation is not None

    def rank_correlations(self) -> dict[str, float]:
        """Spearman's correlation of both estimates with the ablation, over all heads; empty without ablation."""
        exact = [head.ablation for head in self.heads if head.ablation is not None]
        if len(exact) < 3:
            return {}
        return {
            name: spearman(exact, [getattr(head, name) for head in self.heads]) for name in ("sensitivity", "gradient")
        }

    def by_importance(self) -> list[HeadId]:
        """The heads, the least important first."""
        return [head.id for head in sorted(self.heads, key=lambda head: head.importance)]

    def layers(self, kind: AttentionKind) -> list[list[HeadReport]]:
        """The heads of each layer of one kind of attention."""
        here = [head for head in self.heads if head.id.kind == kind]
        count = max((head.id.layer for head in here), default=0)
        return [[head for head in here if head.id.layer == n + 1] for n in range(count)]

    def to_dict(self) -> dict[str, Any]:
        """The whole survey as plain values, for JSON."""
        figures = ("importance", "ablation", "gradient", "sensitivity", "alignment_head")
        rows = [
            {
                **head.id._asdict(),
                "label": head.label,
                **{name: getattr(head, name) for name in figures},
                "statistics": None if head.statistics is None else asdict(head.statistics),
            }
            for head in self.heads
        ]
        names = ("cross_entropy", "sentences", "tokens", "skipped_pairs", "alignment_head", "ablated")
        return {
            **{name: getattr(self, name) for name in names},
            "rank_correlations": self.rank_correlations(),
            "heads": rows,
            "curve": [asdict(point) for point in self.curve],
        }


def survey_heads(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    trees: Iterable[Tree] | None = None,
    to: str | Sequence[str] | None = None,
    ablate: bool | None = None,
    curve: bool = False,
    bleu: ScoreTexts | None = None,
    reporter: Reporter | None = None,
) -> HeadSurvey:
    """Survey all heads over these sentence pairs.

    `ablate` removes each head in turn, with one pass each; the default is to do so if it takes a few minutes at most.
    `curve` removes heads cumulatively, the least important first; `bleu` scores the model's translations against the
    references at each point. `trees` and `to` are as in `Translator.stream`.
    """
    model, reporter = require_transformer(translator), reporter if reporter is not None else SilentReporter()
    pairs, kept = encode_survey_pairs(translator, sources, targets, trees, to)
    gated, engine = GatedModel(model), translator.engines.torch
    small, large = (list(forced_batches(engine, pairs, size)) for size in (small_batch(engine), engine.batch))
    tokens = sum(len(target) + 1 for _, target in pairs)
    statistics = passes.measure_statistics(translator, gated, small, reporter)
    gradients = passes.measure_gradients(gated, small, reporter)
    if ablate is None:
        all_tokens = sum(len(source) + len(target) + 2 for source, target in pairs)
        ablate = model.parameter_count() * all_tokens * len(gated.heads) <= MAX_DEFAULT_ABLATION
    ablations = passes.measure_ablations(gated, large, reporter) if ablate else None
    alignment_head = translator.alignment_head
    first = "the language token" if translator.n_language_tokens else "the first token"
    aligning = alignment_head_id(alignment_head, model.recipe.n_heads)
    heads = tuple(
        HeadReport(
            id_,
            statistics[id_],
            label_head(statistics[id_], "the BOS token" if id_.kind == "decoder" else first),
            None if ablations is None else float(ablations[i]) / tokens,
            -float(gradients.signed[i]) / tokens,
            float(gradients.absolute[i]) / tokens,
            id_ == aligning,
        )
        for i, id_ in enumerate(gated.heads)
    )
    skipped = len(sources) - len(pairs)
    survey = HeadSurvey(heads, gradients.loss / tokens, len(pairs), tokens, skipped, str(alignment_head))
    if not (curve or bleu):
        return survey
    references = [targets[i] for i in kept]
    score = None if bleu is None else lambda gated: bleu(translate_greedily(gated, translator, pairs), references)
    return replace(survey, curve=passes.measure_pruning(gated, survey.by_importance(), large, reporter, score))


def require_transformer(translator: Translator) -> Transformer:
    """The model of a translator; reject models without several heads."""
    if not isinstance(translator, Translator):
        message = f"survey_heads takes a Translator, such as Translator.load('my-model'); got {translator!r}"
        raise SearchError(message, code="wrong_type")
    if translator.engines.others:
        message = "an ensemble has no heads of its own; survey its models one by one"
        raise SearchError(message, code="unsupported_ensemble")
    check_has_attention(translator.recipe.model)
    model = translator.engines.torch.model
    if not isinstance(model, Transformer):
        raise SearchError(
            f"a {translator.recipe.model.architecture} model has at most one attention head in a layer, so there is "
            "nothing to compare; use `dragoman inspect attention` to see what it attends to",
            code="unsupported_model",
        )
    return model


def encode_survey_pairs(
    translator: Translator, sources: Texts, targets: Texts, trees: Iterable[Tree] | None, to: str | Texts | None
) -> tuple[EncodedPairs, list[int]]:
    """The token ids of pairs without an empty side that are not too long, and their indices."""
    pairs = encode_pairs(translator, sources, targets, trees, to)
    maximum = min(filter(None, (MAX_SENTENCE_TOKENS, translator.longest_source, translator.longest_output)))
    kept = [
        i
        for i, (source, target) in enumerate(pairs)
        if translator.n_language_tokens < len(source) <= maximum and 0 < len(target) <= maximum
    ]
    if not kept:
        raise SearchError(
            f"none of {plural(len(pairs), 'pair')} has 1 to {maximum:,} tokens on both sides; give a few hundred "
            "sentences with their translations",
            code="no_pairs_left",
        )
    return [pairs[i] for i in kept], kept


def alignment_head_id(head: AlignmentHead, n_heads: int) -> HeadId | None:
    """The alignment head; None if alignments are read from the mean of several heads."""
    if head.head is None and n_heads > 1:
        return None
    return HeadId("cross", head.layer + 1, (head.head or 0) + 1)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 if all values of one side are equal."""
    ranks = [average_ranks(np.asarray(values, dtype=np.float64)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1]) if all(rank.std() for rank in ranks) else 0.0


def average_ranks(values: Any) -> Any:
    """The rank of each value; equal values share the mean of their ranks."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]
