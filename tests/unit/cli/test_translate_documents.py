from __future__ import annotations

from pathlib import Path

import pytest

from command_line import leave, run_command
from dragoman.cli.input import are_documents
from dragoman.errors import DocumentError
from small_model import model_at

PAGE = b"<h1>one <b>two</b> three</h1>\n<p>four {five} six.</p>\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_at(tmp_path_factory.mktemp("model"))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_bytes(PAGE)
    return path


def test_a_document_goes_to_a_file_or_to_standard_output(model: Path, page: Path, tmp_path: Path) -> None:
    done = run_command("translate", model, page, "-o", tmp_path / "page.de.html", "--beam", 1)
    assert done.returncode == 0 and done.stdout == b""
    written = (tmp_path / "page.de.html").read_bytes()
    assert written.count(b"{five}") == 1 and written.startswith(b"<h1>") and written != PAGE
    assert run_command("translate", model, page, "--beam", 1).stdout == written
    assert run_command("translate", model, "--format", "html", "--beam", 1, given=PAGE).stdout == written


def test_a_written_document_is_reported_with_progress(model: Path, page: Path, tmp_path: Path) -> None:
    output, words = tmp_path / "page.de.html", ["translate", model, page, "--beam", 1]
    shown = run_command(*words, "-o", output, "--progress").stderr.decode()
    assert shown.count("segments translated") == 1
    page.write_bytes(b"<p>{five}</p>")  # without text, so that nothing needs review
    assert f"dragoman: wrote {output}: " in run_command(*words, "-o", output, "--progress").stderr.decode()
    assert run_command(*words, "-o", output, "--no-progress").stderr == b""
    assert b"wrote" not in run_command(*words, "--progress").stderr


@pytest.mark.parametrize(("option", "name"), [("-o", "a.html"), ("--review", "a.html"), ("--bilingual", "a.xlf")])
def test_the_directory_of_an_output_must_exist(model: Path, page: Path, tmp_path: Path, option: str, name: str) -> None:
    done = run_command("translate", model, page, option, tmp_path / "new" / name)
    assert done.returncode == 2 and b"does not exist" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_review_page_and_a_bilingual_file(model: Path, page: Path, tmp_path: Path) -> None:
    extras = ["--review", tmp_path / "review.html", "--bilingual", tmp_path / "page.xlf"]
    done = run_command("translate", model, page, "-o", tmp_path / "out.html", "--beam", 1, *extras)
    assert done.returncode == 0, done.stderr
    assert b"one two three" in (tmp_path / "review.html").read_bytes()
    assert (tmp_path / "page.xlf").read_bytes().count(b"<trans-unit") == 2
    assert run_command("translate", model, "--text", "one", *extras).returncode == 2
    assert run_command("translate", model, page, page, "-o", tmp_path / "all", *extras).returncode == 2


