"""BLEU, chrF and TER from sacreBLEU, each with the signature that makes scores comparable (section 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dragoman.errors import DataError
from dragoman.values import plural, render_value, suggest

METRICS: Final = ("BLEU", "chrF", "TER")
RESAMPLES: Final = 1000


@dataclass(frozen=True)
class MetricScore:
    """A score, the signature to reproduce it, and sacreBLEU's details, such as n-gram precisions."""

    metric: str
    value: float
    signature: str
    details: str = ""


@dataclass(frozen=True)
class MetricDifference:
    """The scores of two systems on the same sentences, and the p-value of their difference."""

    metric: str
    value: float
    other: float
    p: float
    signature: str

    @property
    def difference(self) -> float:
        """The first score minus the second; for TER lower is better."""
        return self.value - self.other


def score_corpus(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: str | Sequence[str] = METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> list[MetricScore]:
    """The scores of a whole test set, in the order of `metrics`."""
    check_pairs(hypotheses, references)
    found = []
    for name, metric in make_metrics(metrics, references, tokenize, lowercase).items():
        result = metric.corpus_score(hypotheses, [references])
        details = str(getattr(result, "_verbose", "")) if name == "BLEU" else ""
        found.append(MetricScore(name, float(result.score), str(metric.get_signature()), details))
    return found


def compare_systems(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    metrics: str | Sequence[str] = METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> list[MetricDifference]:
    """Compare two systems by sacreBLEU's paired bootstrap resampling (Koehn, 2004)."""
    from sacrebleu.significance import PairedTest

    check_pairs(hypotheses, references)
    check_pairs(others, references)
    by_name = make_metrics(metrics, references, tokenize, lowercase)
    systems = [("other", others), ("this", hypotheses)]
    test = PairedTest(systems, by_name, [references], test_type="bs", n_samples=resamples)
    found: list[MetricDifference] = []
    answer: Any = test()
    signatures, results = answer
    for metric, signature in zip(by_name, signatures, strict=True):  # sacreBLEU calls chrF "chrF2"
        other, this = (float(result.score) for result in results[signature])
        # For equal systems sacreBLEU reports p = 0, because no resample has a greater difference.
        p = float(results[signature][1].p_value) if this != other else 1.0
        found.append(MetricDifference(metric, this, other, p, str(signatures[signature])))
    return found


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence, to find the worst; BLEU is not meaningful for single sentences."""
    from sacrebleu.metrics.chrf import CHRF

    check_pairs(hypotheses, references)
    metric = CHRF()
    return [metric.sentence_score(h, [r]).score for h, r in zip(hypotheses, references, strict=True)]


def make_metrics(
    metrics: str | Sequence[str], references: Sequence[str], tokenize: str | None = None, lowercase: bool = False
) -> dict[str, Any]:
    """sacreBLEU's metrics by name; the default tokenizer depends on the script of the references."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    tokenize = tokenize or choose_tokenizer(references)
    spaceless = tokenize in ("zh", "char", "ja-mecab")
    make: dict[str, Callable[[], Any]] = {
        "BLEU": lambda: make_bleu(tokenize, lowercase),
        "chrF": lambda: CHRF(lowercase=lowercase),
        # sacreBLEU's TER always lowercases. It counts words; text without spaces is split into characters.
        "TER": lambda: TER(normalized=spaceless, asian_support=spaceless),
    }
    names = [metrics] if isinstance(metrics, str) else metrics
    for name in names:
        if name not in make:
            raise DataError(f"unknown metric {name!r}{suggest(name, METRICS)}", code="unknown_choice")
    return {name: make[name]() for name in names}


def make_bleu(tokenize: str, lowercase: bool) -> Any:
    """BLEU with a tokenizer by name; some tokenizers need a package or a download."""
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in (known := list(BLEU.TOKENIZERS)):
        raise DataError(f"sacreBLEU has no tokenizer {tokenize!r}{suggest(tokenize, known)}", code="unknown_choice")
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase)
    except Exception as error:  # a missing package or a failed download, of many exception types
        reason = str(error).strip() or type(error).__name__
        message = f"sacreBLEU's tokenizer {tokenize!r} is not available here: {reason}"
        raise DataError(message, code="tokenizer_unavailable") from None


def choose_tokenizer(references: Sequence[str]) -> str:
    """sacreBLEU's tokenizer for the script of the text: Chinese and Japanese have no spaces."""
    text = "".join(references[:200])
    han = sum("\u4e00" <= c <= "\u9fff" for c in text)
    kana = sum("\u3040" <= c <= "\u30ff" for c in text)
    if kana > 0.05 * max(1, len(text)):
        return "char"  # MeCab, which sacreBLEU prefers for Japanese, is not a dependency
    return "zh" if han > 0.2 * max(1, len(text)) else "13a"


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Reject lists of different lengths, empty lists, and single strings, whose letters would be compared."""
    for texts in (hypotheses, references):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            message = f"translations and references must be lists of str; got {render_value(texts, 80)}"
            raise DataError(message, code="wrong_type")
    if len(hypotheses) != len(references):
        counts = f"{plural(len(hypotheses), 'translation')} for {plural(len(references), 'reference')}"
        raise DataError(f"got {counts}; give one for each", code="count_mismatch")
    if not references:
        raise DataError("there are no sentences to score", code="no_data")
