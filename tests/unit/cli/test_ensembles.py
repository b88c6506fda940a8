"""`--ensemble` on the command line: translate, score and evaluate with an ensemble."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import leave
from dragoman import Translator
from dragoman.files import MANIFEST, sha256
from tiny_model import write_tiny_model

TEXTS = ["the old box", "", "seven halls", "Good morning!"]
RIGHT = ["der alte Kasten", "", "sieben Flure", "Guten Morgen!"]
QUICK = ["--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    write_tiny_model(folder / "one")
    write_tiny_model(folder / "two", "model.d_model=18", seed=5)
    write_tiny_model(folder / "three", "model.architecture=recurrent", "model.cell=gru", seed=6, noise=0.1)
    write_tiny_model(folder / "apart", shared=False)
    (folder / "test.en").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    (folder / "test.de").write_text("".join(f"{text}\n" for text in RIGHT), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_translate(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for mean in ("probabilities", "log-probabilities"):
        translator = Translator.load("one", device="cpu", ensemble=["two", "three"], mean=mean)  # type: ignore[arg-type]
        expected = translator.translate(TEXTS, max_length=6)
        words = ["one", "--ensemble", "two", "--ensemble", "three", "test.en", "--scores", "--max-length", "6", *QUICK]
        code, out, err = leave(capsys, "translate", *words, "--mean", mean, "--progress")
        assert code == 0, err
        assert out == "".join(f"{one.text}\t{one.score:.4f}\n" for one in expected)
        assert err.startswith("dragoman: torch engine, 3 models, float32, on cpu")
        said.append(out)
    assert said[0] != said[1]
    code, out, _ = leave(capsys, "translate", *words)
    assert (code, out) == (0, said[0])  # the default


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = list(zip(TEXTS, RIGHT, strict=True))
    expected = Translator.load("one", device="cpu", ensemble="two", mean="log-probabilities").score(pairs)
    words = ["--ensemble", "two", "--mean", "log-probabilities", "--source", "test.en", "--target", "test.de"]
    code, out, err = leave(capsys, "score", "one", *words, *QUICK)
    assert (code, out) == (0, "".join(f"{one.log_probability:.4f}\n" for one in expected)), err
    alone = leave(capsys, "score", "one", *words[4:], *QUICK)[1]
    assert alone.count("\n") == 4 and alone != out


def test_evaluate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--source", "test.en", "--reference", "test.de", "--metric", "chrF", "--beam", "2", *QUICK]
    place = tmp_path / "report"
    code, out, err = leave(
        capsys, "evaluate", "one", "--ensemble", "two", *words, "--against", "one", "--report", str(place)
    )
    assert code == 0, err
    assert "against" in out
    about = json.loads((place / "report.json").read_text(encoding="utf-8"))
    told = json.dumps(about)
    assert "one + two" in told and '"mean": "probabilities"' in told
    assert f"{sha256(Path('one') / MANIFEST)}, {sha256(Path('two') / MANIFEST)}" in told
    (written,) = place.glob("*.translations.txt")
    expected = Translator.load("one", device="cpu", ensemble="two").translate(TEXTS, beam=2)
    assert written.read_text(encoding="utf-8").split("\n")[:4] == [one.text.replace("\n", " ") for one in expected]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["translate", "one", "test.en", "--ensemble", "apart"], "apart/target.spm differs from one/shared.spm"),
        (["translate", "one", "test.en", "--ensemble", "nothing"], "nothing"),
        (["translate", "one", "test.en", "--ensemble", "two", "--alignments"], "has no attention or alignment"),
        (
            ["translate", "one", "test.en", "--ensemble", "two", "--engine", "ctranslate2"],
            "an ensemble of 2 models",
        ),
        (
            ["translate", "one", "test.en", "--ensemble", "two", "--engine", "torch", "--precision", "int8"],
            "'torch' does not support precision='int8'",
        ),
        (
            ["translate", "one", "test.en", "--mean", "probabilities"],
            "--mean has no effect: there is only one",
        ),
        (
            ["score", "one", "test.en", "--mean", "probabilities"],
            "--mean has no effect: there is only one",
        ),
        (
            ["evaluate", "--hypothesis", "test.de", "--reference", "test.de", "--ensemble", "one"],
            "--ensemble has no effect: it needs MODEL",
        ),
        (["translate", "one", "test.en", "--ensemble", "two", "--mean", "x"], "'x' is not one of 'probabilities'"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    code, out, err = leave(capsys, *words, *([] if words[0] == "evaluate" else QUICK))
    assert (code, out) == (2, "")
    assert said in err
