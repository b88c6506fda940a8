"""The command line's frame: help, errors without tracebacks, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from dragoman import __version__
from dragoman.cli import COMMANDS, group, main
from dragoman.config import Recipe
from dragoman.errors import shortage

LESS = "to train, use a smaller data.batch_tokens or a smaller model; to translate, a smaller --batch or --beam\n"


def leave(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    try:
        main(list(args))
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_verb_without_importing_torch() -> None:
    code = "import sys, dragoman.cli as c\ntry: c.main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for verb, words in COMMANDS.items():
        assert verb in done.stdout
        assert words.split()[0] in done.stdout


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_loads_and_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, verb, "--help")
    assert code == 0
    assert "Usage: dragoman" in out
    assert group.get_command(None, verb) is not None


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(capsys, "--version")[1] == f"dragoman, version {__version__}\n"


def test_a_recipe_is_printed_whole_and_reads_back(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    code, out, _ = leave(capsys, "recipe", "big", "--set", "model.dropout=0.2")
    assert code == 0
    assert "214,171,648 parameters with a vocabulary of 37,000" in out
    saved = tmp_path / "saved.toml"
    saved.write_text(out, encoding="utf-8")
    assert Recipe.load(saved) == Recipe.load("big", ["model.dropout=0.2"])


def test_the_parts_of_a_model_add_up_to_its_weights(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["model.norm_order=pre", "model.positions=learned", "model.tie=target"]
    _, out, _ = leave(capsys, "recipe", "tiny", *(word for change in changes for word in ("--set", change)))
    said = out.splitlines()[-1]
    parts = dict(re.findall(r"(\w+) ([\d,]+)(?=[,)])", said.partition("(")[2]))
    assert set(parts) == {"embeddings", "positions", "encoder", "decoder"}
    assert f"# {sum(int(count.replace(',', '')) for count in parts.values()):,} parameters" in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["recpe"], "there is no command 'recpe'; did you mean 'recipe'?"),
        (["recipe", "bgi"], "bgi is neither a file nor the name of a preset; did you mean 'big'?"),
        (["recipe", "--set", "model.n_head=4"], "no key model.n_head; did you mean 'n_heads'?"),
        (["recipe", "--vocabulary-size", "many"], "'many' is not a valid integer"),
        (["recipe", "--vocabulary-size", "-3"], "-3 is not in the range 1<=x<=2147483647"),
        (["recipe", "--vocabulary-size", "9" * 20], "is not in the range 1<=x<=2147483647"),
        (["train", "-source", "a"], "no such option '-source'; did you mean '--source'?"),
        (["train", "-x"], "no such option '-x'; see dragoman train --help"),
        (["train", "--out", "m", "a.en", "a.de"], "(a.en a.de); did you mean --source a.en --target a.de?"),
        (["recipe", "--sett", "a.b=c"], "no such option '--sett'; did you mean '--set'?"),
        (["score", "m", "--lang", "de"], "no such option '--lang'; did you mean '--to'?"),
        (["translate", "m", "--lang", "de"], "no such option '--lang'; did you mean '--to' or '--language'?"),
        (["translate", "m", "--beam-size", "4"], "no such option '--beam-size'; did you mean '--beam'?"),
        (["translate", "m", "--src", "en"], "no such option '--src'; see dragoman translate --help"),
        (["recipe", "--set"], "option '--set' requires an argument; see dragoman recipe --help"),
        (["recipe", "base", "more"], "got unexpected extra argument (more); see dragoman recipe --help"),
        (["translate"], "missing argument 'MODEL'; see dragoman translate --help"),
        (["inspect", "attentoin"], "no such command 'attentoin'; did you mean 'attention'?"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = leave(capsys, *args)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert (out, err.count("\n"), err.startswith("dragoman: ")) == ("", 1, True)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (OSError(5, "Input/output error", "somewhere"), "dragoman: somewhere: Input/output error\n"),
        (OSError("odd"), "dragoman: odd\n"),
        (
            OSError(28, "No space left on device"),
            "dragoman: No space left on device; free some space, or write elsewhere\n",
        ),
        (MemoryError(), f"dragoman: there is not enough memory; {LESS}"),
        (MemoryError("no room"), f"dragoman: there is not enough memory (no room); {LESS}"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9437184 bytes."),
            f"dragoman: there is not enough memory (PyTorch asked for 9 MiB); {LESS}",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of ..."),
            f"dragoman: there is not enough memory (PyTorch asked for 1.50 GiB); {LESS}",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), f"dragoman: there is not enough memory; {LESS}"),
    ],
)
def test_what_the_system_refuses_is_a_line(
    raised: Exception, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(group, "main", fails)
    assert leave(capsys, "recipe") == (2, "", message)


@pytest.mark.parametrize(
    ("args", "code", "mention"),
    [
        (["translate", "no-such-model", "--json"], "model_not_found", "no-such-model"),
        (["score", "--json", "--beem", "3"], "usage", "--beem"),
        (["translate", "--json"], "usage", "MODEL"),
    ],
)
def test_errors_are_json_with_the_option_json(
    args: list[str], code: str, mention: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code, out, err = leave(capsys, *args)
    error = json.loads(err)["error"]
    assert (exit_code, out, error["code"]) == (2, "", code)
    assert mention in error["message"]


def test_errors_of_a_command_without_the_option_json_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(capsys, "recipe", "--json")[2].startswith("dragoman: no such option '--json'")


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "inspect")
    assert (code, out) == (2, "")
    assert "Usage: dragoman inspect" in err and "attention" in err


def test_what_pytorch_says_when_there_is_no_memory_is_known() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert shortage(raised.value) == "PyTorch asked for 1,099,511,627,776 MiB"


def test_an_error_that_nobody_expected_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(group, "main", fails)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        leave(capsys, "recipe")


def test_a_reader_that_goes_away_is_no_crash() -> None:
    command = f"{sys.executable} -m dragoman recipe base | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (141, "[model]\n")  # as of a program that SIGPIPE ends
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("how", [["-m", "dragoman"], ["-c", "from dragoman.__main__ import main; main()"]])
def test_ctrl_c_while_the_program_is_imported_is_quiet(how: list[str], tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, *how], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dragoman: stopped\n")


def test_the_installed_command_is_the_one_that_answers_ctrl_c() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"dragoman": "dragoman.__main__:main"}
