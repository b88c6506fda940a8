"""Importing Opus-MT directories, and errors before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line import leave
from dragoman.config import Recipe
from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.errors import ConversionError
from dragoman.files import verify_manifest
from dragoman.modeldir.info import read_info
from dragoman.text import BOS, EOS, PAD, UNK, load_tokenizer
from dragoman.translation.translator import Translator
from opus_model import HEADS, INNER, LANGUAGES, LAYERS, D, lines, write_opus
from raising import raises

TEXTS = [*lines(0)[:6], "", "half past seven"]


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_opus(tmp_path_factory.mktemp("opus") / "opus-mt-en-de")


@pytest.fixture(scope="module")
def model(opus: Path) -> Path:
    place = opus.parent / "model"
    read_source_model(opus, ImportOptions()).write(place)
    return place


def test_the_directory_is_a_model_of_ours(model: Path) -> None:
    verify_manifest(model)
    recipe = Recipe.load(model / "recipe.toml")
    assert (recipe.model.d_model, recipe.model.n_heads, recipe.model.d_ff) == (D, HEADS, max(INNER))
    assert (recipe.model.encoder_layers, recipe.model.decoder_layers) == LAYERS
    assert (recipe.model.activation, recipe.model.tie, recipe.model.output_bias) == ("silu", "all", True)
    assert (recipe.text.kind, recipe.text.shared, recipe.data.max_tokens) == ("imported", False, 63)
    info = read_info(model)
    assert info.language_pair == ("en", "de")
    assert info.vocabulary == recipe.text.vocabulary_size == load_tokenizer(model, "source").vocabulary_size
    assert (model / "card.md").read_text().startswith("# en to de\n")
    assert all(file.stat().st_mode & 0o044 for file in model.iterdir())


def test_the_start_mark_is_the_padding_hidden_and_the_padding_keeps_its_logit(opus: Path, model: Path) -> None:
    weights, theirs = load_file(model / "model.safetensors"), load_file(opus / "model.safetensors")
    table, bias = weights["embeddings.tables.shared"], weights["embeddings.output_bias"]
    assert len(table) == len(theirs["model.shared.weight"]) + 1
    assert torch.equal(table[BOS], table[PAD])
    assert bias[PAD] == theirs["final_logits_bias"][0, -1] and bias[BOS] == bias[PAD] - 30
    assert bias[EOS] == theirs["final_logits_bias"][0, 0] and bias[UNK] == theirs["final_logits_bias"][0, 1]


def test_inner_features_of_the_smaller_side_are_filled_up_with_zeros(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    inner, outer = (weights[f"decoder.2.feed_forward.{name}.weight"] for name in ("inner", "outer"))
    assert inner.shape == (INNER[0], D) and outer.shape == (D, INNER[0])
    assert not inner[INNER[1] :].any() and not outer[:, INNER[1] :].any() and inner[INNER[1] - 1].any()


def test_it_translates_scores_and_aligns(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, target = tmp_path / "in.en", tmp_path / "in.de"
    source.write_text("".join(f"{line}\n" for line in TEXTS))
    translator = Translator.load(model, engine="torch", device="cpu")
    found = translator.translate(TEXTS, max_length=20)
    target.write_text("".join(f"{one.text}\n" for one in found))
    code, out, err = leave(capsys, "translate", str(model), str(source), "--engine", "torch", "--max-length", "20")
    assert code == 0 and out.splitlines() == [one.text for one in found], err
    code, out, err = leave(capsys, "score", str(model), "--source", str(source), "--target", str(target))
    assert code == 0 and len(out.splitlines()) == len(TEXTS), err
    code, out, err = leave(capsys, "inspect", "alignment", str(model), "--source", str(source), "--target", str(target))
    assert code == 0, err
    assert found[6].text == "" and "▁" in found[0].source_tokens[0]


def test_it_is_fine_tuned_and_averaged(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [tmp_path / f"train.{side}" for side in ("source", "target")]  # which tell no language
    for side, path in enumerate(sides):
        path.write_text("".join(f"{line}\n" for line in lines(side)[:60]))
    given = [f"--{name}={path}" for name, path in zip(("source", "target"), sides, strict=True)]
    settings = ["train.steps=2", "train.average=1", "train.log_every=1", "data.valid_pairs=4", "data.batch_tokens=200"]
    asked = [word for setting in (*settings, "data.max_tokens=60") for word in ("--set", setting)]
    tuned = tmp_path / "tuned"
    code, _, err = leave(capsys, "train", f"--from={model}", *given, f"--out={tuned}", *asked)
    assert code == 0, err
    assert replace(read_info(tuned), line_lengths=None) == read_info(model)  # an imported model has none
    before, after = (load_file(place / "model.safetensors") for place in (model, tuned))
    assert before.keys() == after.keys()
    assert not torch.equal(before["embeddings.output_bias"], after["embeddings.output_bias"])
    code, _, err = leave(capsys, "average", str(model), str(tuned), f"--out={tmp_path / 'mean'}")
    assert code == 0, err
    assert read_info(tmp_path / "mean") == read_info(model)
    both = Translator.load(tmp_path / "mean", ensemble=model).translate(TEXTS[0], max_length=9)
    assert both.tokens
    code, _, err = leave(
        capsys, "train", f"--from={model}", *given, f"--out={tmp_path / 'no'}", *asked, "--set", "data.sampling=0.1"
    )
    assert code == 2 and "imported tokenizer" in err and "data.sampling=0" in err


def test_languages_are_targets_unless_told_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opus = write_opus(tmp_path / "opus", languages=LANGUAGES)
    code, _, err = leave(capsys, "import", str(opus), "--out", str(tmp_path / "many"))
    assert code == 0, err
    many = Translator.load(tmp_path / "many")
    assert many.targets == LANGUAGES and many.source.vocabulary_size == many.target.vocabulary_size
    assert many.source.tokens([many.source.target_id("fra")]) == ["<2fra>"]
    assert many.target.decode([many.source.target_id("fra")]) == ""
    assert len({many.score([(TEXTS[0], TEXTS[1])], to=to)[0].score for to in LANGUAGES}) == len(LANGUAGES)
    info = read_info(tmp_path / "many")
    assert (info.source_languages, info.target_languages) == (("en",), LANGUAGES)
    card = (tmp_path / "many" / "card.md").read_text()
    assert card.startswith("# en to fra, zho_Hans, deu\n")
    assert "into fra, zho_Hans, deu: `dragoman translate --to fra`" in card
    code, _, err = leave(capsys, "import", str(opus), "--out", str(tmp_path / "one"), "--one-target")
    assert code == 0, err
    one = Translator.load(tmp_path / "one")
    assert one.targets == () and one.source.vocabulary_size == many.source.vocabulary_size
    assert one.source.to_ids([">>fra<<"]) != [UNK]


def test_both_files_of_weights_give_the_same_model(opus: Path, model: Path, tmp_path: Path) -> None:
    binary = write_opus(tmp_path / "bin", binary=True)
    read_source_model(binary, ImportOptions()).write(tmp_path / "model")
    ours, theirs = (load_file(place / "model.safetensors") for place in (model, tmp_path / "model"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_halves_and_positions_that_are_stored(opus: Path, model: Path, tmp_path: Path) -> None:
    """Older files hold the positions, all sines and then all cosines, and some are in float16."""
    place = torch.arange(64.0)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    stored = torch.cat([place.sin(), place.cos()], 1)
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    other = copied(opus, tmp_path / "opus")
    tensors = load_file(opus / "model.safetensors")
    save_file({**{n: w.half() for n, w in tensors.items()}, **{n: stored.half() for n in names}},
              other / "model.safetensors")  # fmt: skip
    read_source_model(other, ImportOptions()).write(tmp_path / "model")
    ours, theirs = (load_file(where / "model.safetensors") for where in (model, tmp_path / "model"))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, atol=1e-2, rtol=1e-3)
    save_file({**tensors, names[0]: stored.roll(1, 0)}, other / "model.safetensors")
    with raises(ConversionError, "unsupported_setting", "model.encoder.embed_positions.weight"):
        read_source_model(other, ImportOptions())


def copied(opus: Path, to: Path) -> Path:
    to.mkdir()
    for file in opus.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def config(**changes: Any) -> Callable[[Path], None]:
    def change(place: Path) -> None:
        file = place / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def rewrite(place: Path) -> None:
        file = place / "model.safetensors"
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file)

    return rewrite


def vocabulary(change: Callable[[dict[str, int]], object]) -> Callable[[Path], None]:
    def rewrite(place: Path) -> None:
        table = json.loads((place / "vocab.json").read_text())
        change(table)
        (place / "vocab.json").write_text(json.dumps(table))

    return rewrite


def torn(name: str, size: int = 1000) -> Callable[[Path], None]:
    return lambda place: (place / name).write_bytes((place / name).read_bytes()[:size]) and None


FC1 = "model.encoder.layers.1.fc1.weight"
WRONG: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "another kind": (config(model_type="bart"), ("unsupported_model", "config.json", "model_type", "'bart'")),
    "heads differ": (
        config(decoder_attention_heads=8),
        ("unsupported_setting", "encoder_attention_heads=4", "decoder_attention_heads=8"),
    ),
    "heads do not fit": (
        config(encoder_attention_heads=5, decoder_attention_heads=5),
        ("unsupported_setting", "d_model=32", "model.n_heads=5"),
    ),
    "activation": (config(activation_function="mish"), ("unsupported_setting", "activation_function='mish'")),
    "pre-norm": (config(normalize_before=True), ("unsupported_setting", "normalize_before=True")),
    "no number": (config(d_model="32"), ("invalid_setting", "d_model='32'")),
    "dropout": (config(dropout=7), ("invalid_setting", "dropout=7", "0", "1")),
    "larger": (config(d_model=64), ("weights_mismatch",)),
    "more layers": (config(encoder_layers=3), ("weights_mismatch", "model.encoder.layers.2.self_attn.q_proj.weight")),
    "fewer layers": (config(decoder_layers=2), ("weights_mismatch", "25")),
    "start": (config(decoder_start_token_id=9999), ("vocabulary_mismatch", "decoder_start_token_id=9999")),
    "end": (config(eos_token_id=3), ("vocabulary_mismatch", "<pad>", "</s>", "0")),
    "two ends": (config(eos_token_id=[0, 3]), ("invalid_setting",)),
    "no config": (lambda place: (place / "config.json").write_text("[]"), ("file_damaged", "config.json")),
    "torn config": (torn("config.json", 50), ("file_damaged", "config.json")),
    "torn weights": (torn("model.safetensors"), ("file_damaged", "model.safetensors")),
    "empty weights": (torn("model.safetensors", 0), ("file_damaged", "model.safetensors")),
    "no weights": (
        lambda place: (place / "model.safetensors").unlink(),
        ("file_missing", "model.safetensors", "pytorch_model"),
    ),
    "a tensor more": (weights(lambda t: t.update(more=torch.zeros(2))), ("weights_mismatch",)),
    "no numbers": (weights(lambda t: t[FC1].fill_(torch.nan)), ("not_finite", FC1)),
    "no source.spm": (lambda place: (place / "source.spm").unlink(), ("file_missing", "source.spm")),
    "torn target.spm": (torn("target.spm"), ("not_a_tokenizer", "target.spm", "1000")),
    "no vocabulary": (lambda place: (place / "vocab.json").unlink(), ("file_missing", "vocab.json")),
    "a token more": (vocabulary(lambda t: t.update(more=len(t))), ("vocabulary_mismatch", "config.json")),
    "a gap": (vocabulary(lambda t: t.update({"<unk>": 5000})), ("file_damaged", "0", "1", "2")),
    "words for numbers": (vocabulary(lambda t: t.update({"<unk>": "1"})), ("file_damaged",)),
    "no unknown": (
        vocabulary(lambda t: t.update({"<none>": t.pop("<unk>")})),
        ("vocabulary_mismatch", "vocab.json", "'<unk>'"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    wrong: str, opus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, expected = WRONG[wrong]
    place = copied(opus, tmp_path / "opus")
    damage(place)
    with raises(ConversionError, *expected):
        read_source_model(place, ImportOptions())
    code, out, err = leave(capsys, "import", str(place), "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "") and err.startswith("dragoman: ")
    assert [path.name for path in tmp_path.iterdir()] == ["opus"]


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("raise SystemExit('it ran')",)

    opus = write_opus(tmp_path / "opus", binary=True)
    torch.save({"model.shared.weight": Evil()}, opus / "pytorch_model.bin")
    with raises(ConversionError, "unsafe_pickle"):
        read_source_model(opus, ImportOptions())
    torch.save([1, 2], opus / "pytorch_model.bin")
    with raises(ConversionError, "file_damaged"):
        read_source_model(opus, ImportOptions())
    (opus / "pytorch_model.bin").write_bytes((opus / "pytorch_model.bin").read_bytes()[:200])
    with raises(ConversionError, "file_damaged", "pytorch_model.bin"):
        read_source_model(opus, ImportOptions())
