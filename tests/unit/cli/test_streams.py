"""Input and output of `translate`, `tokenize` and `detokenize`: invalid lines, links, `-`, and odd file names."""

from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from command_line import run_command
from dragoman.cli import decode_argument
from dragoman.cli.input import check_uncompressed, parse_path, read_available, stream_lines
from dragoman.cli.output import open_output, resolve_output
from dragoman.data.corpora.lines import split_lines
from dragoman.errors import DataError, OutputError
from raising import raises
from tiny_model import write_tiny_model

QUICK = ["--beam", "1", "--max-length", "5"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def run(verb: str, *arguments: object, given: bytes = b"", shell: str = "") -> subprocess.CompletedProcess[bytes]:
    if not shell:
        return run_command(verb, *arguments, given=given)
    command = " ".join([sys.executable, "-m", "dragoman", verb, *map(str, arguments)])
    return subprocess.run(["bash", "-c", f"{command} {shell}"], input=given, capture_output=True, check=False)


def lines_of(verb: str, *arguments: object, given: bytes) -> list[bytes]:
    done = run(verb, *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(keepends=True)


@pytest.mark.parametrize("bad", [b"b\xffd", b"t\0o", b"caf\xe9 t\0o"])
def test_every_line_before_a_bad_one_is_answered(model: Path, bad: bytes, tmp_path: Path) -> None:
    good = b"the old box\r\n\nseven\n"
    expected = b"".join(lines_of("translate", model, *QUICK, given=good))
    into = tmp_path / "out.txt"
    into.write_bytes(b"before\n")
    for to in ([], ["-o", into]):
        done = run("translate", model, *QUICK, *to, given=good + bad + b"\nnine\n")
        assert done.returncode == 2
        assert b"standard input, line 4" in done.stderr
        assert (done.stdout if not to else (tmp_path / "out.txt.part").read_bytes()) == expected
    assert b"out.txt.part" in done.stderr
    assert into.read_bytes() == b"before\n"  # what is not whole has not got its name
    tokens = lines_of("tokenize", model, given=good)
    done = run("tokenize", model, given=good + bad + b"\n")
    assert (done.returncode, done.stdout) == (2, b"".join(tokens))
    done = run("detokenize", model, given=b"".join(tokens) + b"nonsense\n" + tokens[0])
    assert (done.returncode, done.stdout) == (2, good.replace(b"\r", b""))
    assert b"standard input, line 4: there is no token 'nonsense'" in done.stderr


def test_a_pipe_into_tokenize_is_answered_line_by_line(model: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "tokenize", str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for _ in range(2):
            running.stdin.write(b"the old box\n")
            running.stdin.flush()
            assert running.stdout.readline().startswith("▁the".encode())


def test_a_pipe_that_does_not_wait_is_waited_for() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    with os.fdopen(ours, "rb", buffering=0) as source:
        writer = threading.Timer(0.05, lambda: (os.write(theirs, b"seven\n"), os.close(theirs)))
        writer.start()
        assert b"".join(read_available(source)) == b"seven\n"
        writer.join()


def test_an_empty_block_comes_before_a_pipe_is_waited_for() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as source:
        blocks = split_lines(Path("pipe"), read_available(source))
        os.write(theirs, b"one\ntw")
        assert [next(blocks), next(blocks)] == [["one"], []]
        os.write(theirs, b"o\n")
        assert [next(blocks), next(blocks)] == [["two"], []]
        os.close(theirs)
        assert [*filter(None, blocks)] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (gzip.compress(b"seven\n", mtime=0), "standard input is compressed as .gz; give the name of the file"),
        ("seven\n".encode("utf-16"), "standard input is UTF-16; convert it with: iconv"),
    ],
)
def test_what_is_packed_or_foreign_in_a_pipe_is_called_that(model: Path, given: bytes, message: str) -> None:
    done = run("tokenize", model, given=given)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


def test_what_is_typed_is_utf8_in_any_locale() -> None:
    assert decode_argument("--prefix", "fünf 我".encode().decode("ascii", "surrogateescape")) == "fünf 我"
    assert decode_argument("--prefix", "fünf 我") == "fünf 我"
    with raises(DataError, "not_utf8", "--prefix"):
        decode_argument("--prefix", "\udcff")


def write(output: str, content: bytes = b"new\n") -> None:
    with open_output(resolve_output(parse_path(output))) as (target, done):
        target.write(content)
        done()


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target, link, second = tmp_path / "deep" / "real", tmp_path / "link", tmp_path / "second"
    link.symlink_to(Path("deep") / "real")  # which is not there yet
    second.symlink_to(link)
    for content in (b"one\n", b"two\n"):
        write(str(second), content)
        assert target.read_bytes() == content
    assert link.is_symlink() and second.is_symlink()
    assert {path.name for path in target.parent.iterdir()} == {"real"}
    with pytest.raises(RuntimeError), open_output(resolve_output(second)) as (stream, _):
        stream.write(b"half")
        raise RuntimeError
    assert target.read_bytes() == b"two\n"
    assert (tmp_path / "deep" / "real.part").read_bytes() == b"half"


def test_what_cannot_be_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circle, kept = tmp_path / "circle", tmp_path / "kept"
    circle.symlink_to(circle)
    kept.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(kept)
    with raises(OutputError, "cannot_write"):
        resolve_output(circle)
    with raises(OutputError, "output_is_input", "kept"):
        resolve_output(tmp_path / "link", [None, kept])
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for who is not root
    with raises(OutputError, "cannot_write"):
        resolve_output(kept)


@pytest.mark.parametrize(
    ("verb", "shell"),
    [
        ("translate", "{0} >> {0}"),
        ("translate", "< {0} >> {0}"),
        ("translate", "{0} -o {0}"),
        ("translate", "{0}.part -o {0}"),
        ("translate", "- -o {0} < {0}.part"),
        ("tokenize", "< {0} >> {0}"),
    ],
)
def test_what_is_read_is_not_written(model: Path, verb: str, shell: str, tmp_path: Path) -> None:
    for name in ("book", "book.part"):
        (tmp_path / name).write_bytes(b"seven\n")
    done = run(verb, model, *(QUICK if verb == "translate" else ()), shell=shell.format(tmp_path / "book"))
    assert done.returncode == 2
    assert b"is also an input" in done.stderr
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"seven\n"] * 2


