from __future__ import annotations

from pathlib import Path

import pytest

from command_line import leave
from small_model import model_at

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "one two"\nmsgstr ""\n\n'
OTHER = 'msgid "three four"\nmsgstr "drei vier"\n'


def test_a_memory_is_made_used_and_extended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_at(tmp_path / "model")
    (tmp_path / "a.po").write_text(PO + OTHER, "utf-8")
    (tmp_path / "corrected.po").write_text('msgid "one two"\nmsgstr "eins zwei"\n', "utf-8")
    memory, out = tmp_path / "memory.tsv", tmp_path / "out.po"
    languages = ["--from", "en", "--to", "de"]
    code, printed, _ = leave(capsys, "remember", str(memory), str(tmp_path / "corrected.po"), *languages)
    assert code == 0 and printed.startswith("1 translation added")
    run = ["translate", str(model), str(tmp_path / "a.po"), "-o", str(out), "--beam", "1"]
    code, _, notes = leave(capsys, *run, "--memory", str(memory))
    assert code == 0 and "from the memory" in notes
    assert out.read_text("utf-8") == (PO + OTHER).replace('two"\nmsgstr ""', 'two"\nmsgstr "eins zwei"')
    assert leave(capsys, *run, "--retranslate")[0] == 0
    assert "drei vier" not in out.read_text("utf-8") and "#, fuzzy" in out.read_text("utf-8")


def test_wrong_uses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_at(tmp_path / "model")
    (tmp_path / "memory.tsv").write_text("a\tb\n")
    for extra in (["--memory", str(tmp_path / "memory.tsv")], ["--retranslate"]):
        assert leave(capsys, "translate", str(model), "--text", "one", *extra)[0] == 2
    (tmp_path / "a.po").write_text(PO, "utf-8")
    missing = ["--memory", str(tmp_path / "missing.tmx")]
    assert leave(capsys, "translate", str(model), str(tmp_path / "a.po"), *missing)[0] == 2
    assert leave(capsys, "remember", str(tmp_path / "memory.tsv"), str(tmp_path / "no.po"), "--from", "en")[0] == 2
    (tmp_path / "b.po").write_text(PO + OTHER, "utf-8")
    words = [str(tmp_path / "new" / "memory.tsv"), str(tmp_path / "b.po"), "--from", "en", "--to", "de"]
    assert leave(capsys, "remember", *words)[0] == 2 and not (tmp_path / "new").exists()
