"""Test sets from files, systems, and the saved report."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import sacrebleu

from dragoman.errors import DataError, OutputError
from dragoman.evaluation.metrics import compare_systems, score_corpus
from dragoman.evaluation.report import EvaluationReport, SetResult, unique_file_names
from dragoman.evaluation.systems import FileSystem, ModelSystem
from dragoman.evaluation.test_sets import EvaluationSet, read_test_sets
from dragoman.files import sha256
from dragoman.progress import SilentReporter
from dragoman.search.types import Search
from raising import raises
from small_model import model_at

RIGHT = ["the first line", "a | b and c", "the last one here"]
OURS = ["the first line", "a | c", "no"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def result(name: str = "news", other: list[str] | None = None) -> SetResult:
    held_out = EvaluationSet(name, RIGHT, ["one", "two", "three"])
    differences = compare_systems(OURS, other, RIGHT, ["chrF"], resamples=20) if other else []
    return SetResult(held_out, OURS, score_corpus(OURS, RIGHT), 1.5, differences, {"truncated": 2})


def test_the_report_holds_figures_signatures_and_settings(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    EvaluationReport({"model": "m", "digest": "abc", "search": "beam=4"}, [result()]).write(tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert saved["system"] == {"model": "m", "digest": "abc", "search": "beam=4"}
    (entry,) = saved["sets"]
    assert (entry["name"], entry["sentences"], entry["sentences_per_second"]) == ("news", 3, 2.0)
    assert entry["scores"]["BLEU"]["value"] == sacrebleu.corpus_bleu(OURS, [RIGHT]).score
    assert "tok:13a" in entry["scores"]["BLEU"]["signature"]
    assert saved["versions"]["sacrebleu"] == sacrebleu.__version__
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    for score_ in result().scores:
        assert f"`{score_.signature}`" in page
        assert f"{score_.value:.2f}" in page
    assert "digest: abc" in page and "truncated 2" in page
    assert (tmp_path / "news.translations.txt").read_text().splitlines() == OURS
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_report_is_written_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "torch":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr("dragoman.evaluation.report.version", version)
    EvaluationReport({"model": "m"}, [result()]).write(tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert sorted(saved["versions"]) == ["dragoman", "sacrebleu"]


def test_the_worst_come_first_and_what_is_right_does_not_come(tmp_path: Path) -> None:
    worst = result().worst()
    assert [w["line"] for w in worst] == [3, 2]
    assert worst[0]["chrF"] == round(sacrebleu.sentence_chrf("no", [RIGHT[2]]).score, 2)
    assert worst[1] == {**worst[1], "source": "two", "translation": "a | c", "reference": "a | b and c"}
    EvaluationReport({}, [result()]).write(tmp_path)
    assert r"| two | a \| c | a \| b and c |" in (tmp_path / "report.md").read_text()
    perfect = SetResult(EvaluationSet("p", RIGHT), RIGHT, score_corpus(RIGHT, RIGHT))
    EvaluationReport({}, [perfect]).write(tmp_path / "p")
    assert "Every translation equals its reference" in (tmp_path / "p" / "report.md").read_text()


def test_a_comparison_is_in_the_report(tmp_path: Path) -> None:
    EvaluationReport({}, [result(other=["x", "y", "z"])], "other.txt").write(tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "## Against other.txt" in page
    saved = json.loads((tmp_path / "report.json").read_text())["sets"][0]["differences"]["chrF"]
    assert f"| {saved['value']:.2f} | {saved['other']:.2f} | {saved['value'] - saved['other']:+.2f} |" in page


def test_sets_with_other_signatures_are_told_apart(tmp_path: Path) -> None:
    chinese = ["今天天气不好。", "他去学校了。"]
    other = SetResult(EvaluationSet("zh", chinese), chinese, score_corpus(chinese, chinese))
    EvaluationReport({}, [result(), other]).write(tmp_path)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- BLEU (news): `" in page
    assert "- BLEU (zh): `nrefs:1|case:mixed|eff:no|tok:zh" in page
    assert "- chrF: `" in page


@pytest.mark.parametrize("name", ["report.md", "report.json"])
def test_a_report_takes_the_place_of_reports_alone(name: str, tmp_path: Path) -> None:
    report = EvaluationReport({"model": "m"}, [result()])
    report.write(tmp_path)
    report.write(tmp_path)  # an earlier one
    for own in ("# Evaluation of my summer", '{"format": 1}', "{}"):
        (tmp_path / name).write_text(own)
        with raises(OutputError, "output_exists", name):
            report.write(tmp_path)
        assert (tmp_path / name).read_text() == own
    (tmp_path / name).write_text("")  # as a shell or an editor leaves one
    report.write(tmp_path)
    assert (tmp_path / name).stat().st_size


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(OutputError, "cannot_write"):
        EvaluationReport({}, [result()]).write(tmp_path / "file" / "inside")


def test_names_become_names_of_files() -> None:
    assert unique_file_names(["news/2014 de?", "../..", "...", ""]) == ["news_2014_de_", "_", "set", "set-2"]
    assert unique_file_names(["a b", "a/b", "A b", "a_b-2"]) == ["a_b", "a_b-2", "A_b-3", "a_b-2-2"]


def test_test_sets_are_read_and_named(tmp_path: Path) -> None:
    packed = tmp_path / "b.de.gz"
    packed.write_bytes(gzip.compress(b"x\ny\n"))
    references = [write(tmp_path / "a.de", RIGHT), packed, write(tmp_path / "b.de", ["z"])]
    sources = [write(tmp_path / f"{i}.en", ["s"] * n) for i, n in enumerate((3, 2, 1))]
    found = read_test_sets(references, sources, [])
    assert [(s.name, len(s.references), len(s.sources or [])) for s in found] == [
        ("a.de", 3, 3),
        ("b.de", 2, 2),
        ("b.de-3", 1, 1),
    ]
    assert [s.name for s in read_test_sets(references[:1], [], ["news"])] == ["news"]
    with raises(DataError, "count_mismatch", "0.en has 3 lines", "b.de has 1"):
        read_test_sets([references[2]], [sources[0]], [])
    with raises(DataError, "count_mismatch", "2 --source", "3 --reference", "same order"):
        read_test_sets(references, sources[:2], [])
    with raises(DataError, "count_mismatch", "1 name ", "3 test sets"):
        read_test_sets(references, [], ["news"])
    with raises(DataError, "missing_option", "--reference"):
        read_test_sets([], [], [])


def test_a_model_translates_every_set(tmp_path: Path) -> None:
    model = model_at(tmp_path / "model")
    system = ModelSystem(str(model), Search(beam=1), device="cpu", engine="torch")
    sets = [EvaluationSet("a", ["eins", "zwei"], ["one", "two"]), EvaluationSet("b", ["drei"], ["three"])]
    found = system.translate(sets, SilentReporter())
    assert [t.texts for t in found] == [
        [system.translator.translate(text, beam=1).text for text in s.sources or []] for s in sets
    ]
    assert all(t.seconds is not None and t.seconds > 0 for t in found)
    about = system.describe()
    assert about["digest"] == sha256(model / "manifest.json")
    assert (about["engine"], about["model"]) == ("torch", "model")
    assert "beam=1, length_penalty=0.6" in about["search"]
    with raises(DataError, "missing_option", "c has no sources"):
        system.translate([EvaluationSet("c", ["x"])], SilentReporter())


def test_files_must_fit_the_sets(tmp_path: Path) -> None:
    sets = [EvaluationSet("a", ["x", "y"])]
    path = write(tmp_path / "h", ["1", "2"])
    assert FileSystem([path], "--hypothesis", sets).translate(sets, SilentReporter())[0].texts == ["1", "2"]
    with raises(DataError, "count_mismatch", "--against", "each --reference", "same order"):
        FileSystem([path, path], "--against", sets)
    with raises(DataError, "count_mismatch", "has 1 line but a has 2"):
        FileSystem([write(tmp_path / "short", ["1"])], "--hypothesis", sets)
