"""`dragoman inspect heads`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import command_line
from dragoman.inspect.heads.survey import survey_heads
from dragoman.translation.translator import Translator
from small_model import model_at
from tiny_model import LINES, write_tiny_model

SOURCES = ["one two three", "four five", "", "six", "seven eight nine ten"]
TARGETS = ["eins zwei drei", "vier fünf", "", "sechs", "sieben acht neun zehn"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and two files of sentences."""
    folder = tmp_path_factory.mktemp("cli")
    model_at(folder / "model")
    (folder / "s").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (folder / "t").write_text("\n".join(TARGETS) + "\n", encoding="utf-8")
    return folder


def leave(capsys: pytest.CaptureFixture[str], place: Path, *args: str) -> tuple[int, str, str]:
    files = ["--source", str(place / "s"), "--target", str(place / "t")]
    return command_line.leave(capsys, "inspect", "heads", str(place / "model"), *files, *args)


def test_a_table_and_figures_for_programs(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads.json"
    code, printed, err = leave(capsys, place, "--out", str(out))
    assert code == 0, err
    found = survey_heads(Translator.load(place / "model", device="cpu", engine="torch"), SOURCES, TARGETS)
    rows = [line.split() for line in printed.splitlines()]
    assert rows[0] == ["head", "ablation", "sensitivity", "confidence", "attends", "to"]
    assert [" ".join(row[:2]) for row in rows[1:]] == [str(head.id) for head in found.heads]
    for row, head in zip(rows[1:], found.heads, strict=True):
        assert float(row[2]) == pytest.approx(head.ablation, abs=6e-5)
        assert float(row[3]) == pytest.approx(head.sensitivity, abs=6e-5)
        assert head.statistics is not None and float(row[4]) == pytest.approx(head.statistics.confidence, abs=6e-3)
        assert " ".join(row[5:]).startswith(head.label)
    assert "4 pairs (1 skipped: one side is empty or too long)" in err
    assert f"alignments are read from {found.alignment_head}" in err and "Spearman" in err
    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["cross_entropy"] == pytest.approx(found.cross_entropy, abs=1e-6)
    assert [row["label"] for row in told["heads"]] == [head.label for head in found.heads]
    assert told["curve"] == [] and told["ablated"] is True


def test_the_first_pairs_and_the_estimate_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = leave(capsys, place, "--pairs", "2", "--no-ablate")
    assert code == 0, err
    assert printed.split()[1] == "sensitivity" and "ablation" not in printed
    assert "dragoman: 2 pairs, " in err and "--ablate removes each head in turn" in err


def test_a_picture_with_the_curve(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads.png"
    code, printed, err = leave(capsys, place, "--curve", "--bleu", "--out", str(out))
    assert code == 0, err
    assert out.read_bytes().startswith(b"\x89PNG")
    rows = [line.split() for line in printed.split("\n\n")[1].splitlines()]
    assert rows[0] == ["heads", "removed", "cross-entropy", "BLEU"]
    assert [int(row[0]) for row in rows[1:]] == list(range(16))


def test_a_page(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads.html"
    code, _, err = leave(capsys, place, "--out", str(out))
    assert code == 0, err
    text = out.read_text(encoding="utf-8")
    assert "cross, layer" not in text and '"kind":"cross","layer":2,"head":3' in text


def test_models_of_trees_and_of_languages(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model_at(tmp_path / "model", positions="syntax")
    (tmp_path / "s").write_text("one two\n\none two\n", encoding="utf-8")
    (tmp_path / "t").write_text("eins\n\nzwei\n", encoding="utf-8")
    tree = "1\tone\t_\t_\t_\t_\t2\t_\t_\t_\n2\ttwo\t_\t_\t_\t_\t0\t_\t_\t_\n\n"
    (tmp_path / "trees").write_text(tree * 2, encoding="utf-8")
    out = str(tmp_path / "a.html")
    code, _, err = leave(capsys, tmp_path, "--source-trees", str(tmp_path / "trees"), "--out", out)
    assert code == 0, err
    code, _, err = leave(capsys, tmp_path, "--source-trees", str(tmp_path / "trees"), "--pairs", "1")
    assert (code, "1 pair, " in err) == (0, True), err
    code, _, err = leave(capsys, tmp_path)
    assert (code, "--source-trees" in err) == (2, True), err
    other = tmp_path / "other"
    write_tiny_model(other / "model", 'text.targets=["de", "fr"]')
    (other / "s").write_text(f"{LINES[0]}\n", encoding="utf-8")
    (other / "t").write_text(f"{LINES[4]}\n", encoding="utf-8")
    assert leave(capsys, other, "--to", "fr", "--out", out)[0] == 0
    assert leave(capsys, other)[0] == 2


def test_a_missing_package_is_told_before_the_work(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("dragoman.inspect.heads.survey.survey_heads", None)
    code, printed, err = leave(capsys, place, "--out", "a.png")
    assert (code, printed, "pip install" in err) == (2, "", True), err


def test_mistakes_are_messages(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, lines in {"two": "one\ntwo\n", "one": "eins\n", "none": "", "blank": "\n\n"}.items():
        (tmp_path / name).write_text(lines)
    for kind in ("recurrent", "convolutional"):
        model_at(tmp_path / kind, architecture=kind)
    (tmp_path / "there.json").mkdir()
    two, one, none, blank = (str(tmp_path / name) for name in ("two", "one", "none", "blank"))
    model = str(place / "model")

    def both(source: str, target: str) -> list[str]:
        return ["--source", source, "--target", target]

    cases = [
        ([model, *both(none, none)], "none is empty; expected a sentence per line"),
        ([model, *both(blank, blank)], "none of 2 pairs"),
        ([model, *both(two, one)], "2 lines but"),
        ([model, *both(two, str(tmp_path / "nowhere"))], "there is no file"),
        ([model, *both("Good morning!", two)], "--source and --target are files"),
        ([model, *both(two, two), "--out", "a.gif"], "a.gif"),
        ([model, *both(two, two), "--bleu"], "--bleu needs --curve"),
        ([model, *both(two, two), "--pairs", "0"], "--pairs"),
        ([model, *both(two, two), "--to", "de"], "de"),
        ([model, *both(two, two), "--out", f"{two}/a.json"], "cannot write"),
        (["no model", *both(two, two), "--out", str(tmp_path / "there.json")], "is a directory; choose another --out"),
        ([model, "--source", two], "missing option '--target'"),
        (
            [str(tmp_path / "recurrent"), *both(two, two)],
            "a recurrent model has at most one attention head in a layer",
        ),
        ([str(tmp_path / "convolutional"), *both(two, two)], "a convolutional model has at most one attention head"),
        ([str(tmp_path), *both(two, two)], "is not a model"),
    ]
    for arguments, message in cases:
        code, _, err = command_line.leave(capsys, "inspect", "heads", *arguments)
        assert (code, message in err, "Traceback" in err) == (2, True, False), (arguments, err)
