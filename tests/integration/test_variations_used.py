"""Variations of positions and patterns from training to translations: what runs them, and what says that it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dragoman import Translator
from dragoman.data.prepared import Prepared
from dragoman.engines.ctranslate2_conversion import to_ctranslate2
from dragoman.engines.specs import cuda_unavailable
from dragoman.errors import DamagedError, DragomanError, RecipeError, SearchError
from dragoman.files import write_manifest
from dragoman.inspect.attention.maps import record_attention
from dragoman.native import library
from dragoman.training.run import check_learned_positions
from raising import raises
from tiny_model import LINES, write_tiny_model
from tiny_run import Crash, CrashAt, difference, outcome, prepare_tiny, recipe, tiny_run

VARIATIONS = {
    "relative": ("model.positions=relative", "model.max_distance=3"),
    "rotary": ("model.positions=rotary",),
    "alibi": ("model.positions=alibi",),
    "local": ("model.pattern=local", "model.window=2"),
    "sparse": ("model.pattern=sparse", "model.window=1"),
    "low_rank": ("model.pattern=low_rank", "model.rank=4", "model.max_positions=80"),
}
IN_C = ("rotary", "alibi", "relative")  # what the C engine knows
each = pytest.mark.parametrize("name", VARIATIONS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("data")
    prepare_tiny(place)
    return place


@each
def test_a_model_translates_by_what_knows_it_and_says_so(name: str, tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "model", *VARIATIONS[name])
    translator = Translator.load(directory)
    greedy = [t.text for t in translator.translate(LINES)]
    assert translator.running.engine == ("native" if name in IN_C and library("translate") else "torch")
    if translator.running.engine == "native":
        exact, reference = (Translator.load(directory, engine=e, precision="float32") for e in ("native", "torch"))
        assert [t.text for t in exact.translate(LINES)] == [t.text for t in reference.translate(LINES)]
    assert len(set(greedy)) > 1
    alone = [translator.translate(line, reproducible=True).text for line in LINES]
    assert [t.text for t in translator.translate(LINES, reproducible=True)] == alone
    for best in translator.translate(LINES, beam=3, n_best=2):
        scores = [best.score, *(other.score for other in best.alternatives)]
        assert scores == sorted(scores, reverse=True)


@each
def test_what_does_not_know_a_variation_refuses_it(name: str, tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "model", *VARIATIONS[name])
    key = VARIATIONS[name][0].split("=")[0]
    for engine in ("ctranslate2",) if name in IN_C else ("native", "ctranslate2"):
        with raises(SearchError, "engine_unavailable", f"'{engine}'", f"{key}='{name}'", "'torch'"):
            Translator.load(directory, engine=engine).translate("the old box")
    with pytest.raises(DragomanError, match=key):
        to_ctranslate2(directory, tmp_path / "exported")
    model = Translator.load(directory).engines.torch.model
    assert cuda_unavailable(model.recipe, "cuda")


@each
def test_attention_can_be_looked_at(name: str, tmp_path: Path) -> None:
    translator = Translator.load(write_tiny_model(tmp_path / "model", *VARIATIONS[name]))
    looked = record_attention(translator, LINES[0])
    rows = np.concatenate([weights.sum(-1).ravel() for kind, weights in looked.maps.items() if kind != "encoder"])
    np.testing.assert_allclose(rows, 1, atol=1e-4)
    if name == "local":
        far = np.abs(np.subtract.outer(*(np.arange(looked.maps["encoder"].shape[-1]),) * 2)) > 2
        assert not looked.maps["encoder"][..., far].any()


def test_text_longer_than_the_mixtures_is_split_or_refused(tmp_path: Path) -> None:
    changes = ("model.pattern=low_rank", "model.rank=4", "model.max_positions=20", "data.max_tokens=18")
    translator = Translator.load(write_tiny_model(tmp_path / "model", *changes))
    long = " ".join(LINES)
    assert translator.translate(long).text
    with pytest.raises(SearchError, match=r"has learned positions for 19; .*split"):
        translator.translate(long, split="never")


@pytest.mark.parametrize(
    "name, key, value", [("low_rank", "max_positions = 80", 1_000_000), ("relative", "max_distance = 3", 1_000_000)]
)
def test_sizes_of_a_damaged_recipe_are_refused_before_memory_is_asked_for(
    name: str, key: str, value: int, tmp_path: Path
) -> None:
    directory = write_tiny_model(tmp_path / "model", *VARIATIONS[name])
    words = (directory / "recipe.toml").read_text()
    (directory / "recipe.toml").write_text(words.replace(key, f"{key.split(' =')[0]} = {value}"))
    write_manifest(directory)
    with pytest.raises(DamagedError, match=r"recipe\.toml"):
        Translator.load(directory, engine="torch").translate("the old box")
    with pytest.raises(DamagedError, match=r"recipe\.toml"):
        Translator.load(directory).translate("the old box")


@pytest.mark.parametrize("name", ["relative", "low_rank"])
def test_training_that_was_killed_goes_on_to_the_same_bits(name: str, data: Path, tmp_path: Path) -> None:
    tiny_run(data, tmp_path / "whole", *VARIATIONS[name])
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "killed", *VARIATIONS[name], reporter=CrashAt(7))
    tiny_run(data, tmp_path / "killed", *VARIATIONS[name])
    assert not difference(outcome(tmp_path / "whole"), outcome(tmp_path / "killed"))
    assert Translator.load(tmp_path / "whole").translate(LINES)


def test_data_longer_than_the_mixtures_are_refused_before_the_first_step(data: Path) -> None:
    prepared = Prepared.open(data / "prepared")
    with pytest.raises(RecipeError, match=r"the data have a sentence of \d+ tokens, but model.max_positions=9"):
        check_learned_positions(prepared, recipe("model.pattern=low_rank", "model.max_positions=9"))
    check_learned_positions(prepared, recipe("model.pattern=local", "model.max_positions=9"))
