"""Other uses of imported models: lexical constraints, added languages, head surveys."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq_files import write_fairseq
from safetensors.torch import load_file

from command_line import leave
from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.errors import SearchError
from dragoman.translation.translator import Translator
from opus_model import LANGUAGES, lines, write_opus
from raising import raises

TEXTS = [*lines(0)[:6], "half past seven"]


@pytest.fixture(scope="module", params=[(), LANGUAGES], ids=["one", "several"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("opus")
    read_source_model(write_opus(place / "opus", languages=request.param), ImportOptions()).write(place / "model")
    return place / "model"


def files(folder: Path) -> list[str]:
    sides = [folder / f"train.{code}" for code in ("en", "de")]
    for side, path in enumerate(sides):
        path.write_text("".join(f"{line}\n" for line in lines(side)[:60]), encoding="utf-8")
    return [f"--{name}={path}" for name, path in zip(("source", "target"), sides, strict=True)]


def test_words_are_required_and_avoided(model: Path) -> None:
    translator = Translator.load(model, device="cpu")
    to = {"to": LANGUAGES[1]} if translator.targets else {}
    for word in ("Äpfel", "am Montag"):
        found = translator.translate(TEXTS, require=[word], max_length=30, **to)
        assert all(word in one.text and not one.unmet for one in found)
    with raises(SearchError, "phrase_not_writable"):
        translator.translate(TEXTS[0], require=["(Haus)"], **to)
    limits = {"min_length": 6, "max_length": 12}
    words = {word for one in translator.translate(TEXTS, **limits, **to) for word in one.text.split() if word.isalpha()}
    assert words
    for one in translator.translate(TEXTS, avoid=sorted(words), **limits, **to):
        assert words.isdisjoint(one.text.split())


def test_languages_are_added(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = Translator.load(model, device="cpu").targets
    targets = [*theirs, "nds"]
    settings = ["train.steps=1", "train.average=1", "data.valid_pairs=4", "data.batch_tokens=200", "data.max_tokens=60"]
    asked = [word for setting in (*settings, f"text.targets={targets}") for word in ("--set", setting)]
    out = tmp_path / "more"
    code, _, err = leave(capsys, "train", f"--from={model}", *files(tmp_path), "--to=nds", f"--out={out}", *asked)
    assert code == 0, err
    made = Translator.load(out, device="cpu")
    assert made.targets == tuple(targets)
    assert made.translate(TEXTS[0], to="nds", min_length=2, max_length=9).tokens
    before, after = (load_file(place / "model.safetensors") for place in (model, out))
    grown = {name for name in before if before[name].shape != after[name].shape}
    assert grown == {"embeddings.tables.shared", "embeddings.output_bias"}
    assert len(after["embeddings.output_bias"]) == len(before["embeddings.output_bias"]) + 1


def test_heads_are_asked_and_two_passes_learn(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = files(tmp_path)
    to = ["--to", LANGUAGES[0]] if Translator.load(model, device="cpu").targets else []
    code, out, err = leave(capsys, "inspect", "heads", str(model), *pairs, "--pairs", "3", "--no-ablate", *to)
    assert code == 0 and "cross" in out, err
    settings = ["train.steps=1", "train.average=1", "data.valid_pairs=4", "data.batch_tokens=200", "data.max_tokens=60"]
    asked = [word for setting in (*settings, "train.r_drop=5") for word in ("--set", setting)]
    code, _, err = leave(capsys, "train", f"--from={model}", *pairs, *to, f"--out={tmp_path / 'm'}", *asked)
    assert code == 0, err


def test_tokens_that_do_not_say_where_words_begin_take_no_demands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_fairseq(tmp_path / "fairseq")
    code, _, err = leave(
        capsys,
        "import",
        str(checkpoint),
        "--tokenizer",
        str(checkpoint.with_name("codes")),
        "--out",
        str(tmp_path / "m"),
    )
    assert code == 0, err
    (tmp_path / "in").write_text("the lower\n")
    for option in ("--require", "--avoid"):
        code, _, err = leave(capsys, "translate", str(tmp_path / "m"), str(tmp_path / "in"), option, "newer")
        assert (code, "imported tokenizer does not mark where words begin" in err) == (2, True), err
