"""Which engine is taken, in which precision, and what is refused rather than done otherwise than asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from dragoman import Translator
from dragoman.cpu import available_cores
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.native import usual_threads
from dragoman.engines.select import ENGINES, HAVE, PRECISIONS, Engines
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError
from dragoman.evaluation.systems import ModelSystem
from dragoman.files import staged
from dragoman.models.loading import load_model
from dragoman.search.types import Sampling, Search
from dragoman.text.special_tokens import PAD
from tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.select.gpu", lambda: False)


@pytest.mark.parametrize("precision", ["auto", "int8", "float32"])
@pytest.mark.parametrize("engine", ["native", "ctranslate2", "torch"])
def test_a_report_has_the_precision_that_was_used(
    directory: Path, engine: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "ctranslate2":
        monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    asked = {"engine": engine, "precision": precision, "device": "cpu"}
    if engine == "torch" and precision == "int8":
        with pytest.raises(
            SearchError, match="'torch' does not have precision 'int8'; 'native' and 'ctranslate2' have"
        ):
            ModelSystem(str(directory), Search(), **asked)
        return
    system = ModelSystem(str(directory), Search(), **asked)
    if system.translator.engines.get(engine) is None:
        pytest.skip(f"there is no engine {engine} here")
    about = system.about()
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
def test_a_precision_is_had_or_refused(directory: Path, engine: str, precision: str) -> None:
    if precision == "auto" or precision in HAVE[engine]:
        assert Engines(directory, "cpu", engine, precision=precision).names == [engine]
        return
    others = " and ".join(f"'{name}'" for name in ENGINES if precision in HAVE[name])
    with pytest.raises(SearchError, match=f"{engine}' does not have precision '{precision}'; {others} have it"):
        Engines(directory, "cpu", engine, precision=precision)


def test_a_device_without_the_precision(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SearchError, match=r"no engine for 'cuda' has precision 'int8'; .* have it on a CPU"):
        Engines(directory, "cuda", precision="int8")
    monkeypatch.setattr("dragoman.engines.select.gpu", lambda: True)
    monkeypatch.setattr("dragoman.engines.devices.devices", lambda: ["cpu", "cuda:0"])
    assert Engines(directory, precision="bfloat16").device == "cuda"
    assert Engines(directory, precision="int8").device == "cpu"  # where alone it can be had
    assert Engines(directory, engine="native").device == "cpu"


def test_a_search_that_no_engine_of_the_precision_can_do(directory: Path) -> None:
    drawn = Search(sampling=Sampling(), max_length=3)
    with pytest.raises(SearchError, match=r"with precision 'int8': .*does not do sampling.*; use another precision"):
        Engines(directory, "cpu", precision="int8").for_search(drawn)
    assert Engines(directory, "cpu", precision="float32").for_search(drawn).name == "torch"


@pytest.mark.parametrize(
    ("engine", "search", "prefixes", "message"),
    [
        ("native", Search(beam=65, no_repeat=3), True, "'native' does not do beam=65; use engine 'auto' or 'torch'"),
        ("native", Search(sampling=Sampling()), False, "'native' does not do sampling; use"),
        ("ctranslate2", Search(no_repeat=3), True, "'ctranslate2' does not do no_repeat=3, a prefix; use"),
        (
            "cuda",
            Search(),
            False,
            r"'cuda' cannot be had .* on cpu here \(it needs an NVIDIA GPU; the devices are: cpu",
        ),
    ],
)
def test_what_an_engine_does_not_do_is_named(
    directory: Path, engine: str, search: Search, prefixes: bool, message: str
) -> None:
    engines = Engines(directory, "cpu", engine)
    if engine != "cuda" and engines.get(engine) is None:
        pytest.skip(f"there is no engine {engine} here")
    with pytest.raises(SearchError, match=message) as refused:
        engines.for_search(search, prefixes)
    assert "Search(" not in str(refused.value)


@pytest.mark.parametrize("device", ["mps", "foo", "cuda:7", "cpu:0", "CPU", "", "meta", "cuda:x", "-1"])
def test_a_device_that_is_not_here_is_refused_at_once(
    directory: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.engines.devices.devices", lambda: ["cpu", "cuda:0", "cuda:1"])
    with pytest.raises(
        SearchError, match=f"there is no device '{device}' here.*; use one of: auto, cpu, cuda:0, cuda:1"
    ):
        Engines(directory, device)
    assert Engines(directory, "cuda").device == "cuda"
    assert Engines(directory, "cuda:1").device == "cuda:1"
    with pytest.raises(SearchError, match="'native' works on the CPU, but device 'cuda:1' was asked for"):
        Engines(directory, "cuda:1", "native")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_no_device(directory: Path) -> None:
    with pytest.raises(SearchError, match=r"there is no device 'cuda' here.*; use one of: auto, cpu"):
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
    assert translator.running_for(sampling=Sampling()).engine == "torch"
    assert translator.running_for(beam=65, prefix="a").engine in ("torch", "ctranslate2")
    with pytest.raises(SearchError, match="no setting 'bem'"):
        translator.running_for(bem=3)


@pytest.mark.parametrize("trouble", ["not writable", "another process"])
def test_without_room_to_convert_auto_goes_on(
    directory: Path, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr("dragoman.engines.native.library", lambda _, structures: None)
    monkeypatch.setattr("dragoman.engines.ctranslate2.cache_directory", lambda: tmp_path / "cache")
    if trouble == "not writable":
        (tmp_path / "cache").write_text("a file where a directory should be")
    else:

        def busy(_: Path, place: Path, __: str) -> None:
            with staged(place), staged(place):
                raise AssertionError("two wrote at once")

        monkeypatch.setattr("dragoman.engines.ctranslate2.to_ctranslate2", busy)
    translator = Translator.load(directory, device="cpu")
    assert translator.engines.for_search(Search()).name == "torch"
    assert translator.translate("the old box", max_length=5).tokens
    with pytest.raises(SearchError, match="cannot be converted for CTranslate2"):
        Translator.load(directory, device="cpu", engine="ctranslate2").translate("the old box")


def test_workers_are_the_processors_this_process_may_use(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 97)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    engine = Engines(directory, "cpu", "ctranslate2").get("ctranslate2")
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
    assert usual_threads() == (expected or available_cores())


@pytest.mark.parametrize("name", ["native", "ctranslate2"])
def test_engines_on_the_cpu_heed_openmps_variable_but_not_above_threads(
    name: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for threads, expected in ((None, 3), (2, 2)):
        engine = Engines(directory, "cpu", name, threads).get(name)
        if engine is None:
            pytest.skip(f"{name} cannot be had here")
        assert engine.threads == expected
