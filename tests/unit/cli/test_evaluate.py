"""`dragoman evaluate`: scores with signatures, errors, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu

import command_line
from small_model import model_at

RIGHT = ["Heute ist Montag.", "Die Katze schläft.", "Wir gehen nach Hause."]
OURS = ["Heute ist ein Montag.", "Die Katze schläft.", "Wir gehen heim."]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    made = {
        "right": RIGHT,
        "ours": OURS,
        "worse": ["Montag", "Katze", "Haus"],
        "short": OURS[:2],
        "en": ["a", "b", "c"],
    }
    for name, lines in made.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "empty").write_text("")
    return {name: str(tmp_path / name) for name in [*made, "empty", "missing"]}


def leave(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    return command_line.leave(capsys, "evaluate", *args)


def test_a_file_of_translations(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = leave(
        capsys, "--hypothesis", files["ours"], "--reference", files["right"], "--report", str(tmp_path / "rep")
    )
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "right: 3 sentences"
    expected = {
        "BLEU": (sacrebleu.corpus_bleu(OURS, [RIGHT]).score, sacrebleu.BLEU()),
        "chrF": (sacrebleu.corpus_chrf(OURS, [RIGHT]).score, sacrebleu.CHRF()),
        "TER": (sacrebleu.corpus_ter(OURS, [RIGHT]).score, sacrebleu.TER()),
    }
    for line, (name, (value, metric)) in zip(lines[1:], expected.items(), strict=True):
        metric.corpus_score(OURS, [RIGHT])
        assert line.split() == [name, f"{value:.2f}", str(metric.get_signature())]
    assert json.loads((tmp_path / "rep" / "report.json").read_text())["system"]["files"] == "ours"


def test_two_systems_are_compared(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(
        capsys,
        *("--hypothesis", files["ours"], "--reference", files["right"], "--against", files["worse"]),
        *("--metric", "chrf"),
    )
    assert code == 0
    plain, compared = out.splitlines()[1:]
    assert "against" in compared and "p = " in compared and "bs:1000|seed:12345" in compared
    assert plain.split()[0] == compared.split()[0] == "chrF"
    assert compared.split()[1].startswith("+")


def test_a_model(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = str(model_at(tmp_path / "model"))
    code, out, err = leave(
        capsys,
        *(model, "--source", files["en"], "--reference", files["right"], "--name", "days"),
        *("--engine", "torch", "--device", "cpu", "--beam", "1", "--metric", "BLEU", "--report", str(tmp_path / "r")),
    )
    assert code == 0, err
    assert out.startswith("days: 3 sentences, ")
    assert "sentences/s" in out
    saved = json.loads((tmp_path / "r" / "report.json").read_text())
    assert {"engine": "torch", "precision": "float32", "device": "cpu"}.items() <= saved["system"].items()
    assert len((tmp_path / "r" / "days.translations.txt").read_text().splitlines()) == 3


def test_json_is_the_report(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--hypothesis", files["worse"], "--reference", files["right"], "--metric", "BLEU", "--json"]
    code, out, err = leave(capsys, *words, "--report", str(tmp_path / "r"))
    assert code == 0, err
    assert json.loads(out) == json.loads((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    code, out, err = leave(capsys, *words, "--reference", files["right"])
    assert (code, out, json.loads(err)["error"]["code"]) == (2, "", "count_mismatch")


def test_a_terminal_is_told_what_translates(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    model = str(model_at(tmp_path / "model"))
    command = [model, "--source", files["en"], "--reference", files["right"], "--engine", "torch", "--device", "cpu"]
    assert "engine" not in leave(capsys, *command)[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "dragoman: model: torch engine, float32, on cpu, " in leave(capsys, *command)[2]


def test_a_name_in_brackets_is_a_name_on_a_terminal(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = ["--hypothesis", files["ours"], "--reference", files["right"], "--against", files["worse"]]
    for name in ("news[de]", "[/news]"):
        code, out, err = leave(capsys, *words, "--name", name, "--metric", "chrF")
        assert (code, out.count(name)) == (0, 2), err


def test_a_terminal_gets_a_table(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = leave(
        capsys,
        *("--hypothesis", files["ours"], "--reference", files["right"], "--against", files["worse"]),
        *("--metric", "BLEU", "--metric", "TER"),
    )
    assert code == 0
    assert "test set" in out and "sentences" in out and "difference" in out
    assert f"{sacrebleu.corpus_bleu(OURS, [RIGHT]).score:.2f}" in out
    assert "tok:13a" in out and "tok:tercom" in out


def test_mistakes_are_messages(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    right = ["--reference", files["right"]]
    ours = ["--hypothesis", files["ours"], *right]
    cases = [
        (right, "give either a model to translate with, or files of translations"),
        (["some-model", *ours], "give either a model to translate with, or files of translations"),
        (["--hypothesis", files["ours"]], "give --reference for each test set"),
        (["--hypothesis", files["short"], *right], "short has 2 lines but right has 3"),
        (["--hypothesis", files["empty"], *right], "empty is empty"),
        (["--hypothesis", files["missing"], *right], "there is no file"),
        (["--hypothesis", files["ours"], "--reference", files["missing"]], "there is no file"),
        ([*ours, "--source", files["short"]], "short has 2 lines but"),
        ([*ours, "--against", files["short"]], "short has 2 lines but right has 3"),
        ([*ours, "--tokenize", "13b"], "no tokenizer '13b'; did you mean '13a'?"),
        ([*ours, "--metric", "METEOR"], "'METEOR' is not one of"),
        ([str(tmp_path), "--source", files["en"], *right], "is not a model"),
        (["no-such", "--source", files["en"], *right], "no-such"),
        (["some-model", "--source", files["en"], *right, "--beam", "0"], "beam must be at least 1"),
        ([*ours, "--report", files["ours"]], "is a file, but --report needs a directory"),
        ([*ours, "--report", files["ours"] + "/in"], "cannot write the report to"),
        ([*ours, "--beam", "4"], "--beam has no effect: nothing is translated"),
        ([*ours, "--against", files["worse"], "--device", "cpu"], "--device has no effect"),
        (
            ["some-model", "--source", files["en"], *right, "--language", "xyz"],
            "language='xyz'",
        ),
        ([*ours, "--metric", "chrF", "--tokenize", "13a"], "--tokenize has no effect"),
        ([*ours, "--against", "no-such", "--device", "cpu"], "no-such"),
    ]
    for arguments, message in cases:
        code, out, err = leave(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err
        assert "Traceback" not in err