def test_an_old_file_keeps_its_permissions(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.touch(0o600)
    write(str(private))
    assert private.read_bytes() == b"new\n"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_dash_is_a_standard_stream_and_a_file_of_that_name_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("-")
    assert capfdbinary.readouterr().out == b"new\n"
    assert not list(tmp_path.iterdir())
    write("./-", b"in a file\n")
    assert Path("./-").absolute().read_bytes() == b"in a file\n"


@pytest.mark.parametrize("shell", ["-o -", "-o /dev/stdout", "-o /dev/stdout >> kept", "-o kept >> kept"])
def test_what_stdout_is_open_on_is_stdout(model: Path, shell: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"before\n")
    done = run("translate", model, *QUICK, shell=shell.replace("kept", str(kept)), given=b"seven\n")
    assert done.returncode == 0, done.stderr
    assert (done.stdout or kept.read_bytes().removeprefix(b"before\n")).count(b"\n") == 1
    assert kept.read_bytes().startswith(b"before\n")
    assert set(tmp_path.iterdir()) == {kept}


@pytest.mark.parametrize("closed", ["2>&-", "2> /dev/full"])
def test_work_goes_on_where_nobody_hears_of_it(model: Path, closed: str, tmp_path: Path) -> None:
    into = tmp_path / "out.txt"
    done = run("translate", model, *QUICK, "--progress", shell=f"-o {into} {closed}", given=b"seven\n" * 200)
    assert (done.returncode, into.read_bytes().count(b"\n")) == (0, 200)
    for wrong in ("--beam 0", "--beam x"):  # of ours, of click's
        assert run("translate", model, shell=f"{wrong} {closed}", given=b"").returncode == 2


def test_closed_streams_are_told(model: Path) -> None:
    cases = [(verb, "<&-", b"standard input is closed") for verb in ("tokenize", "detokenize")]
    written = ("tokenize", "detokenize", "evaluate", "recipe")
    cases += [(verb, ">&-", b"standard output is closed") for verb in written]
    for verb, shell, message in cases:
        done = run(verb, model, shell=shell, given=b"")
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
        assert message in done.stderr


def test_in_an_old_locale_what_cannot_be_written_is_spelled(tmp_path: Path) -> None:
    files = [tmp_path / "ours.de", tmp_path / "right.de"]
    for file in files:
        file.write_text("schön\n" * 30, encoding="utf-8")
    words = ["evaluate", "--hypothesis", str(files[0]), "--reference", str(files[1]), "--name", "für ☃"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-m", "dragoman", *words], capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith("für ".encode("latin-1") + b"\\u2603: 30 sentences\n")


@pytest.mark.parametrize("closed", ["2>&-", "2> /dev/full", "2> >(exec 0<&-)"])
def test_bars_and_notes_that_nobody_reads_end_no_work(closed: str, tmp_path: Path) -> None:
    for language, word in (("en", "box"), ("de", "Kasten")):
        text = "".join(f"{word} {number}\n" for number in range(40))
        (tmp_path / f"a.{language}").write_text(text, encoding="utf-8")
    files = ["--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--out", tmp_path / "out"]
    done = run("prepare", *files, "--set", "text.vocabulary_size=300", shell=closed)
    assert done.returncode == 0
    assert (tmp_path / "out" / "manifest.json").exists()


def office(*names: str, mimetype: str = "") -> bytes:
    """A zip archive with parts of these names."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        if mimetype:
            archive.writestr("mimetype", mimetype, zipfile.ZIP_STORED)
        for name in names:
            archive.writestr(name, "<a/>" * 9)
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "code", "kind"),
    [
        ("a.docx", office("[Content_Types].xml", "word/document.xml"), "unsupported_format", ".docx"),
        ("book.txt", office("[Content_Types].xml", "word/document.xml"), "unsupported_format", ".docx"),
        ("a.pptx", office("[Content_Types].xml", "ppt/presentation.xml"), "unsupported_format", ".pptx"),
        ("a.xlsx", office("[Content_Types].xml", "xl/workbook.xml"), "unsupported_format", ".xlsx"),
        (
            "a.odt",
            office("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
            "unsupported_format",
            ".odt",
        ),
        ("a.epub", office("a.xhtml", mimetype="application/epub+zip"), "unsupported_format", ".epub"),
        ("a.pdf", b"%PDF-1.7\n%\xe2\xe3", "unsupported_format", "PDF"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "unsupported_format", ".doc"),
        ("a.rtf", b"{\\rtf1\\ansi}", "unsupported_format", "RTF"),
        ("a.zip", office("train.en"), "wrong_file_format", "zip archive"),
    ],
)
def test_documents_are_recognized_by_their_content(
    name: str, content: bytes, code: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with raises(DataError, code, name, kind):
        list(stream_lines([tmp_path / name]))
    with raises(DataError, code, "standard input", kind):
        list(check_uncompressed(Path("standard input"), iter([content])))
