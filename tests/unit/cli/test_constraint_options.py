"""`dragoman translate` with terminology, required and avoided phrases, and constraints per line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import leave
from dragoman import Constraints, Translator
from tiny_model import write_tiny_model

TEXTS = ["the old box", "", "seven halls", "Good morning!"]
QUICK = ["--device", "cpu", "--max-length", "14"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("constraints")
    write_tiny_model(folder / "m")
    (folder / "test.en").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    (folder / "terms.tsv").write_text("box\tKasten\tKiste\n\nhalls\tFlure\n", encoding="utf-8")
    (folder / "more.tsv").write_text("OLD\talt\n", encoding="utf-8")
    (folder / "not.txt").write_text("the\n\nis\n", encoding="utf-8")
    (folder / "each.jsonl").write_text('{"require": ["Flur"]}\n\n{"avoid": ["the"]}\n{}\n', encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_terminology_is_heeded(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "translate", "m", "test.en", "--terms", "terms.tsv", "--json", *QUICK)
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.get("met") for row in rows] == [["Kasten | Kiste"], None, ["Flure"], None]
    assert [row.get("unmet") for row in rows] == [[], None, [], None]
    assert "Flure" in rows[2]["text"]
    words = ["--terms", "terms.tsv", "--terms", "more.tsv", "--ignore-case", "--json"]
    code, out, err = leave(capsys, "translate", "m", "test.en", *words, *QUICK)
    assert json.loads(out.splitlines()[0])["met"] == ["alt", "Kasten | Kiste"], err


def test_words_are_required_and_avoided(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--require", "Flur", "--avoid", "nine", "--avoid-file", "not.txt", "--nbest", "2", "--scores"]
    code, out, err = leave(capsys, "translate", "m", "test.en", *words, *QUICK)
    assert code == 0, err
    translator = Translator.load("m", device="cpu")
    found = translator.translate(TEXTS, require=["Flur"], avoid=["nine", "the", "is"], n_best=2, max_length=14)
    both = [(number, each) for number, one in enumerate(found, 1) for each in (one, *one.alternatives)]
    assert out == "".join(f"{number}\t{each.text}\t{each.score:.4f}\n" for number, each in both)
    assert all("Flur" in each.text for number, each in both if number != 2)


def test_each_line_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "translate", "m", "test.en", "--constraints", "each.jsonl", *QUICK)
    assert code == 0, err
    constraints = [Constraints.of(["Flur"]), None, Constraints.of((), ["the"]), None]
    found = Translator.load("m", device="cpu").translate(TEXTS, constraints=constraints, max_length=14)
    assert out == "".join(f"{one.text}\n" for one in found)


def test_lines_before_one_whose_demands_are_wrong_are_answered(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    whole = leave(capsys, "translate", "m", "test.en", "--constraints", "each.jsonl", *QUICK)[1]
    for lines, answered in (('{"require": ["Flur"]}\n\n{"avoid": [""]}\n{}\n', 2), ('{"require": ["Flur"]}\n', 1)):
        (folder / "new").write_text(lines, encoding="utf-8")
        code, out, _ = leave(capsys, "translate", "m", "test.en", "--constraints", "new", *QUICK)
        assert (code, out) == (2, "".join(whole.splitlines(keepends=True)[:answered]))


def test_what_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--require", "der alte Kasten", "--device", "cpu", "--max-length", "2"]
    code, _, err = leave(capsys, "translate", "m", "test.en", *words)
    assert code == 0
    assert "dragoman: line 1 lacks the required 'der alte Kasten'" in err
    assert "dragoman: line 3 lacks" in err
    assert "3 unmet (line 1, ...)" in err


def test_the_first_line_of_progress_says_what_heeds_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--avoid", "the", "--progress", "--beam", "65"]
    code, _, err = leave(capsys, "translate", "m", "test.en", *words, *QUICK)
    assert code == 0
    said = err.splitlines()[0]
    assert said.startswith("dragoman: torch engine") or said.endswith("; torch for required or avoided phrases")


@pytest.mark.parametrize(
    ("words", "files", "message"),
    [
        (["--terms", "new"], "box Kasten\n", "new, line 1: no tab in 'box Kasten'"),
        (["--terms", "new"], "box\tKasten\n\tx\n", "new, line 2: a phrase to find is empty"),
        (["--terms", "nowhere.tsv"], "", "there is no file nowhere.tsv"),
        (["--constraints", "new"], "{}\n{]\n{}\n{}\n", "new, line 2: not valid JSON"),
        (["--constraints", "new"], "[" * 100_000, "new, line 1: not valid JSON"),
        (["--constraints", "new"], '{"require": [[]]}\n', "new, line 1: `require` has an empty list"),
        (["--constraints", "new"], '{"must": ["x"]}\n', "new, line 1: expected an object such as"),
        (["--constraints", "new"], '{"require": [""]}\n', "new, line 1: a phrase to require is empty"),
        (
            ["--constraints", "new"],
            '{"require": ["a\\nb"]}\n',
            "new, line 1: a phrase to require must be a single",
        ),
        (["--constraints", "new"], "{}\n{}\n", "--constraints has 2 lines, but there are more"),
        (["--constraints", "new"], "{}\n" * 6, "--constraints has more than the 4 lines"),
        (["--require", ""], "", "a phrase to require is empty"),
        (["--require", "box", "--avoid", "box"], "", "'box' is required, but"),
        (["--avoid-file", "new"], "x\n\u00ad\n", "new, line 2: a phrase to avoid is empty"),
        (["--ignore-case"], "", "--ignore-case has no effect"),
        (["--require", "x", "--sample"], "", "required phrases cannot be combined with sampling"),
        (["--avoid", "x", "--engine", "ctranslate2"], "", "the engine 'ctranslate2'"),
        (["--terms", "terms.tsv", "-o", "terms.tsv"], "", "terms.tsv is also an input"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str], files: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "new").write_text(files or "x\n", encoding="utf-8")
    code, _, err = leave(capsys, "translate", "m", "test.en", *words, *QUICK)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
