"""The Python API for whole tasks: what it returns, and that no module hides its functions."""

from __future__ import annotations

import importlib
import math
import pkgutil
from pathlib import Path
from types import FunctionType

import pytest

import dragoman
from dragoman import Corpus, Recipe, SilentReporter
from dragoman.errors import DataError, SearchError, TrainingError
from dragoman.evaluation.metrics import score_corpus
from opus_model import write_opus
from raising import raises
from small_model import model_at
from tiny_model import write_tiny_model
from tiny_run import TINY, write_corpus

FUNCTIONS = ("average", "evaluate", "finish", "import_model", "plan", "prepare", "train")
STEPS = {"train.steps": 4, "train.warmup_steps": 1, "train.save_every": 2, "train.evaluate_every": 2}
CHANGES = [*TINY, *(f"{key}={value}" for key, value in STEPS.items())]
QUIET = SilentReporter()


def test_no_module_has_the_name_of_a_public_function() -> None:
    for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
        if module.name != "dragoman.__main__":
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # Triton is not everywhere
                assert not (error.name or "").startswith("dragoman")
    for name in FUNCTIONS:
        assert isinstance(getattr(dragoman, name), FunctionType), name


def test_prepare_twice(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, 300)
    for time in range(2):
        prepared = dragoman.prepare(
            source=corpus.source, target=corpus.target, out=tmp_path / "out", changes=CHANGES, reporter=QUIET
        )
        assert prepared.reused == bool(time)
        assert len(prepared.split("valid")) > 0
    with raises(DataError, "run_mismatch", "data.max_tokens"):
        dragoman.prepare(
            source=corpus.source,
            target=corpus.target,
            out=tmp_path / "out",
            changes=[*CHANGES, "data.max_tokens=99"],
            reporter=QUIET,
        )


