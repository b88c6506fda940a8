"""`dragoman import`: conversion, and errors for paths that are not models."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from command_line import leave
from opus_model import write_opus
from small_model import model_at


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What a command that must be refused says on stderr."""
    code, out, err = leave(capsys, "import", *map(str, args))
    assert (code, out) == (2, "") and "Traceback" not in err
    return err


def test_places_that_are_no_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    opus = write_opus(tmp_path / "opus-mt-en-de")
    assert f"{tmp_path / 'opus-mt-en-da'} does not exist; did you mean {opus}?" in refused(
        capsys, tmp_path / "opus-mt-en-da", "--out", out
    )
    empty, others = tmp_path / "empty", tmp_path / "others"
    empty.mkdir()
    assert "(it is empty)" in refused(capsys, empty, "--out", out)
    others.mkdir()
    (others / "notes.txt").write_text("nothing")
    assert "(it has notes.txt)" in refused(capsys, others, "--out", out)
    assert "notes.txt" in refused(capsys, others / "notes.txt", "--out", out)
    for name in ("a.pt", "b.pt"):
        torch.save({"weights": torch.zeros(2)}, others / name)
    assert "a.pt, b.pt" in refused(capsys, others, "--out", out)
    assert "it has weights" in refused(capsys, others / "a.pt", "--out", out)
    torch.save({"opt": Namespace(heads=8), "vocab": {"src": ["a"]}, "generator": {}, "model": {}}, others / "a.pt")
    assert "OpenNMT-py" in refused(capsys, others / "a.pt", "--out", out)
    assert "is already a Dragoman model" in refused(capsys, model_at(tmp_path / "ours"), "--out", out)
    assert not out.exists() and not [*tmp_path.glob(".*")]


def test_an_out_that_is_taken_and_options_that_do_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opus, taken = write_opus(tmp_path / "opus"), tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("years of work")
    assert "taken already exists and contains thesis.txt" in refused(capsys, opus, "--out", taken)
    assert "thesis.txt is a file" in refused(capsys, opus, "--out", taken / "thesis.txt")
    assert (taken / "thesis.txt").read_text() == "years of work"
    out = tmp_path / "out"
    assert "`tokenizer` has no effect" in refused(capsys, opus, "--out", out, "--tokenizer", opus / "source.spm")
    assert "`tokenizer`" in refused(capsys, opus, "--out", out, "--target-tokenizer", opus / "source.spm")
    assert "missing option '--out'" in refused(capsys, opus)
    assert not out.exists()
    out.mkdir()  # an empty one is taken
    code, said, err = leave(capsys, "import", str(opus), "--out", str(out))
    assert code == 0 and said.startswith(f"converted {opus}, trained with Marian") and str(out) in said, err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "--help")
    assert code == 0 and "import" in out and "Opus-MT" in out
    code, out, _ = leave(capsys, "import", "--help")
    assert code == 0 and "subword-nmt" in out and "--vocabulary" in out
