"""`dragoman score`: a score for each pair from every kind of input, and errors with line numbers."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from command_line import leave, run_command
from dragoman import Translator
from dragoman.cli.input import stream_pairs
from dragoman.errors import DataError
from tiny_model import write_tiny_model

PAIRS = [
    ("the old box", "der alte Kasten"),
    ("", ""),
    ("seven", "sieben Kästen, acht"),
    ("the hall\u2028is new", ""),
    ("", "im Flur"),
]
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("score")
    write_tiny_model(folder / "tiny")
    write_tiny_model(folder / "short", "model.positions=learned", "model.max_positions=9")
    write_tiny_model(folder / "syntax", "model.positions=syntax")
    (folder / "pairs.tsv").write_text(TSV, encoding="utf-8")
    (folder / "test.en").write_text("".join(f"{source}\n" for source, _ in PAIRS), encoding="utf-8")
    (folder / "test.de").write_text("".join(f"{target}\n" for _, target in PAIRS), encoding="utf-8")
    (folder / "few.de").write_text("der\nim\n", encoding="utf-8")
    (folder / "test.conllu").write_text("1\tthe\t_\t_\t_\t_\t2\t_\t_\t_\n2\tbox\t_\t_\t_\t_\t0\t_\t_\t_\n\n")
    (folder / "tree.tsv").write_text("the box\tder Kasten\n\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def lines(numbers: list[float]) -> str:
    return "".join(f"{number:.4f}\n" for number in numbers)


def numbers(capsys: pytest.CaptureFixture[str], *words: str) -> list[float]:
    code, out, err = leave(capsys, "score", *words, "--device", "cpu")
    assert code == 0, err
    return [float(line) for line in out.splitlines()]


def run(*words: object, given: bytes = b"") -> CompletedProcess[bytes]:
    return run_command("score", *words, given=given)


def test_a_line_for_a_pair_in_every_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scored = Translator.load("tiny", device="cpu").score(PAIRS, length_penalty=0.3)
    totals = pytest.approx([one.log_probability for one in scored], abs=2e-4)
    assert numbers(capsys, "tiny", "pairs.tsv") == totals
    assert numbers(capsys, "tiny", "--source", "test.en", "--target", "test.de") == totals
    assert numbers(capsys, "tiny", "pairs.tsv", "--batch", "2") == totals
    assert numbers(capsys, "tiny", "--per-token", "pairs.tsv") == pytest.approx(
        [one.log_probability / len(one.tokens) for one in scored], abs=2e-4
    )
    expected = pytest.approx([one.score for one in scored], abs=2e-4)
    assert numbers(capsys, "tiny", "pairs.tsv", "--length-penalty", "0.3") == expected
    turned = tmp_path / "turned.tsv"
    turned.write_text("".join(f"{target}\tx\t{source}\n" for source, target in PAIRS), encoding="utf-8")
    assert numbers(capsys, "tiny", str(turned), "--source-key", "3", "--target-key", "1") == totals
    packed = tmp_path / "test.de.gz"
    packed.write_bytes(gzip.compress(Path("test.de").read_bytes()))
    assert numbers(capsys, "tiny", "--source", "test.en", "--target", str(packed)) == totals
    twice = numbers(capsys, "tiny", "pairs.tsv", "pairs.tsv")
    assert twice == [*numbers(capsys, "tiny", "pairs.tsv")] * 2


def test_standard_input_and_output_files(tmp_path: Path) -> None:
    expected = lines([one.log_probability for one in Translator.load("tiny", device="cpu").score(PAIRS, batch=1)])
    done = run("tiny", "--batch", 1, "--device", "cpu", given=TSV.encode())
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, expected, b"")
    into = tmp_path / "scores.txt"
    words = ["--batch", 1, "--device", "cpu", "-o", into, "--progress"]
    done = run("tiny", "--source", "test.en", "--target", "-", *words, given=Path("test.de").read_bytes())
    assert (done.returncode, done.stdout, into.read_text()) == (0, b"", expected)
    said = done.stderr.decode().splitlines()
    assert "engine, float32, on cpu" in said[0]
    tokens = sum(len(one.tokens) for one in Translator.load("tiny", device="cpu").score(PAIRS))
    mean = sum(map(float, expected.split())) / tokens
    assert said[-1] == f"dragoman: {tokens} tokens, log P {mean:.4f} per token, perplexity {math.exp(-mean):,.2f}"
    assert run("tiny", "--device", "cpu", given=b"").stdout == b""  # nothing in, nothing out


def test_an_object_for_a_pair(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "score", "tiny", "pairs.tsv", "--json", "--device", "cpu", "--length-penalty", "1")
    assert code == 0, err
    entries = [json.loads(line) for line in out.splitlines()]
    assert [entry["line"] for entry in entries] == [1, 2, 3, 4, 5]
    tokenizer = Translator.load("tiny", device="cpu").target
    for entry, (_, target) in zip(entries, PAIRS, strict=True):
        assert entry["tokens"] == [*tokenizer.tokens(tokenizer.encode(target)), "</s>"]
        each, total = entry["token_log_probabilities"], entry["log_probability"]
        assert len(each) == len(entry["tokens"]) and max(each) < 0
        assert total == pytest.approx(sum(each))
        assert entry["per_token"] == pytest.approx(total / len(each))
        assert entry["score"] == pytest.approx(total / ((5 + len(each)) / 6))


def test_trees(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(numbers(capsys, "syntax", "tree.tsv", "--source-trees", "test.conllu")) == 2
    for words, said in (
        (["syntax", "tree.tsv"], "its dependency tree"),
        (["tiny", "tree.tsv", "--source-trees", "test.conllu"], "does not read trees"),
        (["syntax", "tree.tsv", *["--source-trees", "test.conllu"] * 2], "line with text"),
    ):
        code, _, err = leave(capsys, "score", *words, "--device", "cpu")
        assert code == 2 and said in err


@pytest.mark.parametrize(
    ("words", "given", "said", "answered"),
    [
        (["tiny"], b"a\tb\nc\n", "standard input, line 2: 1 column, but expected source, tab, target", 1),
        (["tiny"], b"a\tb\nc\td\te\n", "standard input, line 2: 3 columns", 1),
        (["tiny"], b"a\tb\nb\xff\tc\n", "standard input, line 2, byte 2: not UTF-8", 1),
        (["short"], b"a\tb\na b\tc d e f g h i j k\n", "line 2, 'c d e f g h i j k': its target has", 1),
        (
            ["tiny", "--source", "test.en", "--target", "few.de"],
            b"",
            "test.en has 5 lines but few.de has 2; line i of one must be the translation of line i",
            2,
        ),
        (["tiny", "--source", "few.de", "--target", "test.en"], b"", "few.de has 2 lines but test.en has 5", 2),
    ],
)
def test_lines_before_a_wrong_one_are_answered(words: list[str], given: bytes, said: str, answered: int) -> None:
    done = run(*words, "--device", "cpu", given=given)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert done.stdout.count(b"\n") == answered


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "pairs.tsv"], "nothing"),
        (["tiny", "no.tsv"], "there is no file no.tsv"),
        (["tiny", "the old box"], "use --text and --translation"),
        (["tiny", "--source", "the old box", "--target", "test.de"], "use --text and --translation"),
        (["tiny", "--text", "the old box"], "--translation"),
        (["tiny", "--text", "the old box", "--target", "test.de"], "--text and --target cannot be combined"),
        (["tiny", "pairs.tsv", "--text", "the old box", "--translation", "nine"], "--text cannot be combined with"),
        (["tiny", "--source", "test.en"], "--target"),
        (["tiny", "--target", "test.de"], "--source"),
        (
            ["tiny", "pairs.tsv", "--source", "test.en", "--target", "test.de"],
            "pairs.tsv cannot be combined with --source",
        ),
        (["tiny", "--source", "-", "--target", "-"], "cannot both be standard input"),
        (["tiny", "pairs.tsv", "--per-token", "--length-penalty", "1"], "--per-token cannot be combined"),
        (["tiny", "pairs.tsv", "--per-token", "--json"], "--per-token has no effect: --json always has it"),
        (["tiny", "pairs.tsv", "--length-penalty", "9"], "length_penalty must be from -5 to 5"),
        (["tiny", "pairs.tsv", "--batch", "0"], "batch must be at least 1"),
        (["tiny", "pairs.tsv", "--source-key", "1"], "two column numbers from 1"),
        (
            ["tiny", "--source", "test.en", "--target", "test.de", "--target-key", "1"],
            "--target-key has no effect",
        ),
        (["tiny", "pairs.tsv", "-o", "pairs.tsv"], "pairs.tsv is also an input"),
        (["tiny", "pairs.tsv", "--device", "tpu"], "device 'tpu' is not available"),
    ],
)
def test_errors_that_help(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    code, out, err = leave(capsys, "score", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_pair_of_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.tsv").write_text("the old box\tder alte Kasten\n")
    assert numbers(capsys, "tiny", "--text", "the old box", "--translation", "der alte Kasten") == numbers(
        capsys, "tiny", "one.tsv"
    )


def test_the_sides_need_not_come_in_equal_blocks(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_text("".join(f"{'x' * 90} {i}\n" for i in range(30_000)))  # more than two megabytes
    other.write_text("".join(f"{i}\n" for i in range(30_000)))
    found = [pair for pairs in stream_pairs(one, other) for pair in pairs]
    assert found == [(f"{'x' * 90} {i}", f"{i}") for i in range(30_000)]
    other.write_text("".join(f"{i}\n" for i in range(29_999)))
    given = stream_pairs(one, other)
    with pytest.raises(DataError, match=r"has 30,000 lines but .* has 29,999"):
        for pairs in given:
            assert pairs
