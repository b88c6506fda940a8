"""`dragoman demo` from end to end, with a model too small to learn: what it writes and says, not how well it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import leave
from dragoman.config import Recipe
from dragoman.demo.tour import SAMPLES, demo_changes, translate_samples
from dragoman.translation.translator import Translator

FIXTURES = Path(__file__).parent.parent / "fixtures" / "before"


@pytest.fixture
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer lines to translate: models that learned nothing write every line to its longest."""
    monkeypatch.setattr("dragoman.demo.tour.TEST_PAIRS", 120)


@pytest.mark.usefixtures("few_lines")
def test_the_demo_trains_translates_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["model.d_model=16", "model.d_ff=16", "train.steps=4", "train.warmup_steps=2", "train.log_every=2"]
    small += ["train.evaluate_every=4", "train.save_every=4", "model.encoder_layers=1", "model.decoder_layers=1"]
    changes = [x for change in small for x in ("--set", change)]
    code, said, err = leave(capsys, "demo", "--out", str(tmp_path / "demo"), "--pairs", "1000", *changes)
    assert code == 0, err
    assert "% of 120 unseen lines are translated without a mistake" in said
    assert "jeden Mittwoch um Viertel vor zehn" in said  # the right answer is shown beside a wrong one
    assert said.endswith(f"| dragoman translate {tmp_path / 'demo' / 'model'}\n")  # what to do next
    for name in ("attention.png", "model/manifest.json", "model/card.md", "model/model.safetensors", "train.en"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
    card = (tmp_path / "demo" / "model" / "card.md").read_text(encoding="utf-8")
    assert "1,000" in card
    assert "bleu" in card


def test_installed_models_translate_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.modeldir.installed.model_sources", lambda: [("test", FIXTURES)])
    found = {name: (sources, translations) for name, sources, translations in translate_samples()}
    sources, translations = found["trained"]
    assert sources == SAMPLES["en"]
    assert translations == [
        each.text for each in Translator.load(FIXTURES / "trained", device="cpu").translate(sources)
    ]


def test_files_of_others_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "valid.de").write_text("years of work")
    (tmp_path / "model").mkdir()  # beside one's own files there may be a model of one's own
    code, _, err = leave(capsys, "demo", "--out", str(tmp_path), "--pairs", "1000")
    assert (code, "valid.de already exists" in err) == (2, True), err
    assert [path.read_text() for path in tmp_path.iterdir() if path.is_file()] == ["years of work"]


@pytest.mark.usefixtures("few_lines")
def test_a_rival_may_take_the_demo_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["model.architecture=recurrent", "model.d_model=16", "train.steps=2", "train.warmup_steps=1"]
    small += ["train.evaluate_every=2", "train.save_every=2", "model.encoder_layers=1", "model.decoder_layers=1"]
    changes = [x for change in small for x in ("--set", change)]
    code, said, err = leave(capsys, "demo", "--out", str(tmp_path), "--pairs", "1000", *changes)
    assert (code, "of 120 unseen lines" in said) == (0, True), err
    assert (tmp_path / "attention.png").stat().st_size > 0


def test_mistakes_are_told_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    for words, message in (
        (["--out", str(tmp_path / "out"), "--set", "train.stepz=4"], "no key train.stepz; did you mean"),
        (["--out", str(tmp_path / "file")], "file is a file, not a directory"),
        (["--out", str(tmp_path / "out"), "--pairs", "99999999999"], "is not in the range 1000<=x<=10000000"),
    ):
        code, _, err = leave(capsys, "demo", *words)
        assert (code, message in err) == (2, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), (3000, 300)),
        (("train.steps=20000",), (20_000, 300)),
        (("train.steps = 200",), (200, 20)),
        (("train.steps=1",), (1, 0)),
        (("train.steps=200", "train.warmup_steps=7"), (200, 7)),
        (("model.architecture=recurrent", "train.steps=50"), (50, 5)),
    ],
)
def test_fewer_steps_have_a_shorter_warm_up(changes: tuple[str, ...], expected: tuple[int, int]) -> None:
    recipe = Recipe.from_changes([*demo_changes(changes), *changes]).train
    assert (recipe.steps, recipe.warmup_steps) == expected
