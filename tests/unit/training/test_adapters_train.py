"""Training adapters: only they change and are saved, a resumed run is the same to the bit, the result is an adapter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.config import Recipe
from dragoman.errors import DamagedError, ModelNotFoundError, RecipeError, ShapeError, TrainingError
from dragoman.files import sha256
from dragoman.modeldir.adapter import find_adapter, read_adapter_info
from dragoman.modeldir.layout import verify_model
from dragoman.modeldir.locate import read_recipe
from dragoman.progress import SilentReporter
from dragoman.training.checkpoints.averaging import parts_of_run
from dragoman.training.defaults import rate_choice
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.run import finish_run
from raising import raises
from tiny_run import Crash, CrashAt, difference, evaluate, outcome, prepare_tiny, tiny_run

LORA = ("train.steps=7", "train.warmup_steps=2", "train.seed=5", "train.lora=3")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    tiny_run(directory, directory / "base", "train.steps=4")
    return directory


@pytest.fixture(scope="module")
def reference(data: Path) -> dict[str, Any]:
    tiny_run(data, data / "reference", *LORA, start_from=data / "base")
    return outcome(data / "reference")


def test_a_crash_after_every_step(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    for step in range(1, 8):
        with pytest.raises(Crash):
            tiny_run(data, tmp_path / "m", *LORA, start_from=data / "base", reporter=CrashAt(step))
    tiny_run(data, tmp_path / "m", *LORA, start_from=data / "base")
    assert difference(reference, outcome(tmp_path / "m")) == ""


def test_checkpoints_and_the_result_have_adapters_only(data: Path, reference: dict[str, Any]) -> None:
    run, base = data / "reference", sum(w.numel() for w in load_file(data / "base/model.safetensors").values())
    for part in ("model", "optimizer", "ema"):
        saved = load_file(run / f"training/checkpoints/step-00000007/{part}.safetensors")
        assert saved and all(name.split("/")[0].endswith(("lora_a", "lora_b")) for name in saved)
    weights = load_file(run / "adapter.safetensors")
    assert sum(w.numel() for w in weights.values()) < base / 3
    assert any(w.abs().sum() > 0 for name, w in weights.items() if name.endswith("lora_b"))
    start = load_file(run / "training/checkpoints/step-00000000/model.safetensors")
    assert all(not w.any() for name, w in start.items() if name.endswith("lora_b"))


def test_the_directory_names_its_base(data: Path, reference: dict[str, Any]) -> None:
    run = data / "reference"
    verify_model(run)
    info = read_adapter_info(run)
    assert (info.rank, info.scale, info.base) == (3, 2.0, "base")
    assert info.base_weights == sha256(data / "base/model.safetensors")
    assert find_adapter(run, data / "base") == run
    assert read_recipe(run, "adapter").train.lora == 3
    assert info.base_weights[:16] in (run / "card.md").read_text() and "rank 3" in (run / "card.md").read_text()


def test_alpha_and_projections(data: Path, tmp_path: Path) -> None:
    changes = (*LORA, "train.lora_alpha=12", 'train.lora_projections=["qkv", "outer"]', "train.steps=3")
    tiny_run(data, tmp_path / "m", *changes, start_from=data / "base")
    assert read_adapter_info(tmp_path / "m").scale == 4.0
    layers = {name.rpartition(".")[0].rpartition(".")[2] for name in load_file(tmp_path / "m/adapter.safetensors")}
    assert layers == {"qkv", "outer"}


@pytest.mark.parametrize("changes", [("train.optimizer=muon",), ("train.optimizer=adamw", "train.r_drop=2.0")])
def test_other_optimizers_and_losses(data: Path, tmp_path: Path, changes: tuple[str, ...]) -> None:
    tiny_run(data, tmp_path / "m", *LORA, *changes, "train.steps=3", start_from=data / "base")
    weights = load_file(tmp_path / "m/training/checkpoints/step-00000003/model.safetensors")
    assert any(w.abs().sum() > 0 for name, w in weights.items() if name.endswith("lora_b"))


def test_a_stopped_run_is_finished_with_its_base(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(data / "base", tmp_path / "base")
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "m", *LORA, start_from=tmp_path / "base", reporter=CrashAt(6))
    monkeypatch.setattr("dragoman.training.run.prepared_directory", lambda _: data / "prepared")
    monkeypatch.setattr("dragoman.training.checkpoints.averaging.prepared_directory", lambda _: data / "prepared")
    with raises(TrainingError, "wrong_model_kind", "adapters"):
        parts_of_run(tmp_path / "m", 1)
    arguments: Any = {"validation": lambda *_: evaluate, "reporter": SilentReporter(), "ranks": Ranks()}
    (tmp_path / "base").rename(tmp_path / "moved")
    with raises(TrainingError, "model_not_found", str(tmp_path / "base")):
        finish_run(tmp_path / "m", **arguments)
    (tmp_path / "moved").rename(tmp_path / "base")
    finish_run(tmp_path / "m", **arguments)
    assert find_adapter(tmp_path / "m", tmp_path / "base")
    assert json.loads((tmp_path / "m/training/result.json").read_text())["early"]


@pytest.mark.usefixtures("reference")
def test_what_adapters_need(data: Path, tmp_path: Path) -> None:
    with raises(TrainingError, "missing_option", "--from"):
        tiny_run(data, tmp_path / "m", *LORA)
    with raises(ShapeError, "unknown_choice", "'keys'"):
        tiny_run(data, tmp_path / "m", *LORA, 'train.lora_projections=["keys"]', start_from=data / "base")
    with raises(ModelNotFoundError, "wrong_model_kind", "--adapter"):
        parts_of_run(data / "reference", 1)
    with pytest.raises(DamagedError):
        (tmp_path / "damaged").mkdir()
        for file in (data / "reference").iterdir():
            if file.is_file():
                shutil.copy(file, tmp_path / "damaged")
        (tmp_path / "damaged/adapter.safetensors").write_bytes(b"\0" * 30)
        verify_model(tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (["train.lora=-1"], "out_of_range"),
        (["train.lora=600"], "out_of_range"),
        (["train.lora=4", "train.lora_alpha=0"], "out_of_range"),
        (["train.lora_alpha=4"], "unused_setting"),
        (['train.lora_projections=["qkv"]'], "unused_setting"),
        (["train.lora=4", "model.norm=batch"], "conflicting_settings"),
        (["train.lora=4", "train.parallel=fsdp"], "conflicting_settings"),
    ],
)
def test_wrong_settings(changes: list[str], code: str) -> None:
    with raises(RecipeError, code):
        Recipe.from_changes(changes)


def test_the_settings_are_written_only_if_there_are_adapters() -> None:
    assert "lora" not in Recipe().to_toml()
    recipe = Recipe.from_changes(["train.lora=4", 'train.lora_projections=["qkv"]'])
    assert "lora = 4" in recipe.to_toml() and 'lora_projections = ["qkv"]' in recipe.to_toml()


def test_adapters_learn_at_a_higher_rate() -> None:
    rates = [float(rate_choice(256, True, lora).change.partition("=")[2]) for lora in (False, True)]
    assert rates[1] > rates[0]
