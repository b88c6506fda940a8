"""Training for several target languages: bit-exact resume, both layouts, fine-tuning, and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line import leave
from dragoman.config import Recipe
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.modeldir.info import read_info
from dragoman.models.loading import build_model
from dragoman.text.special_tokens import PAD
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.starting_weights import add_language_rows
from dragoman.translation.translator import Translator
from tiny_run import (
    TINY,
    assert_crashes_leave_no_trace,
    recipe,
    write_corpus,
)

CODES = 'text.targets=["de", "back"]'
ROOM = ("--set", "text.vocabulary_size=310")
SETTINGS = [word for change in (*TINY, "train.steps=2", "train.warmup_steps=1") for word in ("--set", change)]


def corpora_in(folder: Path) -> list[Corpus]:
    german = write_corpus(folder)
    lines = german.source.read_text(encoding="utf-8").splitlines()
    back = folder / "numbers.back"
    back.write_text("".join(" ".join([*line.split()[::-1], "so"]) + "\n" for line in lines), encoding="utf-8")
    return [replace(german, to="de"), Corpus(german.source, back, to="back")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    prepare_corpora(corpora_in(folder), recipe("text.vocabulary_size=310"), folder / "prepared", processes=1)
    return folder


@pytest.mark.parametrize("changes", [("data.sampling=0.2",), ("data.layout=packed",)], ids=["sampled", "packed"])
def test_crashes_leave_no_trace(data: Path, tmp_path: Path, changes: tuple[str, ...]) -> None:
    changes = (CODES, "text.vocabulary_size=310", *changes)
    assert_crashes_leave_no_trace(data, tmp_path, *changes)
    card = (tmp_path / "m" / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# English to German, back\n")
    assert card.count("| numbers.en |") == card.count("| numbers.back |") == 1
    assert "It translates into de (" in card and "bleu is the mean over the target languages" in card
    info = read_info(tmp_path / "m")
    assert (info.source_languages, info.target_languages) == (("en",), ("de", "back"))
    translator = Translator.load(tmp_path / "m", device="cpu", engine="torch")
    assert translator.targets == ("de", "back")


def test_the_loss_is_the_same_in_both_layouts_and_the_language_matters(data: Path) -> None:
    prepared, settings = Prepared.open(data / "prepared"), recipe("model.dropout=0")
    tokenizer = prepared.tokenizers[0]
    model = build_model(settings.model, tokenizer.vocabulary_size, PAD)
    task = TranslationLoss(model, 0.1, PAD)
    sums = []
    for layout in ("padded", "packed"):
        with prepared.loader(replace(settings.data, layout=layout), epochs=1, pin=False) as loader:
            sums.append(sum(float(task(batch).plain.detach()) for batch in loader))
    assert sums[0] == pytest.approx(sums[1], rel=1e-5)
    with prepared.loader(settings.data, epochs=1, pin=False) as loader:
        batches = list(loader)
    german, back = tokenizer.target_id("de"), tokenizer.target_id("back")
    assert {head for batch in batches for head in batch.source[:, 0].tolist()} == {german, back}
    batch = batches[0]
    turned = batch.source.clone()
    turned[:, 0] = german + back - turned[:, 0]
    assert abs(float(task(batch).plain) - float(task(replace(batch, source=turned)).plain)) > 1e-4


def words(folder: Path, out: Path, *options: str, settings: list[str] = SETTINGS) -> list[str]:
    german, back = corpora_in(folder)
    sides = ["--source", str(german.source), "--target", str(german.target), "--source", str(back.source)]
    return ["train", *sides, "--target", str(back.target), *options, *settings, "--out", str(out), "--device", "cpu"]


def test_one_command_from_files_to_a_model_and_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m"
    command = words(tmp_path, out, "--to", "de", "--to", "back", settings=[*SETTINGS, *ROOM])
    code, _, err = leave(capsys, *command)
    assert code == 0, err
    assert "bleu_de" in err and "bleu_back" in err and "→ back" in err
    assert Recipe.load(out / "recipe.toml").text.targets == ("de", "back")
    code, _, err = leave(capsys, *command)
    assert (code, "is finished; nothing to do" in err) == (0, True), err
    turned = [{"de": "back", "back": "de"}.get(word, word) for word in command]
    code, _, err = leave(capsys, *turned)
    assert (code, "was started with other data or settings" in err) == (2, True), err
    # A model that was begun with both can be trained further with one of them, and keeps both.
    tuned = [*command[:5], "--to", "de", "--from", str(out), "--set", "train.steps=2", "--set", "data.batch_tokens=300"]
    code, _, err = leave(capsys, *tuned, "--out", str(tmp_path / "tuned"), "--device", "cpu")
    assert code == 0, err
    assert Translator.load(tmp_path / "tuned", device="cpu", engine="torch").targets == ("de", "back")
    shapes = [load_file(place / "model.safetensors") for place in (out, tmp_path / "tuned")]
    assert {name: w.shape for name, w in shapes[0].items()} == {name: w.shape for name, w in shapes[1].items()}
    code, _, err = leave(capsys, *tuned[:5], *tuned[7:], "--out", str(tmp_path / "x"))
    assert (code, "numbers.en + numbers.de" in err) == (2, True), err
    code, _, err = leave(capsys, *tuned[:6], "it", *tuned[7:], "--out", str(tmp_path / "x"))
    assert (code, "is translated into 'it', which is not one of text.targets=['de', 'back']" in err) == (2, True), err


def test_a_language_is_added_to_a_finished_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, more = tmp_path / "m", tmp_path / "more"
    assert leave(capsys, *words(tmp_path, out, "--to", "de", "--to", "back", settings=[*SETTINGS, *ROOM]))[0] == 0
    tuned = [
        "--from",
        str(out),
        "--set",
        "train.steps=2",
        "--set",
        "data.batch_tokens=300",
        "--set",
        "train.warmup_steps=1",
    ]
    added = ["--set", 'text.targets=["de", "back", "it"]', *tuned]
    code, _, err = leave(capsys, *words(tmp_path, more, "--to", "de", "--to", "it", settings=added))
    assert (code, f"those of {out.name}, and a token for each of it" in err) == (0, True), err
    assert (
        Recipe.load(more / "recipe.toml").text.vocabulary_size
        == Recipe.load(out / "recipe.toml").text.vocabulary_size + 1
    )
    translator = Translator.load(more, device="cpu", engine="torch")
    assert translator.targets == ("de", "back", "it")
    assert translator.translate("two", to="it", beam=1).text is not None
    before, after = (load_file(place / "model.safetensors") for place in (out, more))
    shapes = [{name: w.shape for name, w in of.items()} for of in (before, after)]
    assert {name for name in shapes[0] if shapes[0][name] != shapes[1][name]} == {"embeddings.tables.shared"}
    for wrong in ('["it"]', '["back", "de", "it"]'):
        asked = ["--set", f"text.targets={wrong}", *tuned]
        code, _, err = leave(capsys, *words(tmp_path, tmp_path / "x", "--to", "de", "--to", "it", settings=asked))
        assert (code, "text.targets=" in err) == (2, True), err


def test_the_token_of_a_new_language_begins_between_those_that_are_there() -> None:
    there = {
        "embeddings.tables.shared": torch.randn(9, 4),
        "embeddings.bias": torch.randn(9),
        "positions.table": torch.ones(3, 4),
    }
    fresh = {
        "embeddings.tables.shared": torch.randn(11, 4),
        "embeddings.bias": torch.randn(11),
        "positions.table": torch.ones(5, 4),
    }
    made = add_language_rows(there, fresh, languages=3, added=2)
    for name in ("embeddings.tables.shared", "embeddings.bias"):
        torch.testing.assert_close(made[name][:9], there[name])
        for row in made[name][9:]:
            torch.testing.assert_close(row, there[name][6:].mean(0))
    assert made["positions.table"] is there["positions.table"]  # which is then refused, as it does not fit
    first = add_language_rows(there, fresh, languages=0, added=2)["embeddings.tables.shared"]
    torch.testing.assert_close(first[9:], fresh["embeddings.tables.shared"][9:])
    assert add_language_rows(there, fresh, languages=3, added=0) == there


def test_what_is_refused_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m"
    code, _, err = leave(capsys, *words(tmp_path, out, "--to", "de"))
    assert (code, "1 language in --to for 2 corpora" in err) == (2, True), err
    code, _, err = leave(capsys, *words(tmp_path, out, settings=[*SETTINGS, "--set", CODES, *ROOM]))
    assert (code, "numbers.en + numbers.de" in err) == (2, True), err
    syntax = [*SETTINGS, *ROOM, "--set", "model.positions=syntax"]
    code, _, err = leave(capsys, *words(tmp_path, out, "--to", "de", "--to", "back", settings=syntax))
    assert (code, "model.positions='syntax'" in err) == (2, True), err
    assert not (out / "training").exists()
