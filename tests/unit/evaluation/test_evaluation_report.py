"""Test sets out of files, systems, and the report that is saved."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import sacrebleu

from dragoman.errors import DataError
from dragoman.evaluation.metrics import compare, score
from dragoman.evaluation.report import Report, Result, file_names
from dragoman.evaluation.systems import FileSystem, ModelSystem
from dragoman.evaluation.test_sets import HeldOut, read_held_out
from dragoman.files import sha256
from dragoman.progress import SilentReporter
from dragoman.search.types import Search
from small_model import model_at

RIGHT = ["the first line", "a | b and c", "the last one here"]
OURS = ["the first line", "a | c", "no"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def result(name: str = "news", other: list[str] | None = None) -> Result:
    held_out = HeldOut(name, RIGHT, ["one", "two", "three"])
    differences = compare(OURS, other, RIGHT, ["chrF"], resamples=20) if other else []
    return Result(held_out, OURS, score(OURS, RIGHT), 1.5, differences, {"truncated": 2})


def test_the_report_holds_figures_signatures_and_settings(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    Report({"model": "m", "digest": "abc", "search": "beam=4"}, [result()]).write(tmp_path)
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


def test_the_worst_come_first_and_what_is_right_does_not_come(tmp_path: Path) -> None:
    worst = result().worst()
    assert [w["line"] for w in worst] == [3, 2]
    assert worst[0]["chrF"] == round(sacrebleu.sentence_chrf("no", [RIGHT[2]]).score, 2)
    assert worst[1] == {**worst[1], "source": "two", "translation": "a | c", "reference": "a | b and c"}
    Report({}, [result()]).write(tmp_path)
    assert r"| two | a \| c | a \| b and c |" in (tmp_path / "report.md").read_text()
    perfect = Result(HeldOut("p", RIGHT), RIGHT, score(RIGHT, RIGHT))
    Report({}, [perfect]).write(tmp_path / "p")
    assert "Every translation is the reference" in (tmp_path / "p" / "report.md").read_text()


def test_a_comparison_is_in_the_report(tmp_path: Path) -> None:
    Report({}, [result(other=["x", "y", "z"])], "other.txt").write(tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "## Against other.txt" in page
    saved = json.loads((tmp_path / "report.json").read_text())["sets"][0]["differences"]["chrF"]
    assert f"| {saved['value']:.2f} | {saved['other']:.2f} | {saved['value'] - saved['other']:+.2f} |" in page


def test_sets_with_other_signatures_are_told_apart(tmp_path: Path) -> None:
    chinese = ["今天天气不好。", "他去学校了。"]
    other = Result(HeldOut("zh", chinese), chinese, score(chinese, chinese))
    Report({}, [result(), other]).write(tmp_path)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- BLEU (news): `" in page
    assert "- BLEU (zh): `nrefs:1|case:mixed|eff:no|tok:zh" in page
    assert "- chrF: `" in page


@pytest.mark.parametrize("name", ["report.md", "report.json"])
def test_a_report_takes_the_place_of_reports_alone(name: str, tmp_path: Path) -> None:
    report = Report({"model": "m"}, [result()])
    report.write(tmp_path)
    report.write(tmp_path)  # an earlier one
    for own in ("# Evaluation of my summer", '{"format": 1}', "{}"):
        (tmp_path / name).write_text(own)
        with pytest.raises(DataError, match=rf"{name} is there already, and no report of ours; it is left alone"):
            report.write(tmp_path)
        assert (tmp_path / name).read_text() == own
    (tmp_path / name).write_text("")  # as a shell or an editor leaves one
    report.write(tmp_path)
    assert (tmp_path / name).stat().st_size


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        Report({}, [result()]).write(tmp_path / "file" / "inside")


def test_names_become_names_of_files() -> None:
    assert file_names(["news/2014 de?", "../..", "...", ""]) == ["news_2014_de_", "_", "set", "set-2"]
    assert file_names(["a b", "a/b", "A b", "a_b-2"]) == ["a_b", "a_b-2", "A_b-3", "a_b-2-2"]


def test_test_sets_are_read_and_named(tmp_path: Path) -> None:
    packed = tmp_path / "b.de.gz"
    packed.write_bytes(gzip.compress(b"x\ny\n"))
    references = [write(tmp_path / "a.de", RIGHT), packed, write(tmp_path / "b.de", ["z"])]
    sources = [write(tmp_path / f"{i}.en", ["s"] * n) for i, n in enumerate((3, 2, 1))]
    found = read_held_out(references, sources, [])
    assert [(s.name, len(s.references), len(s.sources or [])) for s in found] == [
        ("a.de", 3, 3),
        ("b.de", 2, 2),
        ("b.de-3", 1, 1),
    ]
    assert [s.name for s in read_held_out(references[:1], [], ["news"])] == ["news"]
    with pytest.raises(DataError, match=r"0\.en has 3 lines but .*b\.de has 1"):
        read_held_out([references[2]], [sources[0]], [])
    with pytest.raises(DataError, match="2 files came with --source but 3 with --reference"):
        read_held_out(references, sources[:2], [])
    with pytest.raises(DataError, match="1 names came for 3 test sets"):
        read_held_out(references, [], ["news"])
    with pytest.raises(DataError, match="give --reference"):
        read_held_out([], [], [])


def test_a_model_translates_every_set(tmp_path: Path) -> None:
    model = model_at(tmp_path / "model")
    system = ModelSystem(str(model), Search(beam=1), device="cpu", engine="torch")
    sets = [HeldOut("a", ["eins", "zwei"], ["one", "two"]), HeldOut("b", ["drei"], ["three"])]
    found = system.translated(sets, SilentReporter())
    assert [t.texts for t in found] == [
        [system.translator.translate(text, beam=1).text for text in s.sources or []] for s in sets
    ]
    assert all(t.seconds is not None and t.seconds > 0 for t in found)
    about = system.about()
    assert about["digest"] == sha256(model / "manifest.json")
    assert (about["engine"], about["model"]) == ("torch", "model")
    assert "beam=1, length_penalty=0.6" in about["search"]
    with pytest.raises(DataError, match="c has no sources"):
        system.translated([HeldOut("c", ["x"])], SilentReporter())


def test_files_must_fit_the_sets(tmp_path: Path) -> None:
    sets = [HeldOut("a", ["x", "y"])]
    path = write(tmp_path / "h", ["1", "2"])
    assert FileSystem([path], "--hypothesis", sets).translated(sets, SilentReporter())[0].texts == ["1", "2"]
    with pytest.raises(DataError, match="2 files came with --against for 1 test sets"):
        FileSystem([path, path], "--against", sets)
    with pytest.raises(DataError, match="has 1 lines but a has 2"):
        FileSystem([write(tmp_path / "short", ["1"])], "--hypothesis", sets)
