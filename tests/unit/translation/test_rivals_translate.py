"""Translating with recurrent and convolutional models: loading, search, alignment, inspection, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from attention_pages import read_attention_page
from command_line import leave
from dragoman import Translator
from dragoman.config import Recipe
from dragoman.engines.torch_forced import forced_log_probabilities
from dragoman.errors import DamagedError, SearchError
from dragoman.files import write_manifest
from dragoman.inspect.attention.maps import record_attention
from dragoman.inspect.attention.page import attention_page
from dragoman.modeldir.layout import RECIPE
from dragoman.models import Bottleneck, Convolutional, Recurrent
from dragoman.models.loading import build_model, load_model, load_weights
from dragoman.search.types import Sampling
from dragoman.text.special_tokens import BOS, EOS, PAD
from raising import raises
from tiny_model import LINES, write_tiny_model

SETTINGS = {
    "recurrent": ("model.architecture=recurrent", "model.attention=additive", "model.cell=gru"),
    "bottleneck": (
        "model.architecture=recurrent",
        "model.attention=none",
        "model.cell=rnn",
        "model.encoder_layers=2",
        "model.reverse_source=true",
    ),
    "convolutional": ("model.architecture=convolutional", "model.positions=learned", "model.max_positions=40"),
}


@pytest.fixture(scope="module", params=SETTINGS)
def rival(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("rivals") / request.param, *SETTINGS[request.param], noise=0.05)


@pytest.fixture(scope="module")
def translator(rival: Path) -> Translator:
    return Translator.load(rival, device="cpu")


def test_a_directory_gives_back_the_model_that_was_written(rival: Path) -> None:
    recipe = Recipe.load(rival / RECIPE)
    loaded, again = load_model(rival, PAD)
    assert again == recipe
    kinds = {"recurrent": Recurrent, "bottleneck": Bottleneck, "convolutional": Convolutional}
    assert type(loaded) is kinds[rival.name]
    made = build_model(recipe.model, loaded.vocabulary, PAD).eval()
    made.load_state_dict(load_weights(rival))
    source, target = torch.tensor([[9, 30, 4, EOS], [8, EOS, PAD, PAD]]), torch.tensor([[BOS, 7, 11], [BOS, 5, PAD]])
    assert torch.equal(made(source, target), loaded(source, target))


def test_a_recipe_with_other_sizes_is_refused(rival: Path, tmp_path: Path) -> None:
    for file in rival.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    whole = (rival / RECIPE).read_text(encoding="utf-8")
    for size, message in (("d_model = 22", "of shape (340, 24)"), ("d_model = 1000000", "model.safetensors")):
        (tmp_path / RECIPE).write_text(whole.replace("d_model = 24", size), encoding="utf-8")
        write_manifest(tmp_path)
        with raises(DamagedError, "weights_mismatch", message):
            load_model(tmp_path, PAD)


def test_beam_search_is_the_same_in_any_company(translator: Translator) -> None:
    together = translator.translate(LINES, beam=3, n_best=2)
    for line, translation in zip(LINES, together, strict=True):
        alone = translator.translate(line, beam=3, n_best=2)
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)
    assert len({translation.text for translation in together}) > 1
    assert str(translator.running).startswith("torch engine, float32, on cpu")


def test_a_beams_score_is_that_of_teacher_forcing(translator: Translator) -> None:
    found = translator.translate(LINES[:3], beam=4, n_best=3, min_length=2, split="never")
    pairs, scores = [], []
    for line, translation in zip(LINES[:3], found, strict=True):
        for each in (translation, *translation.alternatives):
            pairs.append((translator.source.encode(line), translator.target.to_ids(each.tokens)))
            scores.append(each.log_probability)
    forced = [sum(row) for row in forced_log_probabilities(translator.engines.torch, pairs)]
    assert len(forced) == 9
    assert scores == pytest.approx(forced, abs=1e-3)


def test_sampling_and_prefixes(translator: Translator) -> None:
    drawn = translator.translate(LINES, sampling=Sampling(seed=5))
    assert [t.text for t in drawn] == [t.text for t in translator.translate(LINES, sampling=Sampling(seed=5))]
    assert [t.text for t in drawn] != [t.text for t in translator.translate(LINES, sampling=Sampling(seed=6))]
    assert translator.translate(LINES[0], prefix="der alte").text.startswith("der alte")


def test_words_are_aligned(translator: Translator) -> None:
    if translator.recipe.model.attention == "none":
        with raises(SearchError, "no_attention", "model.attention='none'"):
            translator.translate(LINES[0], alignment=True)
        return
    translation = translator.translate(LINES[0], alignment=True, min_length=4)
    words = len(LINES[0].split()), len(translation.text.split())
    assert translation.alignment
    assert all(0 <= s < words[0] and 0 <= t < words[1] for s, t in translation.alignment)


def test_there_is_attention_to_the_source_to_look_at_and_no_other(translator: Translator) -> None:
    if translator.recipe.model.attention == "none":
        with raises(SearchError, "no_attention"):
            record_attention(translator, LINES[0], "der alte Kasten")
        return
    layers = 1 if translator.recipe.model.architecture == "recurrent" else 2
    looked = record_attention(translator, LINES[0], "der alte Kasten")
    rows, columns = len(looked.target_output.tokens), len(looked.source.tokens)
    assert {kind: weights.shape for kind, weights in looked.maps.items()} == {"cross": (layers, 1, rows, columns)}
    assert {kind: weights.shape for kind, weights in read_attention_page(attention_page(looked)).items()} == {
        "cross": (layers, 1, rows, columns)
    }
    with pytest.raises(SearchError, match="the model has no 'encoder' attention; it has: cross"):
        looked.select("encoder")


def test_the_commands_that_look_inside(rival: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = ("--text", "the old box", "--translation", "der alte Kasten")
    for name in ("a.html", "a.png") if rival.name != "bottleneck" else ():
        assert leave(capsys, "inspect", "attention", str(rival), *sentence, "--out", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).stat().st_size > 1000
    out = ("--out", str(tmp_path / "b.png"))
    if rival.name == "bottleneck":
        (tmp_path / "in").write_text("the old box\n", encoding="utf-8")
        files = ("--source", str(tmp_path / "in"), "--target", str(tmp_path / "in"))
        for words in (("attention", *sentence, *out), ("alignment", *sentence), ("heads", *files)):
            code, _, said = leave(capsys, "inspect", words[0], str(rival), *words[1:])
            assert (code, "model.attention='none'" in said) == (2, True)
        return
    code, _, said = leave(capsys, "inspect", "attention", str(rival), *sentence, *out, "--kind", "decoder")
    assert (code, said) == (2, "dragoman: the model has no 'decoder' attention; it has: cross\n")
    code, _, said = leave(capsys, "inspect", "positions", str(rival), "--out", str(tmp_path / "p.png"))
    if "recurrent" in rival.name:
        assert (code, "has no position code" in said) == (2, True)
    else:
        assert (code, said) == (0, "")


@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_the_other_engines_say_that_they_do_not_know_it(
    rival: Path, engine: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2") if engine == "ctranslate2" else None
    (tmp_path / "in").write_text("the old box\n", encoding="utf-8")
    code, _, said = leave(capsys, "translate", str(rival), str(tmp_path / "in"), "--engine", engine)
    assert code == 2
    assert f"the engine {engine!r} is not available here" in said
    architecture = "recurrent" if rival.name == "bottleneck" else rival.name
    assert f"does not support model.architecture={architecture!r}" in said
    code, _, said = leave(capsys, "translate", str(rival), str(tmp_path / "in"), "--precision", "int8")
    assert (code, "no engine here supports this request" in said, "another precision" in said) == (2, True, True)


def test_bfloat16_by_pytorch(rival: Path) -> None:
    rough = Translator.load(rival, device="cpu", precision="bfloat16")
    assert rough.translate(LINES[0], min_length=4).text
    assert "bfloat16" in str(rough.running)


def test_average_and_its_card(rival: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write_tiny_model(tmp_path / "other", *SETTINGS[rival.name], seed=4)
    code, _, said = leave(capsys, "average", str(rival), str(other), "--out", str(tmp_path / "mean"))
    assert code == 0, said
    weights, sides = load_weights(tmp_path / "mean"), (load_weights(rival), load_weights(other))
    for name, mean in weights.items():
        torch.testing.assert_close(mean, (sides[0][name] + sides[1][name]) / 2)
    assert json.loads((tmp_path / "mean" / "manifest.json").read_text())["files"]
