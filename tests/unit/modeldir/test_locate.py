"""Models that are found, verified and opened, and what is refused in their place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.errors import DamagedError, SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.locate import find_model, verify_once
from dragoman.models.directory import load_model
from dragoman.text.special_tokens import PAD
from tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_models_by_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_MODELS", str(directory.parent))
    assert find_model("tiny") == directory
    with pytest.raises(DamagedError, match=r"no model of that name in .* \(did you mean 'tiny'\?\)"):
        find_model("tin")
    (directory.parent / "notes").mkdir()
    with pytest.raises(DamagedError, match=r"no model of that name in .* \(there are: tiny\)"):
        find_model("other")
    monkeypatch.delenv("DRAGOMAN_MODELS")
    monkeypatch.setenv("XDG_DATA_HOME", str(directory.parent.parent))
    with pytest.raises(DamagedError, match="there are none"):
        find_model("tiny")


def test_a_path_that_is_not_there_gets_the_model_that_was_meant(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    for name in ("model", "second"):
        (runs / "demo" / name).mkdir(parents=True)
        for file in ("manifest.json", "recipe.toml"):
            (runs / "demo" / name / file).touch()
    (runs / "demo" / "modles").mkdir()  # nearer, but no model
    for path in ("demo/modle", "dem/model", "dmo/modle"):
        with pytest.raises(
            DamagedError, match=f"there is no directory {runs / path}; did you mean {runs}/demo/model\\?$"
        ):
            find_model(runs / path)
    with pytest.raises(DamagedError, match=f"there is no directory .*; in {runs}/demo there are: model, second$"):
        find_model(runs / "demo" / "other")
    with pytest.raises(DamagedError, match="give the --out of a finished training"):
        find_model(tmp_path / "nothing" / "like" / "it")
    monkeypatch.chdir(runs / "demo")
    monkeypatch.setenv("DRAGOMAN_MODELS", str(directory.parent))
    with pytest.raises(
        DamagedError, match=r"no model of that name in .* \(did you mean 'tiny'\?\); here there are: model,"
    ):
        find_model("tin")
    with pytest.raises(DamagedError, match=r"did you mean model\?$"):
        find_model("modle")


def test_what_is_no_model_is_refused_in_words(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=r"did you mean .*tiny\?"):
        find_model(directory.parent)
    (tmp_path / "run" / "training").mkdir(parents=True)
    with pytest.raises(DamagedError, match="a training that has not ended"):
        find_model(tmp_path / "run")
    with pytest.raises(DamagedError, match="is a file"):
        find_model(directory / "recipe.toml")
    with pytest.raises(DamagedError, match="is not a model"):
        find_model(tmp_path)


def test_a_model_is_read_once_to_be_verified_and_again_when_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "model")
    read: list[Path] = []

    def counted(path: Path) -> None:
        from dragoman.files import verify_manifest

        read.append(path)
        verify_manifest(path)

    monkeypatch.setattr("dragoman.modeldir.locate.verify_manifest", counted)
    verify_once(model)
    verify_once(model)
    assert len(read) == 1
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (model / "model.safetensors").write_bytes(content)
    with pytest.raises(DamagedError, match="was changed or damaged"):
        verify_once(model)
    with pytest.raises(DamagedError, match="was changed or damaged"):
        verify_once(model)
    assert len(read) == 3


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "recipe.toml", "shared.json", "shared.spm"])
def test_a_model_is_promised_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "model")
    whole = (model / MANIFEST).read_text()
    Translator.load(model)  # what was verified before must not hide it
    (model / "notes.txt").write_text("mine")
    Translator.load(model)  # what people put beside a model is theirs
    (model / "more.spm").write_text("foreign")
    with pytest.raises(DamagedError, match=r"more\.spm is not in manifest\.json"):
        Translator.load(model)
    (model / "more.spm").unlink()
    manifest = json.loads(whole)
    del manifest["files"][name]
    (model / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedError, match=f"does not name {name}|{name} is not in"):
        Translator.load(model)
    (model / name).unlink()
    with pytest.raises(DamagedError, match="does not name" if name != "recipe.toml" else "is not a model"):
        Translator.load(model)
    if not name.startswith("shared"):
        with pytest.raises(DamagedError, match="does not name" if name != "recipe.toml" else "is not a model"):
            load_model(model, PAD)


@pytest.mark.parametrize(
    "asked",
    [
        {"engine": "nativ"},
        {"engine": None},
        {"precision": "int4"},
        {"precision": 8},
        {"threads": 0},
        {"threads": "two"},
        {"threads": 1025},
        {"device": "nowhere"},
        {"device": None},
    ],
)
def test_what_cannot_be_loaded(directory: Path, asked: dict[str, object]) -> None:
    with pytest.raises(SearchError, match=str(next(iter(asked.values()))).replace("1025", "1,025")):
        Translator.load(directory, **({"engine": "torch"} | asked)).translate("a")  # type: ignore[arg-type]


def test_loading_needs_no_torch(directory: Path) -> None:
    code = (
        "import sys; from dragoman import Translator; from dragoman.engines.select import ENGINES\n"
        f"t = Translator.load({str(directory)!r}, device='cpu')\n"
        "assert t.engines.get('native') is None or t.translate('the box', max_length=5) is not None\n"
        "assert not {'torch', 'sacrebleu', 'rich', 'click', 'sentencex', 'tokenizers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_links_to_models_are_followed_and_those_that_lead_nowhere_are_named(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    assert Translator.load(tmp_path / "link", device="cpu", engine="torch").translate("box", max_length=2).tokens
    (tmp_path / "broken").symlink_to("gone")
    with pytest.raises(DamagedError, match="broken is a link to gone, which is not there"):
        find_model(tmp_path / "broken")
