import gzip
import json
import lzma
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time

import pytest

from dragoman.cli import main
from dragoman.data.prepared import Prepared

SMALL = ["--set", "text.vocabulary_size=320", "--set", "data.max_tokens=90", "--set", "data.batch_tokens=300"]


def put(folder, name, n, seed=0):
    for side, words in (("en", "red green seven house river"), ("de", "rot grün sieben Haus Fluss")):
        choose = random.Random(seed)
        lines = [" ".join(choose.choices(words.split(), k=4)) + f" {i}" for i in range(n)]
        (folder / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--source", str(folder / f"{name}.en"), "--target", str(folder / f"{name}.de")]


def run(*args):
    with pytest.raises(SystemExit) as end:
        main(["prepare", *map(str, args)])
        raise SystemExit(0)
    return end.value.code


def test_a_preparation_from_start_to_end(tmp_path, capsys):
    corpus = put(tmp_path, "a", 60)
    with (tmp_path / "a.en").open("a") as en, (tmp_path / "a.de").open("a") as de:
        en.write("[bold]copy\n\n")
        de.write("[bold]copy\nleer\n")
    assert run(*corpus, "--out", tmp_path / "out", *SMALL) == 0
    said = capsys.readouterr()
    assert (
        "of 62 pairs read" in said.out and "│ copy" in said.out and "  copy      [bold]copy ||| [bold]copy" in said.out
    )
    assert "█" in said.out and "source" in said.out and "62 pairs in" in said.out
    assert said.err.splitlines()[0].startswith("clean: done in") and "encode: done in" in said.err
    assert len(Prepared.open(tmp_path / "out").split()) == 57
    assert (tmp_path / "out" / "lengths.png").read_bytes().startswith(b"\x89PNG")
    assert run(*corpus, "--out", tmp_path / "out", *SMALL) == 0
    again = capsys.readouterr()
    assert "already prepared" in again.out and again.err == ""


def test_preparing_imports_no_pytorch(tmp_path):
    arguments = ["prepare", *put(tmp_path, "a", 60), "--out", str(tmp_path / "out"), "--processes", "1", *SMALL]
    code = f"import sys; from dragoman.cli import main; main({arguments}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert len(Prepared.open(tmp_path / "out").split()) == 57


def test_several_corpora_of_every_form_with_weights(tmp_path):
    rows = [(f"seven houses {i}", f"sieben Häuser {i}") for i in range(50)]
    (tmp_path / "b.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    lines = [json.dumps({"translation": {"en": f"red {s}", "de": f"rot {t}"}}) + "\n" for s, t in rows]
    (tmp_path / "c.jsonl").write_text("".join(lines), encoding="utf-8")
    valid = put(tmp_path, "v", 5, seed=9)
    args = [*put(tmp_path, "a", 40), "--tsv", tmp_path / "b.tsv", "--jsonl", tmp_path / "c.jsonl"]
    keys = ["--source-key", "en", "--target-key", "de"]  # of JSON lines; the columns of TSV are the first two
    weights = ["--weight", "1", "--weight", "2", "--weight", "0.5"]
    sides = ["--valid-source", valid[1], "--valid-target", valid[3]]
    assert run(*args, *keys, *weights, *sides, "--out", tmp_path / "out", *SMALL) == 0
    split = Prepared.open(tmp_path / "out").split()
    assert [(p.stop - p.start, p.weight) for p in split.parts] == [(40, 1.0), (50, 2.0), (50, 0.5)]
    assert len(Prepared.open(tmp_path / "out").split("valid")) == 5


def test_without_room_for_the_picture_the_data_are_still_whole(tmp_path, capsys, monkeypatch):
    def full(prepared, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.data.prepare.report.plot_lengths", full)
    assert run(*put(tmp_path, "a", 40), "--out", tmp_path / "out", *SMALL) == 0
    assert "lengths.png could not be written (No space left on device)" in capsys.readouterr().out
    assert not (tmp_path / "out" / "lengths.png").exists()


def test_a_validation_set_is_read_as_training_files_are(tmp_path):
    corpus = put(tmp_path, "a", 40)
    sides = [(tmp_path / f"a.{side}").read_text(encoding="utf-8").splitlines()[:3] for side in ("en", "de")]
    rows = list(zip(*sides, strict=True))
    (tmp_path / "v.tsv.gz").write_bytes(gzip.compress("".join(f"{s}\t{t}\n" for s, t in rows).encode()))
    (tmp_path / "v.jsonl").write_text("".join(json.dumps({"en": s, "de": t}) + "\n" for s, t in rows))
    for side, name in zip(sides, ("v.en.xz", "v.de.xz"), strict=True):
        (tmp_path / name).write_bytes(lzma.compress("\n".join(side).encode()))
    forms = {
        "tsv": ["--valid-tsv", tmp_path / "v.tsv.gz"],
        "jsonl": ["--valid-jsonl", tmp_path / "v.jsonl", "--source-key", "en", "--target-key", "de"],
        "plain": ["--valid-source", tmp_path / "v.en.xz", "--valid-target", tmp_path / "v.de.xz"],
    }
    for name, given in forms.items():
        assert run(*corpus, *given, "--out", tmp_path / name, *SMALL) == 0
        prepared = Prepared.open(tmp_path / name)
        split, tokenizer = prepared.split("valid"), prepared.tokenizers[0]
        assert [(tokenizer.decode(split.source[i]), tokenizer.decode(split.target[i])) for i in range(3)] == rows
        assert len(prepared.split()) == 37


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "sentence pairs"),
        (["--source", "x.en"], "give one target file for each source file"),
        (["--source", "x.en", "--target", "x.de"], "there is no file x.en"),
        (["--tsv", "x.tsv", "--processes", "99999999999"], "invalid value for '--processes'"),
        (["--tsv", "x.tsv", "--weight", "1", "--weight", "2"], "got 2 weights for 1 corpus"),
        (["--jsonl", "x.jsonl"], "JSON lines need a source key and a target key"),
        (["--tsv", "x.tsv", "--valid-source", "y"], "1 validation source file but 0 validation target files"),
        (["--tsv", "x.tsv", "--valid-tsv", "y.tsv"], "there is no file x.tsv"),
        (["--tsv", "x", "--valid-tsv", "y", "--valid-source", "s", "--valid-target", "t"], "s + t and y"),
        (["--source", "s", "--target", "t", "--source-key", "en"], "there are only plain files"),
        (["--tsv", "x.tsv", "--set", "data.max_tokenz=3"], "did you mean 'max_tokens'"),
        (["--tsv", "x.tsv", "--processes", "0"], "--processes"),
    ],
)
def test_refusals_are_a_message_and_exit_code_2(tmp_path, capsys, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    assert run(*args, "--out", "out") == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_clean(tmp_path):
    corpus = put(tmp_path, "a", 150_000)
    names = sorted(p.name for p in tmp_path.iterdir())
    # Two processes, so that the helpers have to end as well; a group of its own, as a terminal would give it.
    args = [sys.executable, "-m", "dragoman", "prepare", *corpus, "--out", str(tmp_path / "out"), "--processes", "2"]
    process = subprocess.Popen(args, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 60
    while not (tmp_path / ".out.staging").exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "dragoman: stopped" and "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_bars_are_drawn_on_a_terminal(tmp_path):
    corpus = put(tmp_path, "a", 200)
    ours, theirs = pty.openpty()
    args = [sys.executable, "-m", "dragoman", "prepare", *corpus, "--out", str(tmp_path / "out"), *SMALL]
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    drawn = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            block = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not block:
            break
        drawn += block
    os.close(ours)
    assert process.wait(60) == 0
    text = drawn.decode()
    assert "clean" in text and "encode" in text and "100%" in text and "pairs/s" in text and "━" in text
