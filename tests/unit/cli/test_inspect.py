"""`dragoman inspect`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import command_line
import dragoman.inspect.alignment
from attention_pages import read_attention_page
from dragoman.config.model import PositionCodeName
from dragoman.engines.native_model import load_code
from dragoman.inspect.alignment import format_pharaoh
from dragoman.native import why_not
from dragoman.translation.translator import Translator
from small_model import model_at


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(model_at(tmp_path_factory.mktemp("cli") / "model"))


def leave(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    return command_line.leave(capsys, "inspect", *args)


def test_a_page_and_the_models_own_translation(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.html"
    code, printed, err = leave(capsys, "attention", model, "--text", "one two", "--out", str(out))
    assert code == 0, err
    text = Translator.load(model, device="cpu", engine="torch").translate("one two").text
    assert printed == f"{text}\n"
    assert read_attention_page(out.read_text(encoding="utf-8"))["cross"].shape[:2] == (2, 3)


def test_the_directory_of_an_output_must_exist(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "a.html"
    code, _, err = leave(capsys, "attention", model, "--text", "one two", "--out", str(out))
    assert code == 2 and f"the directory {out.parent} does not exist" in err
    assert not out.parent.exists()


def test_the_native_engine_needs_no_pytorch(model: str, tmp_path: Path) -> None:
    if load_code() is None:
        pytest.skip(str(why_not("translate")))
    arguments = ["inspect", "attention", model, "--text", "one two", "--out", str(tmp_path / "a.html")]
    code = (
        f"import sys; from dragoman.cli import main\ntry: main({arguments})\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_picture_of_a_given_pair(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.svg"
    options = ["--kind", "decoder", "--layer", "2", "--head", "1", "--words"]
    code, printed, _ = leave(
        capsys, "attention", model, "--text", "one two", "--translation", "eins zwei", "--out", str(out), *options
    )
    assert (code, printed) == (0, "")
    assert out.read_text().startswith("<?xml")


def test_a_page_holds_what_was_asked_for(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.html"
    pair = ["--text", "one twenty", "--translation", "eins", "--out", str(out)]
    options = ["--kind", "decoder", "--layer", "2", "--head", "3", "--words"]
    code, _, err = leave(capsys, "attention", model, *pair, *options)
    assert code == 0, err
    text = out.read_text(encoding="utf-8")
    assert {kind: weights.shape for kind, weights in read_attention_page(text).items()} == {"decoder": (1, 1, 2, 2)}
    assert '"first":{"layer":2,"head":3}' in text


def test_a_line_of_files_is_that_sentence(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text("three\n\none two\n")
    (tmp_path / "t").write_text("drei\n\neins zwei\n")
    source, both = ["--source", str(tmp_path / "s")], ["--target", str(tmp_path / "t")]
    pages = []
    for number, options in enumerate(
        [
            ["--text", "one two"],
            [*source, "--line", "3"],
            ["--text", "one two", "--translation", "eins zwei"],
            [*source, *both, "--line", "3"],
            ["--text", "three"],
            source,
        ]
    ):
        out = tmp_path / f"{number}.html"
        code, printed, err = leave(capsys, "attention", model, *options, "--out", str(out))
        assert code == 0, err
        pages.append((printed, out.read_text(encoding="utf-8")))
    assert pages[0] == pages[1] != pages[2] == pages[3]
    assert pages[4] == pages[5] != pages[0]


def test_a_sentence_pair_is_aligned_like_a_file_of_one(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text("one two three\n")
    (tmp_path / "t").write_text("eins zwei\n")
    found = [
        leave(capsys, "alignment", model, *options)
        for options in (
            ["--text", "one two three", "--translation", "eins zwei"],
            ["--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")],
        )
    ]
    assert found[0] == found[1] and found[0][0] == 0


def test_alignments_of_files_or_a_picture_of_one(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gold").write_text("0-0\n\n0-0\n")
    (tmp_path / "s").write_text("one two three\n\nfour\n")
    (tmp_path / "t").write_text("eins zwei\n\nvier fünf\n")
    files = ["--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")]
    code, printed, err = leave(capsys, "alignment", model, *files)
    assert code == 0, err
    rows = printed.split("\n")
    assert len(rows) == 4 and rows[1] == rows[3] == ""
    for row, sizes in ((rows[0], (3, 2)), (rows[2], (1, 2))):
        links = [tuple(map(int, link.split("-"))) for link in row.split()]
        assert links and all(s < sizes[0] and t < sizes[1] for s, t in links)
    drawn = []
    monkeypatch.setattr(dragoman.inspect.alignment, "draw_alignment", lambda *given: drawn.append(given) or "")
    for options in ([], ["--line", "3"], ["--line", "3", "--gold", str(tmp_path / "gold")]):
        assert leave(capsys, "alignment", model, *files, "--out", str(tmp_path / "a.png"), *options)[:2] == (0, "")
    assert [(given[0], format_pharaoh(given[2])) for given in drawn] == [
        (["one", "two", "three"], rows[0]),
        (["four"], rows[2]),
        (["four"], rows[2]),
    ]


def test_a_closed_stdout_is_noticed_before_the_work(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    code, _, err = leave(capsys, "alignment", model, "--text", "one", "--translation", "eins")
    assert (code, "standard output is closed" in err) == (2, True), err


def test_the_error_rate_beside_links_of_people(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text("one two\n")
    (tmp_path / "t").write_text("eins zwei\n")
    (tmp_path / "gold").write_text("1-1 1-2 2-1 2-2\n")
    files = ["--source", str(tmp_path / "s"), "--target", str(tmp_path / "t"), "--gold", str(tmp_path / "gold")]
    code, printed, err = leave(capsys, "alignment", model, *files, "--gold-first", "1")
    links = len(printed.split())
    assert code == 0
    expected = 1 - 2 * links / (links + 4)
    assert err == f"alignment error rate {expected:.3f}, precision 1.000, recall {links / 4:.3f}\n"
    (tmp_path / "gold").write_text("0-0\n0-0\n")
    code, _, err = leave(capsys, "alignment", model, *files)
    assert code == 2
    assert "gold has 2 lines for 1 sentence pair" in err


@pytest.mark.parametrize("side", ["--text", "--translation"])
def test_words_that_are_not_utf8_are_told(
    model: str, side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--text": "one", "--translation": "two"} | {side: os.fsdecode(b"caf\xe9")}
    words = [word for pair in given.items() for word in pair]
    code, _, err = leave(capsys, "attention", model, *words, "--out", str(tmp_path / "page.html"))
    assert (code, f"{side} is not UTF-8; got b'caf\\xe9'" in err) == (2, True), err


def test_positions(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = leave(capsys, "positions", model, "--out", str(tmp_path / "p.png"), "--length", "9")
    assert code == 0, err
    assert (tmp_path / "p.png").stat().st_size > 1000
    learned = str(model_at(tmp_path / "learned", positions="learned", max_positions=13))
    assert leave(capsys, "positions", learned, "--out", str(tmp_path / "q.png"))[0] == 0
    code, _, err = leave(capsys, "positions", learned, "--out", str(tmp_path / "q.png"), "--length", "14")
    assert (code, "the 13 learned positions of" in err) == (2, True), err
    page = tmp_path / "p.html"
    assert leave(capsys, "positions", learned, "--code", "index", "--out", str(page))[0] == 0
    assert all(
        name in page.read_text(encoding="utf-8") for name in ('"learned, source"', '"learned, target"', '"index"')
    )
    assert leave(capsys, "positions", "--out", str(page), "--length", "7", "--d-model", "16")[0] == 0
    assert all(f'"code":"{name}"' in page.read_text(encoding="utf-8") for name in get_args(PositionCodeName))
    code, _, err = leave(capsys, "positions", model, "--d-model", "16", "--out", str(page))
    assert (code, "--d-model has no effect" in err) == (2, True), err


def test_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.evaluation.layer_costs.measure_seconds", lambda _, n: n / 1000)
    options = ["--n-heads", "3", "--kernel", "2", "--neighbors", "5", "--length", "24", "--length", "9"]
    code, printed, err = leave(capsys, "costs", *options, "--d-model", "6", "--d-model", "12")
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line]
    rows = [row for row in rows if row[0] != "layer" and not row[0].startswith("-")]
    assert [(row[2], row[3]) for row in rows] == [("9", "6"), ("24", "6")] * 5 + [("9", "12"), ("24", "12")] * 5
    assert [row[9] for row in rows[1:10:2]] == ["1", "12", "23", "23", "5"]  # the paths of 24 positions
    assert rows[1][11] == "24.00"
    code, again, err = leave(capsys, "costs", *options, "--d-model", "12", "--out", str(tmp_path / "costs.png"))
    assert (code, err) == (0, "") and again.strip() == printed.split("\n\n")[1]
    assert (tmp_path / "costs.png").stat().st_size > 10_000


def test_mistakes_are_messages(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two").write_text("one\ntwo\n")
    (tmp_path / "one").write_text("eins\n")
    (tmp_path / "gap").write_text("eins\n\n")
    (tmp_path / "empty").write_text("")
    picture, two, one, gap, empty = (str(tmp_path / name) for name in ("a.png", "two", "one", "gap", "empty"))
    cases = [
        (["attention", model, "--text", "one", "--out", "a.gif"], "a.gif"),
        (["attention", model, "--text", "one", "--out", picture, "--layer", "3"], "no layer 3"),
        (["attention", model, "--text", "one", "--out", str(tmp_path / "a.html"), "--head", "4"], "no head 4"),
        (["attention", model, "--text", " ", "--out", picture], "the source is empty"),
        (["attention", model, "--out", picture], "give --text SENTENCE"),
        (["attention", model, "--source", "Good morning!", "--out", picture], "use --text for a sentence"),
        (["attention", model, "--source", one, "--target", "eins zwei", "--out", picture], "use --translation for"),
        (
            ["attention", model, "--text", "one", "--source", one, "--out", picture],
            "--text and --source cannot be combined",
        ),
        (
            ["attention", model, "--text", "one", "--target", one, "--out", picture],
            "--text and --target cannot be combined",
        ),
        (["attention", model, "--text", "one", "--line", "1", "--out", picture], "--line has no effect"),
        (["attention", model, "--source", one, "--line", "2", "--out", picture], "one has 1 line"),
        (["attention", model, "--source", empty, "--out", picture], "is empty"),
        (["attention", model, "--source", one, "--line", "9" * 20, "--out", picture], "invalid value for '--line'"),
        (["attention", model, "--text", "one", "--out", f"{picture}/"], "a.png/ is a directory"),
        (["attention", model, "--text", "one", "--out", ""], "the name is empty"),
        (["alignment", model, "--text", "one"], "--translation"),
        (["alignment", model, "--target", one], "--source"),
        (["alignment", model, "--source", "one two", "--target", one], "use --text for a sentence"),
        (["attention", str(tmp_path), "--text", "one", "--out", picture], "is not a model"),
        (["attention", model, "--text", "one", "--out", f"{two}/a.html"], "cannot write"),
        (["alignment", model, "--source", two, "--target", one], "2 lines but"),
        (["alignment", model, "--source", two, "--target", picture + "x"], "there is no file"),
        (["alignment", model, "--source", two, "--target", two, "--line", "3", "--out", picture], "has 2 lines"),
        (["alignment", model, "--source", two, "--target", two, "--line", "1"], "needs --out"),
        (["alignment", model, "--source", two, "--target", two, "--gold-first", "1"], "needs --gold"),
        (["alignment", model, "--source", gap, "--target", two, "--line", "2", "--out", picture], "side of this pair"),
        (["positions", model, "--out", picture, "--length", "4001"], "4000"),
        (["positions", model, "--out", "a.gif"], "a.gif"),
        (["costs", "--out", "a.html"], "a.html"),
        (["costs", "--d-model", "10"], "d_model=10 is not divisible by n_heads=8"),
        (["costs", "--kernel", "1"], "kernel=1 connects no positions"),
        (["costs", "--length", "1"], "--length"),
    ]
    for arguments, message in cases:
        code, out, err = leave(capsys, *arguments)
        assert (code, out, message in err, "Traceback" in err) == (2, "", True, False), (arguments, err)