def test_text_is_line_by_line_as_before(model: Path, page: Path, tmp_path: Path) -> None:
    for arguments in ((page, "--format", "text"), ("-",)):
        done = run_command("translate", model, *arguments, "--beam", 1, given=PAGE)
        assert done.returncode == 0 and done.stdout.count(b"\n") == 2
    (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
    done = run_command("translate", model, tmp_path / "a.txt", tmp_path / "a.txt", "--beam", 1)
    assert done.stdout.count(b"\n") == 4


def test_a_folder_goes_to_a_directory(
    model: Path, page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (tmp_path / "notes.pdf").write_bytes(b"%PDF-1.7")
    assert leave(capsys, "translate", str(model), str(tmp_path), "-o", str(out), "--beam", "1")[0] == 0
    assert (out / "page.html").exists() and not (out / "notes.pdf").exists()
    changed = (out / "page.html").stat().st_mtime_ns
    code, _, err = leave(capsys, "translate", str(model), str(tmp_path), "-o", str(out), "--beam", "1")
    assert code == 0 and "1 document had been translated before" in err
    assert (out / "page.html").stat().st_mtime_ns == changed


@pytest.mark.parametrize("during", ["documents.folders.translate_into", "cli.document_files.show_report"])
def test_a_folder_that_was_stopped_says_how_to_continue(
    during: str,
    model: Path,
    page: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"dragoman.{during}", interrupted)
    code, _, err = leave(capsys, "translate", str(model), str(page.parent), "-o", str(tmp_path / "out"))
    assert code == 130 and "run the same command to continue" in err


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (["PAGE", "--nbest", "2"], "--nbest"),
        (["PAGE", "--require", "x"], "--require"),
        (["PAGE", "PAGE"], "-o DIR"),
        (["PAGE", "-"], "standard input"),
        (["PAGE", "--format", "htm"], "html"),
        (["PAGE", "-o", "PAGE"], "also an input"),
        (["PDF"], "pdftotext"),
        (["--text", "one", "--format", "html"], "--format"),
        (["PAGE", "PAGE", "-o", "PDF"], "directory"),
        (["PAGE", "PAGE", "-o", "both.html"], "directory"),
    ],
)
def test_mistakes_are_rejected(
    arguments: list[str], mention: str, model: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf = page.with_name("a.pdf")
    pdf.write_bytes(b"%PDF-1.7")
    given = [{"PAGE": str(page), "PDF": str(pdf)}.get(word, word) for word in arguments]
    code, out, err = leave(capsys, "translate", str(model), *given)
    assert code == 2 and out == "" and mention in err
    assert page.read_bytes() == PAGE


def test_what_was_left_is_reported(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"  # a random model copies no placeholder, and the search is too short to write one
    page.write_bytes(b"<p>one {five} six.</p>")
    arguments = ["--max-length", "1", "--beam", "1", "-o", str(tmp_path / "out.html")]
    code, _, err = leave(capsys, "translate", str(model), str(page), *arguments)
    assert code == 0
    assert "p 1: left in the source language" in err
    assert (tmp_path / "out.html").read_bytes() == page.read_bytes()
    assert err.count("--review FILE") == 1
    review = tmp_path / "review.html"
    assert f"open {review}" in leave(capsys, "translate", str(model), str(page), *arguments, "--review", str(review))[2]
    second = page.with_name("second.html")
    second.write_bytes(page.read_bytes())
    several = [str(page), str(second), *arguments[:-1], str(tmp_path / "all")]
    assert leave(capsys, "translate", str(model), *several)[2].count("--review FILE") == 1


@pytest.mark.parametrize("suffix", [".xml", ".csv", ".TSV", ".tex", ".py", ".strings"])
def test_other_formats_are_not_translated_as_lines(model: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"one\n")
    done = run_command("translate", model, path, "--beam", 1)
    assert (done.returncode, done.stdout) == (2, b"") and b"--format text" in done.stderr
    assert run_command("translate", model, path, "--beam", 1, "--format", "text").returncode == 0
    assert run_command("translate", model, "--beam", 1, given=b"one\n").returncode == 0


@pytest.mark.parametrize("name", ["train.en", "a.cs", "a.tok", "lines", "a.src", "a.txt"])
def test_any_other_name_is_text(model: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"one\ntwo\n")
    done = run_command("translate", model, tmp_path / name, "--beam", 1)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2


@pytest.mark.parametrize("name", ["out.docx", "out.pdf", "out.txt", "out.xml"])
def test_a_document_keeps_its_format(model: Path, page: Path, tmp_path: Path, name: str) -> None:
    done = run_command("translate", model, page, "-o", tmp_path / name, "--beam", 1)
    assert done.returncode == 2 and b".html" in done.stderr
    assert not (tmp_path / name).exists()
    assert run_command("translate", model, "--format", "html", "-o", tmp_path / name, given=PAGE).returncode == 2


@pytest.mark.parametrize("name", ["out.htm", "out", "page.html.de"])
def test_other_names_of_a_format_are_accepted(model: Path, page: Path, tmp_path: Path, name: str) -> None:
    assert run_command("translate", model, page, "-o", tmp_path / name, "--beam", 1).returncode == 0
    assert (tmp_path / name).read_bytes().startswith(b"<h1>")


def test_other_formats_are_found_behind_documents_and_compression(page: Path, tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz"):
        (tmp_path / name).write_bytes(b"one;two\n")
        with pytest.raises(DocumentError, match=r"\.csv files are not supported"):
            are_documents([page, tmp_path / name], None)


@pytest.mark.parametrize("name", ["out.docx", "out.ODT", "out.pdf"])
def test_the_translation_of_plain_text_is_not_named_like_an_office_document(
    model: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    done = run_command("translate", model, tmp_path / "a.txt", "-o", tmp_path / name, "--beam", 1)
    assert done.returncode == 2 and b"out.txt" in done.stderr
    assert not (tmp_path / name).exists()
