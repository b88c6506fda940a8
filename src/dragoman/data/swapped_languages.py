"""Warn about swapped files: detect on a sample of lines whether the source looks like the target language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs
from dragoman.text.languages.detection import detect_languages, detectable, detection_available, detector_label
from dragoman.text.languages.names import language_name

READ_LINES: Final = 20_000  # the sample is taken from these: corpora may begin with their shortest lines
SAMPLE_LINES: Final = 200
MIN_BYTES: Final = 15  # per line: shorter lines are unreliable
MIN_CONFIDENCE: Final = 0.8  # for a line's language
MIN_LINES: Final = 5  # required number of long and clear lines
MIN_SHARE: Final = 0.8  # share of these lines in the other language

Languages = tuple[str, str]  # source, target
Lines = Sequence[str]


def sample_pairs(corpus: Corpus) -> tuple[list[str], list[str]]:
    """Evenly spaced pairs from the beginning of a corpus."""
    sources, targets = next(read_pairs(corpus, READ_LINES), ([], []))
    return sample_lines(sources), sample_lines(targets)


def sample_lines(lines: Lines) -> list[str]:
    """At most `SAMPLE_LINES` evenly spaced lines."""
    return list(lines[:: -(-len(lines) // SAMPLE_LINES)]) if lines else []


def swapped_warning(name: str, sources: Lines, targets: Lines, languages: Languages | None) -> str | None:
    """A warning if the sources look like the target language of `languages`; None if it cannot be determined."""
    if languages is None or not can_distinguish(languages):
        return None
    source, target = languages
    if not looks_like(sources, target, source):
        return None
    expected = f"expected {language_name(source)} to {language_name(target)}"
    if looks_like(targets, source, target):
        return f"{name}: source and target look swapped; {expected}: check the order of the files"
    return f"{name}: the source looks like {language_name(target)}; {expected}: check the files"


def detect_pair(sources: Lines, targets: Lines) -> Languages | None:
    """The languages of both sides, if they are clear and differ."""
    if not detection_available():
        return None
    best = [detect_languages("\n".join(sample_lines(lines)))[0] for lines in (sources, targets)]
    if min(one.confidence for one in best) < MIN_CONFIDENCE or best[0].language == best[1].language:
        return None
    return best[0].language, best[1].language


def can_distinguish(languages: Languages) -> bool:
    """Whether a detector is installed that supports and distinguishes both languages."""
    if not detection_available() or len({detector_label(code) for code in languages}) < 2:
        return False
    return len(detectable(languages)) == 2


def looks_like(lines: Lines, language: str, other: str) -> bool:
    """Whether nearly all lines that are long and clear enough are in `language` rather than in the `other`."""
    long = [line for line in sample_lines(lines) if len(line.encode("utf-8", "replace")) >= MIN_BYTES]
    best = [detect_languages(line, (language, other))[0] for line in long]
    clear = [one.language == language for one in best if one.confidence >= MIN_CONFIDENCE]
    return len(clear) >= MIN_LINES and sum(clear) >= MIN_SHARE * len(clear)