def test_train_evaluate_and_average(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = write_corpus(tmp_path, 300)
    data = {"source": [str(corpus.source)], "target": [str(corpus.target)], "device": "cpu"}
    first = dragoman.train(**data, out=tmp_path / "model", changes=CHANGES)
    assert "model is finished" in capsys.readouterr().err
    assert first.path == tmp_path / "model"
    assert first.recipe.train.steps == 4
    assert [entry["step"] for entry in first.curve if "valid" in entry] == [2, 4]
    assert math.isfinite(first.metrics["loss"]) and 0 <= first.metrics["bleu"] <= 100
    again = dragoman.train(**data, out=tmp_path / "model", changes=CHANGES, reporter=QUIET)
    assert again == first  # finished: nothing is trained again
    assert capsys.readouterr().err == ""
    with raises(TrainingError, "run_mismatch", "train.seed"):
        dragoman.train(**data, out=tmp_path / "model", changes=[*CHANGES, "train.seed=9"], reporter=QUIET)
    for _ in range(2):
        test = {"source": corpus.source, "reference": corpus.target, "beam": 1, "device": "cpu", "metrics": ["chrF"]}
        found = dragoman.evaluate(first.path, **test, report=tmp_path / "report")
        assert [score.metric for score in found.results[0].scores] == ["chrF"]
        assert (tmp_path / "report" / "report.json").is_file()
    averaged = dragoman.average(first.path, out=tmp_path / "mean", last=2)
    assert len(averaged.parts) == 2 and (averaged.path / "manifest.json").is_file()


def test_a_recipe_a_model_to_start_from_and_a_validation_set(tmp_path: Path) -> None:
    corpus, other = write_corpus(tmp_path, 300), tmp_path / "valid"
    other.mkdir()
    valid = write_corpus(other, 20)
    base = model_at(tmp_path / "base")
    own = Recipe.load(base / "recipe.toml")
    result = dragoman.train(
        corpora=[corpus],
        valid=(str(valid.source), str(valid.target)),
        out=tmp_path / "out",
        recipe=own,
        changes={**STEPS, "model.dropout": 0.25},
        start_from=str(base),
        device="cpu",
        reporter=QUIET,
    )
    assert (result.recipe.model.dropout, result.recipe.model.d_model) == (0.25, own.model.d_model)
    assert result.recipe.text == own.text


def test_wrong_arguments(tmp_path: Path) -> None:
    with raises(DataError, "count_mismatch"):
        dragoman.train(source=["a.en", "b.en"], target="a.de", out=tmp_path / "out")
    with raises(DataError, "no_data"):
        dragoman.prepare(out=tmp_path / "out")
    with raises(DataError, "wrong_type"):
        dragoman.train(source="a.en", target="a.de", valid="v.en", out=tmp_path / "out")
    with raises(DataError, "wrong_type", "'a.tsv'"):
        dragoman.train(corpora=["a.tsv"], out=tmp_path / "out")  # type: ignore[list-item]
    with raises(SearchError, "wrong_type", "int 3"):
        dragoman.train(source="a.en", target="a.de", device=3, out=tmp_path / "out")  # type: ignore[arg-type]
    with raises(TrainingError, "wrong_type", "'5'"):
        dragoman.train(source="a.en", target="a.de", minutes="5", out=tmp_path / "out")  # type: ignore[arg-type]
    with raises(DataError, "wrong_type", "out", "None"):
        dragoman.train(source="a.en", target="a.de", out=None)  # type: ignore[arg-type]
    with raises(TrainingError, "wrong_type", "last", "'x'"):
        dragoman.average(tmp_path, out=tmp_path / "out", last="x")  # type: ignore[arg-type]
    with raises(DataError, "conflicting_options", "--hypothesis"):
        dragoman.evaluate(reference="a.de")
    assert not list(tmp_path.iterdir())


def test_import_twice(tmp_path: Path) -> None:
    for time in range(2):
        result = dragoman.import_model(write_opus(tmp_path / f"theirs{time}"), out=tmp_path / f"ours{time}")
        assert (result.path / "manifest.json").is_file() and result.toolkit


def test_corpora_of_other_forms(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, 300)
    lines = [Path(side).read_text(encoding="utf-8").splitlines() for side in (corpus.source, str(corpus.target))]
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(*lines, strict=True)), encoding="utf-8")
    prepared = dragoman.prepare(
        corpora=[Corpus(tmp_path / "pairs.tsv", form="tsv", weight=2.0)],
        out=tmp_path / "out",
        changes=CHANGES,
        reporter=QUIET,
    )
    assert [part.weight for part in prepared.split().parts] == [2.0]


def test_one_name_is_a_list_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("der alte Kasten\nsieben\n")
    files = {"reference": tmp_path / "a.de", "hypothesis": tmp_path / "a.de"}
    found = dragoman.evaluate(**files, metrics="BLEU", names="days", reporter=dragoman.SilentReporter())
    assert [score.metric for score in found.results[0].scores] == ["BLEU"]
    assert [score.metric for score in score_corpus(["sieben"], ["sieben"], "chrF")] == ["chrF"]
    model = write_tiny_model(tmp_path / "tiny")
    translator = dragoman.Translator.load(model, device="cpu")
    texts = ["the old box", "seven"]
    for name in ("require", "avoid"):
        one, several = (translator.translate(texts, **{name: phrase}, max_length=9) for phrase in ("box", ["box"]))
        assert [found.text for found in one] == [found.text for found in several]
        assert [found.met for found in one] == [("box",) if name == "require" else ()] * 2
    with raises(SearchError, "wrong_type", "'box'"):
        translator.translate(texts, terms="box")
    with pytest.raises(TypeError, match=r"^translate\(\) .* 'baem'; did you mean 'beam'\?"):
        translator.translate("seven", baem=4)  # type: ignore[call-overload]
    written = translator.source.save(str(tmp_path / "tokenizer"), "shared")
    assert all(path.is_file() for path in written)


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    model, out = model_at(tmp_path / "model"), tmp_path / "out"
    monkeypatch.setattr("dragoman.translation.probes.store_probes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dragoman.quantize(model, out=out)
    with pytest.raises(KeyboardInterrupt):
        dragoman.average([model, model_at(tmp_path / "other")], out=out)
    assert not out.exists()
