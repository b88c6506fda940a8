"""`dragoman translate`: one line per line of any content, helpful errors, and pipes, terminals and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import run_command
from dragoman import Translator
from dragoman.cli import main
from dragoman.cli.output import LineReporter
from dragoman.translation.result import Translation
from tiny_model import write_tiny_model

QUICK = ["--beam", "1", "--max-length", "5"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def start(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dragoman", "translate", *map(str, arguments)]


def run(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_command("translate", *arguments, given=given)


def translated(model: Path, texts: list[str]) -> list[str]:
    translator = Translator.load(model, device="cpu")
    return [one.text.replace("\n", " ").replace("\r", " ") for one in translator.translate(texts, beam=1, max_length=5)]


def test_a_plain_line_imports_only_what_it_needs(model: Path) -> None:
    """What only documents, constraints, trees and training need would take time to import."""
    code = "import sys, dragoman.cli as c\ntry: c.main(sys.argv[1:])\nfinally: print(*sys.modules, file=sys.stderr)"
    words = [sys.executable, "-c", code, "translate", str(model), *QUICK]
    done = subprocess.run(words, input="the old box\n", capture_output=True, text=True, check=True)
    unneeded = [
        *("cli.document_files", "config.forecast", "data.corpora.corpus", "documents.detect", "documents.segment"),
        *("search.constraints.request", "search.constraints.tables", "text.learn", "text.trees"),
    ]
    assert all(find_spec(f"dragoman.{name}") for name in unneeded)
    imported = {name.removeprefix("dragoman.") for name in done.stderr.split()}
    assert "translation.translator" in imported
    assert imported.isdisjoint([*unneeded, "torch"])


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (b"the old box\n\nseven", ["the old box", "", "seven"]),
        (b"the old box\r\n\r\nseven\r\n", ["the old box", "", "seven"]),
        ("\ufeffthe old\u2028box\nthe\x85\x0c hall\n".encode(), ["the old\u2028box", "the\x85\x0c hall"]),
        (b"\n\n\n", ["", "", ""]),
        (b"", []),
        (("box " * 12_500).encode() + b"\nthe old box\n", ["box " * 12_500, "the old box"]),
    ],
)
def test_a_line_for_a_line(model: Path, given: bytes, lines: list[str], tmp_path: Path) -> None:
    done = run(model, *QUICK, given=given)
    assert done.returncode == 0, done.stderr
    expected = "".join(f"{line}\n" for line in translated(model, lines)).encode()
    assert done.stdout == expected
    assert done.stdout.count(b"\n") == len(lines)
    file = tmp_path / "lines.txt"
    file.write_bytes(given)
    assert run(model, *QUICK, file, "-", given=given).stdout == expected * 2  # a file, then standard input


def test_columns(model: Path) -> None:
    found = run(model, "--nbest", 2, "--scores", "--alignments", "--max-length", 5, given=b"the old box\n\nseven\n")
    rows = [line.split("\t") for line in found.stdout.decode().removesuffix("\n").split("\n")]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert all(len(row) == 4 for row in rows)
    assert float(rows[0][2]) >= float(rows[1][2])
    assert rows[2] == ["2", "", "0.0000", ""]
    assert all(pair.replace("-", "", 1).isdecimal() for pair in rows[0][3].split())
    entries = [json.loads(line) for line in run(model, "--json", *QUICK, given=b"the old box\n\n").stdout.splitlines()]
    assert [entry["line"] for entry in entries] == [1, 2]
    assert "truncated" in entries[0]["flags"] or len(entries[0]["tokens"]) < 5
    assert entries[1]["flags"] == []  # an empty line stays empty


def test_draws_follow_the_seed(model: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"the old box\nseven\n")
    options = ["--sample", "--temperature", "1.5", "--top-k", "20", "--max-length", "6", "--seed"]
    found = []
    for seed in ("3", "3", "4"):
        main(["translate", str(model), str(file), "--device", "cpu", *options, seed])
        found.append(capfdbinary.readouterr().out)
    assert found[0] == found[1] != found[2]
    assert found[0].count(b"\n") == 2


def test_an_output_appears_whole(model: Path, tmp_path: Path) -> None:
    into = tmp_path / "out.txt"
    done = run(model, *QUICK, "-o", into, given=b"the old box\nseven\n")
    assert (done.returncode, done.stdout) == (0, b"")
    assert into.read_text(encoding="utf-8").splitlines() == translated(model, ["the old box", "seven"])
    with subprocess.Popen(start(model, *QUICK, "-o", into), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(b"seven\n")
        running.stdin.flush()
        part = into.with_name("out.txt.part")
        while not (part.exists() and part.stat().st_size):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
    assert running.returncode == 130
    assert b"out.txt.part" in errors
    assert len(into.read_text(encoding="utf-8").splitlines()) == 2  # the old one stands
    assert set(tmp_path.iterdir()) == {into, part}


def test_an_output_has_one_writer(model: Path, tmp_path: Path) -> None:
    into = tmp_path / "out.txt"
    part = into.with_name("out.txt.part")
    part.write_text("of a run that was killed\n" * 9)
    with subprocess.Popen(start(model, *QUICK, "-o", into), stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(b"seven\n")
        running.stdin.flush()
        expected = "".join(f"{line}\n" for line in translated(model, ["seven"]))
        while part.read_text(encoding="utf-8") != expected:
            assert running.poll() is None
        second = run(model, *QUICK, "-o", into, given=b"the old box\n")
        assert second.returncode == 2
        assert b"another process is writing" in second.stderr
        running.stdin.close()
    assert running.returncode == 0
    assert into.read_text(encoding="utf-8") == expected
    assert set(tmp_path.iterdir()) == {into}


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        ("{} <&-", "standard input is closed"),
        ("{} >&- <<< seven", "standard output is closed"),
        ("{} > /dev/full <<< seven", "No space left on device"),
        ("{} -o /dev/full <<< seven", "No space left on device"),
    ],
)
def test_what_the_system_refuses_is_one_line(model: Path, shell: str, message: str) -> None:
    command = shell.format(" ".join(start(model, "--beam", "1", "--max-length", "60", "--no-repeat", "1")))
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    errors = [line for line in done.stderr.decode().splitlines() if "truncated" not in line]
    assert done.returncode == 2, done.stderr
    assert len(errors) == 1
    assert errors[0].startswith("dragoman: ")
    assert message in errors[0]


def test_a_line_is_answered_when_it_is_there(model: Path) -> None:
    with subprocess.Popen(start(model, *QUICK), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for text, expected in zip(("the old box", "seven"), translated(model, ["the old box", "seven"]), strict=True):
            running.stdin.write(f"{text}\n".encode())
            running.stdin.flush()
            assert running.stdout.readline().decode() == f"{expected}\n"  # though the input is not at its end
        running.stdin.write(b"the")
        running.stdin.close()
        assert running.stdout.read().count(b"\n") == 1
    assert running.returncode == 0


def test_a_reader_that_goes_away_is_no_error(model: Path) -> None:
    command = f"yes 'the old box' | {' '.join(start(model, *QUICK))} | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 2
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr


def test_pipes_of_the_shell_can_be_read(model: Path) -> None:
    command = f"{' '.join(start(model, *QUICK))} <(echo seven) <(printf 'the old box')"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == translated(model, ["seven", "the old box"])


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["{}"], b"fine\nb\xffd\n", "standard input, line 2, byte 2: not UTF-8"),
        (["{}"], b"fine\n\nt\0o\n", "standard input, line 3: NUL byte"),
        (["{}", "{}/nothing.txt"], b"", "there is no file"),
        (["{}", "Good morning!"], b"", "there is no file Good morning!; to translate a sentence, use --text"),
        (["{}", "Good morning! " * 99], b"", "to translate a sentence, use --text"),
        (["{}", "--text", "one", "{}/recipe.toml"], b"", "--text cannot be combined with"),
        (["{}", ""], b"", "the name is empty"),
        ([""], b"", "the name is empty"),
        (["{}", "{}"], b"", "is a directory"),
        (["{}/nowhere"], b"", "nowhere"),
        (["{}/.."], b"", "did you mean"),
        (["{}/recipe.toml"], b"", "give the model first: dragoman translate "),
        (["{}/recipe.toml", "{}"], b"", "give the model first: dragoman translate {} {}/recipe.toml"),
        (["{}", "-o", "{}/new.xz"], b"a", "new.xz ends with .xz, but output is not compressed"),
        (["{}", "--beam", "0"], b"a", "beam must be at least 1"),
        (["{}", "--beam", "2", "--nbest", "3"], b"a", "--nbest 3 needs --beam 3 or more; got --beam 2"),
        (["{}", "--top-p", "2"], b"a", "top_p must be greater than 0 and at most 1 (no limit)"),
        (["{}", "--engine", "ctranslate3"], b"a", "ctranslate3"),
        (["{}", "-o", "{}/no/where"], b"a", "does not exist; create it"),
        (["{}", "-o", "{}"], b"b\xffd", "is a directory; give the name of a file"),
        (["{}", "-o", "{}/new/"], b"a", "new/ is a directory; give the name of a file, such as"),
        (["{}", "-o", ""], b"a", "'--output': the name is empty"),
        (["{}", "{}/recipe.toml", "--format", "text", "-o", "{}/./recipe.toml"], b"", "is also an input"),
        (["{}", "--max-length", "2", "--min-length", "3"], b"a", "max_length=2 is smaller than min_length=3"),
        (["{}", "--max-length", "0"], b"a", "max_length must be at least 1"),
        (["{}", "--seed", "1"], b"a", "--seed has no effect: nothing is sampled; add --sample"),
        (["{}", "--top-k", "3", "--beam", "4"], b"a", "--beam has no effect"),
        (["{}", "--split", "never", "--language", "de"], b"a", "--language has no effect"),
        (
            ["{}", "--language", "german"],
            b"a",
            "language='german' is not a known language code (did you mean 'de'",
        ),
        (["{}", "--device", "foo"], b"a", "device 'foo' is not available; use one of: auto, cpu"),
        (["{}", "--avoid", "x", "--engine", "ctranslate2"], b"a", "does not support required or avoided phrases"),
    ],
)
def test_refusals_leave_with_2(model: Path, arguments: list[str], given: bytes, message: str) -> None:
    done = run(*(argument.format(model) for argument in arguments), given=given)
    assert done.returncode == 2
    assert message.replace("{}", str(model)) in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_an_engine_that_cannot_be_had_is_refused_before_the_first_line(model: Path) -> None:
    environment = {**os.environ, "DRAGOMAN_NATIVE": "0"}  # read once in a process
    done = subprocess.run(
        start(model, "--engine", "native"), input=b"", env=environment, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"the engine 'native' is not available here" in done.stderr


def test_a_training_under_way_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    done = run(tmp_path, given=b"a")
    assert done.returncode == 2
    assert b"unfinished training" in done.stderr


def test_stderr_tells_what_needs_a_second_look(model: Path) -> None:
    done = run(
        model,
        "--max-length",
        2,
        "--progress",
        "--engine",
        "torch",
        "--device",
        "cpu",
        given=b"the old box\n\nGood morning, seven boxes!\n",
    )
    errors = done.stderr.decode()
    assert "3 lines, " in errors
    assert errors.startswith("dragoman: torch engine, float32, on cpu, ")
    assert "truncated (line 1" in errors
    quiet = run(model, "--max-length", 60, "--no-repeat", 3, "--engine", "torch", given=b"\n")  # no C library is built
    assert quiet.stderr == b""


def test_text_that_is_left_without_a_translation_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with LineReporter(live=True) as report:
        report.count(Translation("", 0.0, 0.0))
        report.count(Translation("", -1.0, -1.0, source_tokens=("x",), empty=True))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("2 lines, ")
    assert lines[1:] == ["dragoman: of 2 lines, 1 empty (line 2)"]


def test_each_count_of_lines_is_shown_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    monkeypatch.setattr("dragoman.cli.output.time.monotonic", lambda: now[0])
    for seconds, shown in (([1], ["1 line"]), ([11], ["1 line"]), ([11, 1], ["1 line", "2 lines"])):
        with LineReporter(live=True) as report:
            for each in seconds:
                now[0] += each
                report.count(Translation("box", -1.0, -1.0, source_tokens=("x",)))
        assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == shown


def test_progress_and_lines_on_one_terminal_do_not_share_a_row(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"the old box\nseven\n")
    master, slave = os.openpty()
    command = start(model, file, *QUICK, "--progress")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as running:
        os.close(slave)
        found = b""
        with suppress(OSError):  # the end of a terminal
            while block := os.read(master, 1 << 16):
                found += block
    os.close(master)
    assert running.returncode == 0
    rows = found.decode().replace("\r\n", "\n").splitlines()
    assert rows[1:3] == translated(model, ["the old box", "seven"])
    assert "2 lines, " in rows[3] and "\r" not in rows[3]


def test_a_terminal_is_asked_and_answered_line_by_line(model: Path) -> None:
    master, slave = os.openpty()
    with subprocess.Popen(start(model, *QUICK), stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert b"Ctrl-D" in running.stderr.readline()  # before anything is typed
        os.write(master, b"seven\n")
        assert running.stdout.readline().decode() == f"{translated(model, ['seven'])[0]}\n"
        os.write(master, b"\x04")  # Ctrl-D
        assert running.wait(30) == 0
        assert b"Ctrl-D" not in running.stderr.read()  # once
    os.close(master)
    os.close(slave)


def test_sentences_on_the_command_line(model: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    main(["translate", str(model), "--device", "cpu", *QUICK, "--text", "the old box", "--text", "nine\n\nseven"])
    found = capfdbinary.readouterr()
    assert found.out.decode().splitlines() == translated(model, ["the old box", "nine", "", "seven"])
    assert b"Ctrl-D" not in found.err


@pytest.mark.parametrize("given", [b"\x7fELF\x02\x01\x00\xff\xfe\n", b"\xa0\x02\xff\n"])
def test_a_binary_file_is_named_as_such(model: Path, given: bytes) -> None:
    done = run(model, *QUICK, given=given)
    assert done.returncode == 2
    assert b"binary file" in done.stderr and b"iconv" not in done.stderr


def test_placeholders_are_kept_in_every_line(model: Path) -> None:
    lines = [
        "the old box",
        "see https://example.org/a_b?c=1 now",
        "peter@example.org",
        "",
        "the {name} box and %s",
        "\u2610 the old box",
    ]
    done = run(model, "--beam", 4, given="".join(f"{line}\n" for line in lines).encode())
    assert done.returncode == 0, done.stderr
    found = done.stdout.decode().split("\n")
    translator = Translator.load(model, device="cpu")
    assert found[0] == translator.translate(lines[0]).text.replace("\n", " ").replace("\r", " ")
    assert found[1].count("https://example.org/a_b?c=1") == 1
    assert found[2:4] == ["peter@example.org", ""]
    assert found[4].count("{name}") == found[4].count("%s") == 1
    assert found[5] == f"\u2610 {found[0]}"  # the model has no token for the box: it is cut off and put back


def test_a_line_that_loses_its_placeholder_is_left_and_flagged(model: Path) -> None:
    done = run(model, "--beam", 1, "--max-length", 3, "--json", given=b"seven\nthe {old} {box}\n")
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert entries[1]["text"] == "the {old} {box}" and "copied" in entries[1]["flags"]
    assert entries[0]["text"] != "seven"
    assert b"copied (line 2)" in done.stderr


def test_prefixes_and_lists_translate_the_line_as_it_is(model: Path) -> None:
    for options in (["--nbest", 2], ["--prefix", "a"], ["--sample"], ["--alignments"], ["--require", "box"]):
        done = run(model, "--max-length", 9, *options, given=b"the old {box}\n")
        assert done.returncode == 0 and b"{box}" not in done.stdout, options
