"""Alignments on which two models agree: beside a loop over single pairs, and in `dragoman distill`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import leave
from dragoman.distillation import alignment, translations
from dragoman.distillation.bidirectional_alignment import BidirectionalAligner, WordAttention, choose_heads
from dragoman.engines.forced import length_batches
from dragoman.errors import DataError, TrainingError
from dragoman.progress import SilentReporter
from dragoman.text.normalization import MARK
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import write_tiny_model

PAIRS = [
    ("the old box stands in the hall", "der alte Kasten steht im Flur"),
    ("seven boxes", "niemand sieht ihn, und der Kasten steht"),
    ("", "der alte"),
    ("Good morning! How are you?", "im Flur"),
    ("The box , old.", "Der Kasten – alt!"),
    ("the box " * 200, "der Kasten"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    forward = write_tiny_model(folder / "en-de", shared=False, languages=(("en",), ("de",)))
    reverse = write_tiny_model(folder / "de-en", "model.n_heads=2", seed=5, languages=(("de",), ("en",)))
    return forward, reverse


def attention_by_hand(translator: Translator, head: AlignmentHead, source: str, target: str) -> np.ndarray:
    """From target words to source words, one pair at a time, word by word; punctuation beside letters left out."""
    ids = translator.source.encode(source), translator.target.encode(target)
    ((_, weights),) = translator.engines.torch.cross_maps([ids])
    assert head.head is not None
    rows = weights[head.layer][head.head]
    rows = rows[:-1] if head.step == "writes" else rows[1:]
    names = translator.source.tokens(ids[0]), translator.target.tokens(ids[1])
    words = [np.cumsum([name.startswith(MARK) for name in side]) - 1 for side in names]
    for side, owners in zip(names, words, strict=True):
        letters = np.array([any(character.isalnum() for character in name) for name in side])
        owners[~letters & np.isin(owners, owners[letters])] = -1
    found = np.zeros((len(target.split()), len(source.split())))
    for t in range(found.shape[0]):
        for s in range(found.shape[1]):
            found[t, s] = np.mean([rows[i][: len(ids[0])][words[0] == s].sum() for i in np.flatnonzero(words[1] == t)])
    return found


def test_links_are_those_of_single_pairs(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    forward, reverse = (Translator.load(model, engine="torch", device="cpu") for model in models)
    heads = (
        (AlignmentHead(0, 1, "writes"), AlignmentHead(1, 2, "reads")),
        (AlignmentHead(1, 0, "reads"),),
    )
    aligner = BidirectionalAligner(WordAttention(forward), WordAttention(reverse), heads)
    monkeypatch.setattr("dragoman.translation.alignment.MIN_STRENGTH", limit := 0.3)  # these models were never trained
    found = aligner.align(PAIRS)
    assert found[2] == found[5] == []
    for i in (0, 1, 3, 4):
        source, target = PAIRS[i]
        one = np.mean([attention_by_hand(forward, head, source, target) for head in heads[0]], axis=0)
        other = np.mean([attention_by_hand(reverse, head, target, source) for head in heads[1]], axis=0)
        agreed = np.sqrt(one * other.T)
        strengths = (agreed * agreed / agreed.sum(1)[:, None] * (agreed / agreed.sum(0)) ** 4) ** (1 / 6)
        assert found[i] == sorted((int(s), int(t)) for t, s in np.argwhere(strengths >= limit))
    assert any(found)


@pytest.mark.parametrize("changes", [("recurrent", 1), ("convolutional", 3)])
def test_rivals_have_one_head(changes: tuple[str, int], models: tuple[Path, Path], tmp_path: Path) -> None:
    architecture, layers = changes
    settings = (f"model.architecture={architecture}", "model.decoder_layers=3")
    rival = write_tiny_model(tmp_path / "rival", *settings, seed=5, languages=(("de",), ("en",)))
    forward, reverse = (Translator.load(model, engine="torch", device="cpu") for model in (models[0], rival))
    aligner = BidirectionalAligner.choose(forward, reverse, PAIRS)
    assert {(head.layer, head.head) for head in aligner.reverse.heads} == {(layer, 0) for layer in range(layers)}
    assert len(aligner.align(PAIRS)) == len(PAIRS)


def test_larger_batches_have_the_same_links(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    forward, reverse = (Translator.load(model, engine="torch", device="cpu") for model in models)
    aligner = BidirectionalAligner.choose(forward, reverse, PAIRS)
    monkeypatch.setattr("dragoman.translation.alignment.MIN_STRENGTH", 0.3)
    monkeypatch.setattr(forward.engines.torch, "batch", 1)
    alone = aligner.encode(PAIRS)
    monkeypatch.setattr(forward.engines.torch, "batch", 64)
    together = aligner.encode(PAIRS)
    assert sorted(map(len, alone.batches)) == [1, 1, 1, 1] and [*map(len, together.batches)] == [4]
    assert aligner.links(alone) == aligner.links(together) == aligner.align(PAIRS)


def test_batches_may_be_limited_by_their_attention_weights() -> None:
    pairs = [([0] * n, [0] * (n + 3)) for n in (50, 2, 7, 40, 0, 11, 5, 30)]
    batches = list(length_batches(pairs, 4, weights=1500))
    assert sorted(i for batch in batches for i in batch) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(len(pairs[i][1]) for i in batch) ** 2 <= 1500
    assert [len(batch) for batch in batches] == [4, 1, 1, 1, 1]


def test_heads_are_chosen_by_agreement() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random(500)
    noise = rng.random((7, 500))
    one = np.stack([noise[0], truth + 0.4 * noise[1], noise[2], truth + 0.4 * noise[3]])
    other = np.stack([truth + 0.1 * noise[4], noise[5], noise[6]])
    first, second = choose_heads(one @ one.T, one @ other.T, other @ other.T)
    assert sorted(first) == [1, 3] and second == [0]


def test_heads_of_a_model_and_itself_agree(models: tuple[Path, Path]) -> None:
    forward, reverse = (Translator.load(model, engine="torch", device="cpu") for model in models)
    chosen = BidirectionalAligner.choose(forward, reverse, PAIRS)
    assert all(chosen.heads) and set(chosen.heads[1]) <= set(WordAttention(reverse).heads)
    with raises(TrainingError, "no_data"):
        BidirectionalAligner.choose(forward, reverse, [("", "")])


def test_distillation_with_a_reverse_model(
    models: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dragoman.distillation.selection.failed_rule", lambda line, rules: None)
    monkeypatch.setattr(alignment, "MIN_COVERAGE", 0.0)  # these models were never trained
    (tmp_path / "more.en").write_text("the old box\n\nseven boxes\nGood morning\n" * 3, encoding="utf-8")
    files = ("--source", str(tmp_path / "more.en"), "--out", str(tmp_path / "student"), "--device", "cpu")
    line = ("distill", str(models[0]), *files, "--beam", "1", "--reverse", str(models[1]))
    leave(capsys, *line)  # training stops at once: there are too few pairs
    folder = tmp_path / "student/training/distillation"
    rows = (folder / "distilled.align").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len((folder / "distilled.de").read_text(encoding="utf-8").splitlines()) == 9
    assert (folder / "000000.align").read_text(encoding="utf-8").splitlines()[1:] == rows
    before = (folder / "000000.align").stat().st_mtime_ns
    leave(capsys, *line)
    assert (folder / "000000.align").stat().st_mtime_ns == before
    with raises(TrainingError, "language_mismatch"):
        distill_with(models[0], models[0], tmp_path, 0.05)
    with raises(DataError, "unused_option"):
        distill_with(models[0], models[1], tmp_path, 0.0)


def test_of_many_translations_evenly_spaced_chunks_are_aligned(
    models: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translations, "CHUNK_LINES", 2)
    monkeypatch.setattr(alignment, "CHUNK_LINES", 2)
    monkeypatch.setattr(alignment, "ALIGNED_LINES", 5)
    monkeypatch.setattr(alignment, "MIN_COVERAGE", 0.0)
    chunks = list(translations.read_chunks(tmp_path, iter([(PAIRS[0][0], None)] * 14)))
    for chunk in chunks:
        line = translations.TeacherLine(*PAIRS[0], -1.0)._asdict()
        rows = [{"chunk": chunk.digest}, *(line for _ in chunk.pairs)]
        chunk.path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    stored = translations.StoredTranslations(tmp_path, len(chunks))
    alignment.align_translations(stored, *models, "cpu", SilentReporter())
    aligned = {path.name: path.read_text(encoding="utf-8") for path in sorted(tmp_path.glob("*.align"))}
    assert list(aligned) == ["000000.align", "000003.align", "000006.align"]
    assert len(list(stored)) == 14
    alignment.align_translations(stored, models[0], models[0], "cpu", SilentReporter())
    again = {name: (tmp_path / name).read_text(encoding="utf-8") for name in aligned}
    assert all(again[name] != aligned[name] for name in aligned)  # by another model


def test_models_that_agree_on_few_words_are_rejected(models: tuple[Path, Path], tmp_path: Path) -> None:
    forward, reverse = (Translator.load(model, engine="torch", device="cpu") for model in models)
    aligner = BidirectionalAligner.choose(forward, reverse, PAIRS)
    with raises(TrainingError, "models_disagree"):  # untrained: their attention is spread over the sentence
        alignment.check_coverage(aligner, PAIRS[:1], tmp_path)


def distill_with(teacher: Path, reverse: Path, folder: Path, weight: float) -> None:
    import dragoman

    dragoman.distill(
        teacher, source=folder / "more.en", out=folder / "other", reverse=reverse, alignment_weight=weight, device="cpu"
    )
