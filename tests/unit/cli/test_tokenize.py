"""`tokenize` and `detokenize` as programs: bytes in, bytes out, one line per line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import run_command
from dragoman.text import load_tokenizer, normalize
from dragoman.text.learn import learn

LINES = ["the old box", "", "we’ll see:  the box", "我们去学校。", "a\u2028b \x85 c", "<s> ▁ <0x41>", "the box 1987"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizers")
    learn("bpe", [*LINES, "the box, the old box"] * 4, 330).save(path, "shared")
    learn("wordpiece", [*LINES, "the box, the old box"] * 4, 330).save(path, "target")
    (path / "manifest.json").write_text("{}")  # as beside a model's
    return path


def run(arguments: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    return run_command(*arguments, given=given)


@pytest.mark.parametrize("options", [[], ["--ids"], ["--name", "target"]])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_there_and_back(directory: Path, options: list[str], end: str) -> None:
    text = "\n".join(LINES) + "\n" if end == "\n" else (end or "\n").join(LINES)
    there = run(["tokenize", str(directory), *options], text.encode())
    assert (there.returncode, there.stderr) == (0, b"")
    rows = there.stdout.decode().split("\n")
    assert rows.pop() == ""
    assert len(rows) == len(LINES)
    tokenizer = load_tokenizer(directory, "target" if "target" in options else "shared")
    expected = [tokenizer.encode(line) for line in LINES]
    assert rows == [" ".join(map(str, ids) if "--ids" in options else tokenizer.tokens(ids)) for ids in expected]
    back = run(["detokenize", str(directory), *options], there.stdout)
    assert back.stdout.decode() == "".join(f"{normalize(line)}\n" for line in LINES)


def test_a_model_is_found_by_its_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_MODELS", str(directory.parent))
    tokens = run(["tokenize", directory.name], b"the old box\n")
    assert tokens.returncode == 0, tokens.stderr
    assert run(["detokenize", directory.name], tokens.stdout).stdout == b"the old box\n"


def test_samples_follow_the_seed(directory: Path) -> None:
    text = ("the old box\n" * 30).encode()
    one, two, other = (
        run(["tokenize", str(directory), "--sample", "0.5", "--seed", seed], text).stdout for seed in ("4", "4", "5")
    )
    assert one == two != other
    assert len(set(one.split(b"\n"))) > 5
    assert other.split(b"\n")[:29] == one.split(b"\n")[1:30]  # line N draws with SEED + N - 1
    assert run(["detokenize", str(directory)], one).stdout == text


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["tokenize", "{}"], b"fine\nb\xffd\n", "standard input, line 2, byte 2: not UTF-8"),
        (["tokenize", "{}"], b"caf\xe9", "standard input, line 1, byte 4: not UTF-8"),
        (
            ["tokenize", "{}", "--name", "source"],
            b"",
            "no tokenizer with name='source'; available: shared, target",
        ),
        (["tokenize", "{}/nowhere"], b"", "nowhere"),
        (["tokenize", "{}", "--sample", "7"], b"a\n", "dragoman: alpha=7.0"),
        (["tokenize", "{}", "--seed", "3"], b"a\n", "--seed has no effect: nothing is sampled; add --sample"),
        (["tokenize", "{}", "--sample", "0.1", "--threads", "2"], b"a\n", "--threads has no effect"),
        (["tokenize", "{}", "--threads", "0"], b"a\n", "dragoman: threads=0"),
        (
            ["tokenize", "{}", "--threads", "100000000"],
            b"",
            "dragoman: threads=100000000",
        ),
        (["tokenize", "{}", "--name", "../x/shared"], b"", "'../x/shared'"),
        (["detokenize", "{}", "--ids"], b"--5", "standard input, line 1: '--5' is not an id"),
        (["detokenize", "{}", "--ids"], b"1_0", "standard input, line 1: '1_0' is not an id"),
        (
            ["detokenize", "{}"],
            "▁the\n\n▁the nonsense".encode(),
            "standard input, line 3: there is no token 'nonsense'",
        ),
        (
            ["detokenize", "{}", "--ids"],
            b"5 6\n5 six",
            "line 2: 'six' is not an id; --ids reads integers separated by spaces",
        ),
        (["detokenize", "{}", "--ids"], b"5 99999", "standard input, line 1: id 99999 is outside"),
        (["detokenize", "{}", "--ids"], b"5\n" + b"9" * 5000, f"standard input, line 2: '{'9' * 40}' is not an id"),
        (["detokenize", "{}", "--ids"], b"-1", "standard input, line 1: id -1 is outside"),
    ],
)
def test_refusals_name_the_line_or_the_option_and_leave_with_2(
    directory: Path, arguments: list[str], given: bytes, message: str
) -> None:
    done = run([argument.format(directory) for argument in arguments], given)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(directory: Path) -> None:
    command = f"yes 'the old box' | {sys.executable} -m dragoman tokenize {directory} | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "▁the ▁old ▁box\n" * 2
    assert done.stderr == ""


def test_ctrl_c_is_clean(directory: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "tokenize", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"the old box\n" * 1024)  # a whole block, so that an answer comes while input is open
        running.stdin.flush()
        assert running.stdout.readline() == "▁the ▁old ▁box\n".encode()
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
        assert running.returncode == 130
        assert errors.strip() == b"dragoman: stopped"
