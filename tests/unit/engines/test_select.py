"""Which engine is chosen for a request, in which precision, and what is rejected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from dragoman import Translator
from dragoman.config import ModelRecipe
from dragoman.cpu import available_cores
from dragoman.engines.base import Capabilities, EngineRequest
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.native import default_threads
from dragoman.engines.native_model import load_code
from dragoman.engines.select import ENGINES, PRECISIONS, EngineSelector, Unsupported, choose_engine
from dragoman.engines.specs import CTRANSLATE2, CUDA, NATIVE, SPECS, TORCH
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError
from dragoman.evaluation.systems import ModelSystem
from dragoman.files import staged
from dragoman.models.loading import load_model
from dragoman.search.types import Sampling, Search
from dragoman.text.special_tokens import PAD
from raising import raises
from tiny_model import write_tiny_model

CAPABILITIES = {spec.name: spec.capabilities for spec in SPECS}
SAMPLED = Search(sampling=Sampling())


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.select.has_gpu", lambda: False)


@pytest.mark.parametrize("precision", ["auto", "int8", "float32"])
@pytest.mark.parametrize("engine", ["native", "ctranslate2", "torch"])
def test_a_report_has_the_precision_that_was_used(
    directory: Path, engine: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "ctranslate2":
        monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    asked = {"engine": engine, "precision": precision, "device": "cpu"}
    if engine == "torch" and precision == "int8":
        with raises(SearchError, "unsupported_by_engine", "'torch'", "precision='int8'", "'native' or 'ctranslate2'"):
            ModelSystem(str(directory), Search(), **asked)
        return
    system = ModelSystem(str(directory), Search(), **asked)
    if system.translator.engines.get(engine) is None:
        pytest.skip(f"there is no engine {engine} here")
    about = system.describe()
    usual = "float32" if engine == "torch" else "int8"
    assert about["engine"] == engine
    assert about["precision"].startswith(usual if precision == "auto" else precision)


def test_engines_of_pytorch_say_what_they_hold(directory: Path) -> None:
    model, _ = load_model(directory, PAD)
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float32, "float32")):
        assert TorchEngine(model.to(dtype)).precision == name
        assert CudaEngine(model, dtype, "cpu").precision == name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions_by_engine(directory: Path, engine: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.select.has_gpu", lambda: True)
    supports = precision in ("auto", *CAPABILITIES[engine].precisions)
    if supports and engine != "cuda":
        assert [spec.name for spec in EngineSelector(directory, "cpu", engine, precision=precision).specs] == [engine]
        return
    others = [f"'{name}'" for name in ENGINES if precision in ("auto", *CAPABILITIES[name].precisions)]
    missing = "device='cpu'" if supports else f"precision='{precision}'"
    with raises(SearchError, "unsupported_by_engine", f"'{engine}'", missing, *others):
        EngineSelector(directory, "cpu", engine, precision=precision)


@pytest.mark.parametrize(
    ("request_", "chosen"),
    [
        (EngineRequest(device="cpu"), "native"),
        (EngineRequest(Search(beam=1), device="cpu"), "native"),
        (EngineRequest(Search(beam=64, no_repeat=3), prefixes=True, device="cpu"), "native"),
        (EngineRequest(Search(beam=65), device="cpu"), "ctranslate2"),
        (EngineRequest(Search(beam=65, no_repeat=3), device="cpu"), "torch"),
        (EngineRequest(Search(beam=65), prefixes=True, device="cpu"), "torch"),
        (EngineRequest(SAMPLED, device="cpu"), "native"),
        (EngineRequest(constraints=True, device="cpu"), "native"),
        (EngineRequest(Search(beam=65), constraints=True, device="cpu"), "torch"),
        (EngineRequest(constraints=True, device="cuda"), "cuda"),
        (EngineRequest(models=2, device="cpu"), "native"),
        (EngineRequest(precision="bfloat16", device="cpu"), "torch"),
        (EngineRequest(precision="int8", device="cpu"), "native"),
        (EngineRequest(device="cuda"), "cuda"),
        (EngineRequest(Search(beam=33), device="cuda:1"), "torch"),
        (EngineRequest(Search(no_repeat=2), device="cuda"), "cuda"),
        (EngineRequest(SAMPLED, device="cuda"), "torch"),
        (EngineRequest(prefixes=True, device="cuda"), "cuda"),
        (EngineRequest(precision="float32", device="cuda"), "cuda"),
        (EngineRequest(constraints=True, precision="int8", device="cpu"), "native"),
        (EngineRequest(Search(beam=65), constraints=True, precision="int8", device="cpu"), None),
        (EngineRequest(precision="int8", device="cuda"), None),
        (EngineRequest(models=2, precision="int8", device="cpu"), "native"),
    ],
)
def test_the_first_engine_that_supports_a_request_is_chosen(request_: EngineRequest, chosen: str | None) -> None:
    found = choose_engine(request_, SPECS)
    if chosen is None:
        assert isinstance(found, Unsupported) and set(found.missing) == set(ENGINES) and all(found.missing.values())
    else:
        assert not isinstance(found, Unsupported) and found.name == chosen


@pytest.mark.parametrize(
    ("capabilities", "request_", "missing"),
    [
        (NATIVE, EngineRequest(), []),
        (NATIVE, EngineRequest(SAMPLED, True, True), []),
        (CTRANSLATE2, EngineRequest(SAMPLED, constraints=True), ["sampling", "required or avoided phrases"]),
        (NATIVE, EngineRequest(Search(beam=65), device="cuda:1"), ["device='cuda:1'", "beam=65"]),
        (CTRANSLATE2, EngineRequest(Search(no_repeat=3), prefixes=True), ["no_repeat=3", "a prefix"]),
        (CUDA, EngineRequest(models=3, precision="int8"), ["precision='int8'", "an ensemble of 3 models"]),
        (TORCH, EngineRequest(SAMPLED, True, True, 2, "bfloat16", "cuda"), []),
    ],
)
def test_missing_parts_are_named(capabilities: Capabilities, request_: EngineRequest, missing: list[str]) -> None:
    assert capabilities.missing(request_) == missing


@pytest.mark.parametrize(("key", "declared"), [("positions", "position_codes"), ("autoregression", "decoders")])
def test_declared_parts_are_those_of_the_model_checks(key: str, declared: str) -> None:
    values = get_args(get_type_hints(ModelRecipe)[key])
    assert getattr(TORCH, declared) == values
    for spec in SPECS:
        device = "cuda" if spec.name == "cuda" else "cpu"
        if spec.unavailable(None, device) is not None:
            continue
        for value in values:
            reason = spec.unavailable(ModelRecipe(**{key: value}), device)
            assert (reason is None) == (value in getattr(spec.capabilities, declared)), reason


def test_a_device_without_the_precision(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.select.has_gpu", lambda: True)
    monkeypatch.setattr("dragoman.engines.select.available_devices", lambda: ["cpu", "cuda:0"])
    with raises(SearchError, "unsupported_by_engine", "device='cuda'", "precision='int8'", "'native' or 'ctranslate2'"):
        EngineSelector(directory, "cuda", precision="int8")
    assert EngineSelector(directory, precision="bfloat16").device == "cuda"
    assert EngineSelector(directory, precision="int8").device == "cpu"  # where alone it can be had
    assert EngineSelector(directory, engine="native").device == "cpu"


def test_a_search_that_no_engine_of_the_precision_can_do(directory: Path) -> None:
    constrained = EngineRequest(Search(beam=65), constraints=True)
    with raises(SearchError, "unsupported_by_engine", "phrases", "beam=65", "'torch' with another precision"):
        EngineSelector(directory, "cpu", precision="int8").for_request(constrained)
    assert EngineSelector(directory, "cpu", precision="float32").for_request(constrained).name == "torch"


@pytest.mark.parametrize(
    ("engine", "search", "prefixes", "missing"),
    [
        ("native", Search(beam=65, no_repeat=3), True, "beam=65; use 'torch'"),
        ("ctranslate2", SAMPLED, False, "sampling; use 'native' or 'torch'"),
        ("ctranslate2", Search(no_repeat=3), True, "no_repeat=3, a prefix; use 'native' or 'torch'"),
    ],
)
def test_what_an_engine_does_not_support_is_named(
    directory: Path, engine: str, search: Search, prefixes: bool, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.engines.select.has_gpu", lambda: False)
    engines = EngineSelector(directory, "cpu", engine)
    with raises(SearchError, "unsupported_by_engine", f"'{engine}' does not support {missing}") as caught:
        engines.for_request(EngineRequest(search, prefixes))
    assert "Search(" not in str(caught.value)
    assert not engines.loaded  # that took no loading


def test_an_engine_that_is_not_available_says_why(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.native_model.library", lambda *_, **__: None)
    monkeypatch.setattr("dragoman.engines.specs.why_not", lambda _: "no C compiler was found")
    with raises(SearchError, "engine_unavailable", "'native'", "no C compiler was found", "'torch'"):
        EngineSelector(directory, "cpu", "native").for_request(EngineRequest())


def test_engines_that_are_not_available_are_not_advised(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.specs.find_spec", lambda _: None)
    monkeypatch.setattr("dragoman.engines.select.has_gpu", lambda: False)
    with raises(SearchError, "engine_unavailable", "'torch'", "pip install") as caught:
        EngineSelector(directory, "cpu", "torch").for_request(EngineRequest())
    assert "'cuda'" not in str(caught.value) and "'ctranslate2'" not in str(caught.value)
    if load_code() is None:
        assert "use" not in str(caught.value)


@pytest.mark.parametrize("device", ["mps", "foo", "cuda:7", "cpu:0", "CPU", "", "meta", "cuda:x", "-1"])
def test_a_device_that_is_not_here_is_refused_at_once(
    directory: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.engines.select.available_devices", lambda: ["cpu", "cuda:0", "cuda:1"])
    with raises(SearchError, "device_unavailable", f"'{device}'", "auto, cpu, cuda:0, cuda:1"):
        EngineSelector(directory, device)
    assert EngineSelector(directory, "cuda").device == "cuda"
    assert EngineSelector(directory, "cuda:1").device == "cuda:1"
    with raises(SearchError, "unsupported_by_engine", "'native'", "device='cuda:1'"):
        EngineSelector(directory, "cuda:1", "native")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_no_device(directory: Path) -> None:
    with raises(SearchError, "device_unavailable", "'cuda'", "auto, cpu"):
        Translator.load(directory, device="cuda")


@pytest.mark.parametrize(("engine", "precision"), [("native", "int8"), ("ctranslate2", "int8"), ("torch", "float32")])
def test_a_translator_says_what_it_runs_on(
    directory: Path, engine: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path)) if engine == "ctranslate2" else None
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)  # which would stay for every test after this
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    translator = Translator.load(directory, device="cpu", engine=engine, threads=3)
    if translator.engines.get(engine) is None:
        pytest.skip(f"there is no engine {engine} here")
    assert str(translator.running).startswith(f"{engine} engine, {precision}")
    assert (translator.running.device, translator.running.threads) == ("cpu", 3)


def test_what_runs_depends_on_what_is_asked(directory: Path) -> None:
    translator = Translator.load(directory, device="cpu")
    assert translator.running_for(sampling=Sampling()).engine in ("native", "torch")
    assert translator.running_for(beam=65, prefix="a").engine in ("torch", "ctranslate2")
    assert translator.running_for(constraints=True).engine in ("native", "torch")
    assert translator.running_for(beam=65, constraints=True).engine == "torch"
    with pytest.raises(TypeError, match="bem"):
        translator.running_for(bem=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("trouble", ["not writable", "another process"])
def test_without_room_to_convert_auto_goes_on(
    directory: Path, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr("dragoman.engines.native_model.library", lambda *_, **__: None)
    monkeypatch.setattr("dragoman.engines.ctranslate2.cache_directory", lambda: tmp_path / "cache")
    if trouble == "not writable":
        (tmp_path / "cache").write_text("a file where a directory should be")
    else:

        def busy(_: Path, place: Path, __: str, **___: object) -> None:
            with staged(place), staged(place):
                raise AssertionError("two wrote at once")

        monkeypatch.setattr("dragoman.engines.ctranslate2_conversion.to_ctranslate2", busy)
    translator = Translator.load(directory, device="cpu")
    assert translator.engines.for_request(EngineRequest()).name == "torch"
    assert translator.translate("the old box", max_length=5).tokens
    with raises(SearchError, "engine_unavailable", "CTranslate2", "DRAGOMAN_CACHE", "'auto'"):
        Translator.load(directory, device="cpu", engine="ctranslate2").translate("the old box")


def test_workers_are_the_processors_this_process_may_use(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 97)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    engine = EngineSelector(directory, "cpu", "ctranslate2").get("ctranslate2")
    assert engine is not None
    assert engine.translator.num_translators == available_cores() != 97


@pytest.mark.parametrize(
    ("value", "expected"),
    [("3", 3), (" 5 ", 5), ("7,2", 7), ("1024", 1024)]
    + [(wrong, None) for wrong in ("", "0", "-2", "two", "1.5", "1025", "9" * 5000)],
)
def test_without_threads_the_variable_of_openmp_says_how_many(
    value: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert default_threads() == (expected or available_cores())


@pytest.mark.parametrize("name", ["native", "ctranslate2"])
def test_engines_on_the_cpu_heed_openmps_variable_but_not_above_threads(
    name: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for threads, expected in ((None, 3), (2, 2)):
        engine = EngineSelector(directory, "cpu", name, threads).get(name)
        if engine is None:
            pytest.skip(f"{name} cannot be had here")
        assert engine.threads == expected
