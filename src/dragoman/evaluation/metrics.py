"""BLEU, chrF and TER of translations, by sacreBLEU, each with the signature that says how it was counted (section 6).

A figure without its signature cannot be compared with anybody's, so that the two are never apart here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dragoman.errors import DataError
from dragoman.values import suggest

METRICS: Final = ("BLEU", "chrF", "TER")
LOWER_IS_BETTER: Final = frozenset({"TER"})
RESAMPLES: Final = 1000


@dataclass(frozen=True)
class Score:
    """One figure, the signature by which others can repeat it, and sacreBLEU's details, such as n-gram precisions."""

    metric: str
    value: float
    signature: str
    details: str = ""


@dataclass(frozen=True)
class Difference:
    """One figure of two systems on the same sentences, and how likely so great a difference comes by chance alone."""

    metric: str
    value: float
    other: float
    p: float
    signature: str

    @property
    def difference(self) -> float:
        """How much more the first has; for TER less is better."""
        return self.value - self.other


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> list[Score]:
    """The figures of a whole set, in the order asked for."""
    check(hypotheses, references)
    found = []
    for name, metric in make(metrics, references, tokenize, lowercase).items():
        result = metric.corpus_score(hypotheses, [references])
        details = str(getattr(result, "_verbose", "")) if name == "BLEU" else ""
        found.append(Score(name, float(result.score), str(metric.get_signature()), details))
    return found


def compare(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> list[Difference]:
    """sacreBLEU's paired bootstrap: the same sentences are drawn for both systems, again and again (Koehn, 2004)."""
    from sacrebleu.significance import PairedTest

    check(hypotheses, references)
    check(others, references)
    made = make(metrics, references, tokenize, lowercase)
    systems = [("other", others), ("this", hypotheses)]
    test = PairedTest(systems, made, [references], test_type="bs", n_samples=resamples)
    found: list[Difference] = []
    answer: Any = test()
    signatures, results = answer
    for metric, signature in zip(made, signatures, strict=True):  # sacreBLEU calls chrF "chrF2"
        other, this = (float(result.score) for result in results[signature])
        # Between equals sacreBLEU finds no resample of a greater difference, and so calls nothing significant.
        p = float(results[signature][1].p_value) if this != other else 1.0
        found.append(Difference(metric, this, other, p, str(signatures[signature])))
    return found


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence alone, to find those that went wrong; BLEU says little of so little text."""
    from sacrebleu.metrics.chrf import CHRF

    check(hypotheses, references)
    metric = CHRF()
    return [metric.sentence_score(h, [r]).score for h, r in zip(hypotheses, references, strict=True)]


def make(
    metrics: Sequence[str], references: Sequence[str], tokenize: str | None = None, lowercase: bool = False
) -> dict[str, Any]:
    """sacreBLEU's metrics by name; its tokenizer is chosen by the references' script, unless one is named."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    tokenize = tokenize or tokenizer_for(references)
    spaceless = tokenize in ("zh", "char", "ja-mecab")
    made: dict[str, Any] = {}
    for name in metrics:
        match name:
            case "BLEU":
                made[name] = bleu(BLEU, tokenize, lowercase)
            case "chrF":
                made[name] = CHRF(lowercase=lowercase)
            case "TER":
                # sacreBLEU's TER is always of lower case. It counts words; text without spaces is cut into characters.
                made[name] = TER(normalized=spaceless, asian_support=spaceless)
            case _:
                raise DataError(f"there is no metric {name!r}{suggest(name, METRICS)}")
    return made


def bleu(make_bleu: Any, tokenize: str, lowercase: bool) -> Any:
    """BLEU with a tokenizer by name; some of sacreBLEU's need a package or a file that it fetches."""
    known = tokenizers()
    if tokenize not in known:
        raise DataError(f"sacreBLEU has no tokenizer {tokenize!r}{suggest(tokenize, known)}")
    try:
        return make_bleu(tokenize=tokenize, lowercase=lowercase)
    except Exception as error:  # a missing package (RuntimeError) or a file that could not be fetched (any of many)
        why = str(error).strip() or type(error).__name__
        raise DataError(f"sacreBLEU's tokenizer {tokenize!r} cannot be used here: {why}") from None


def tokenizers() -> list[str]:
    """The names of sacreBLEU's tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    return list(BLEU.TOKENIZERS)


def tokenizer_for(references: Sequence[str]) -> str:
    """sacreBLEU's tokenizer, by the script of the text: Chinese and Japanese have no spaces to cut at."""
    text = "".join(references[:200])
    han = sum("\u4e00" <= c <= "\u9fff" for c in text)
    kana = sum("\u3040" <= c <= "\u30ff" for c in text)
    if kana > 0.05 * max(1, len(text)):
        return "char"  # MeCab, which sacreBLEU prefers for Japanese, is no dependency of ours
    return "zh" if han > 0.2 * max(1, len(text)) else "13a"


def check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Figures of unequal lists would be figures of other sentences, and those of one text figures of its letters."""
    for texts in (hypotheses, references):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"translations and references come as lists of texts; got {texts!r:.80}")
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses):,} translations came for {len(references):,} references; sentence i of one must be the "
            "translation that sentence i of the other is compared with"
        )
    if not references:
        raise DataError("there are no sentences to score")
