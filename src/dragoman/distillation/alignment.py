"""Align the teacher's translations with a model of the opposite direction; chunks on disk are not aligned again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from dragoman.distillation.bidirectional_alignment import BidirectionalAligner, Pair
from dragoman.distillation.translations import CHUNK_LINES, StoredTranslations
from dragoman.errors import TrainingError
from dragoman.files import MANIFEST, sha256, write_atomically
from dragoman.progress import Reporter
from dragoman.translation.overlap import overlap
from dragoman.translation.translator import Translator

SAMPLED_CHUNKS: Final = 8  # from which sentence pairs are taken to choose alignment heads
CHECKED_PAIRS: Final = 500
MIN_COVERAGE: Final = 0.4  # of their target words; the demo's models reach 0.95, and 0.17 if one of them is untrained
ALIGNED_LINES: Final = 400_000  # of more lines, evenly spaced chunks are aligned


def align_translations(
    stored: StoredTranslations, forward: Path, reverse: Path, device: str, reporter: Reporter
) -> None:
    """Write the alignments on which both models agree, for the chunks that have none."""
    models_mark = " ".join(sha256(model / MANIFEST) for model in (forward, reverse))
    marks = {
        number: f"{sha256(stored.chunk_path(number))} {models_mark}"
        for number in range(0, stored.chunks, max(1, -(-stored.chunks * CHUNK_LINES // ALIGNED_LINES)))
    }
    missing = [number for number, mark in marks.items() if not is_aligned(stored, number, mark)]
    reporter.start_stage("align", len(marks), "chunks")
    reporter.advance(len(marks) - len(missing))
    if not missing:
        return
    models = [load_reference(model, device) for model in (forward, reverse)]
    step = max(1, stored.chunks // SAMPLED_CHUNKS)
    pairs = [pair for number in range(0, stored.chunks, step) for pair in chunk_pairs(stored, number)]
    aligner = BidirectionalAligner.choose(models[0], models[1], pairs)
    check_coverage(aligner, pairs[:: -(-len(pairs) // CHECKED_PAIRS)], reverse)
    encoded = ((number, aligner.encode(chunk_pairs(stored, number))) for number in missing)
    for (number, _), found in overlap(encoded, lambda chunk: aligner.links(chunk[1]), lambda: None):
        rows = [marks[number], *(" ".join(map(link_text, links)) for links in found)]
        write_atomically(stored.chunk_path(number, ".align"), "".join(f"{row}\n" for row in rows))
        reporter.advance(1)


def chunk_pairs(stored: StoredTranslations, number: int) -> list[Pair]:
    """The sources and translations of a chunk."""
    return [(line.source, line.target) for line in stored.read_chunk(number)]


@cache
def link_text(link: tuple[int, int]) -> str:
    """A link, such as "1-2"; there are few different ones."""
    return f"{link[0]}-{link[1]}"


def check_coverage(aligner: BidirectionalAligner, pairs: Sequence[Pair], reverse: Path) -> None:
    """Reject models that agree on few words: attention that is spread over the sentence aligns nothing."""
    links = aligner.align(pairs)
    covered = sum(len({target for _, target in found}) for found in links)
    words = sum(len(target.split()) for _, target in pairs)
    if covered < MIN_COVERAGE * words:
        raise TrainingError(
            f"the teacher and {reverse} agree on the alignment of {covered / words:.0%} of the words; at least "
            f"{MIN_COVERAGE:.0%} are needed: train the reverse model longer, or give --alignment-weight 0",
            code="models_disagree",
        )


def load_reference(model: Path, device: str) -> Translator:
    """A model in PyTorch, in bfloat16 on a GPU."""
    translator = Translator.load(model, device=device, engine="torch")
    if translator.engines.device == "cpu":
        return translator
    return Translator.load(model, device=device, engine="torch", precision="bfloat16")


def is_aligned(stored: StoredTranslations, number: int, mark: str) -> bool:
    """Whether there are alignments for exactly the translations of a chunk."""
    try:
        return stored.chunk_path(number, ".align").read_text(encoding="utf-8").startswith(f"{mark}\n")
    except (OSError, ValueError):
        return False
