"""Interrupted, disturbed or damaged preparation: nothing incomplete is ever accepted."""

import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError, DragomanError
from raising import raises
from small_corpora import RECIPE, changed, files, put, some_pairs


def stopped_at(stage, after):
    class Stop:
        def __init__(self):
            self.stages, self.steps = 0, 0

        def start_stage(self, title, total, unit):
            self.stages, self.steps = self.stages + 1, 0
            self.advance(0)

        def advance(self, done):
            self.steps += 1
            if (self.stages, self.steps) == (stage, after):
                raise KeyboardInterrupt

    return Stop()


@pytest.mark.parametrize(("stage", "after"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize("old", [False, True])
def test_an_interrupted_preparation_leaves_nothing_half_written(tmp_path, stage, after, old):
    corpus, out = put(tmp_path, "a", some_pairs(60)), tmp_path / "out"
    before = {}
    if old:
        prepare_corpora([corpus], RECIPE, out)
        before = files(out)
    with pytest.raises(KeyboardInterrupt):
        prepare_corpora([corpus], changed(max_tokens=50), out, anew=True, reporter=stopped_at(stage, after))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.de", "a.en", *(["out"] if old else [])]
    assert not old or files(out) == before
    assert len(prepare_corpora([corpus], changed(max_tokens=50), out, anew=True).split()) == 57


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from small_corpora import RECIPE
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.corpora.reader import Corpus

class Die:
    def start_stage(self, title, total, unit):
        if title == "encode":
            os.kill(os.getpid(), signal.SIGKILL)
    def advance(self, done):
        pass

folder = Path({folder!r})
prepare_corpora([Corpus(folder / "a.en", folder / "a.de")], RECIPE, folder / "out", reporter=Die())
"""


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    script = KILLED.format(here=str(Path(__file__).parents[3]), folder=str(tmp_path))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert (tmp_path / ".out.staging").exists() and not (tmp_path / "out").exists()
    prepare_corpora([corpus], RECIPE, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.de", "a.en", "out"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    corpus, out = put(tmp_path, "a", some_pairs(60)), tmp_path / "out"
    prepare_corpora([corpus], RECIPE, out)
    before = files(out)
    out.rename(tmp_path / ".out.old")
    with pytest.raises(KeyboardInterrupt):
        prepare_corpora([corpus], RECIPE, out, reporter=stopped_at(1, 1))
    assert files(out) == before and not (tmp_path / ".out.old").exists()


def test_two_preparations_of_one_place_do_not_mix(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    with (tmp_path / ".out.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with raises(DragomanError, "locked"):
            prepare_corpora([corpus], RECIPE, tmp_path / "out")
    prepare_corpora([corpus], RECIPE, tmp_path / "out")


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))

    class Meddle:
        def start_stage(self, title, total, unit):
            if title == "encode":
                time.sleep(0.01)
                corpus.source.write_text(corpus.source.read_text().upper())

        def advance(self, done):
            pass

    with raises(DataError, "file_changed", "a.en"):
        prepare_corpora([corpus], RECIPE, tmp_path / "out", reporter=Meddle())
    assert not (tmp_path / "out").exists()


def test_damage_is_noticed(tmp_path):
    out = prepare_corpora([put(tmp_path, "a", some_pairs(60))], RECIPE, tmp_path / "out").directory
    ids = out / "train.target.ids"
    content = ids.read_bytes()
    ids.write_bytes(content[:-2])
    with raises(DataError, "file_damaged", "train.target.ids", f"{len(content) - 2:,} bytes"):
        Prepared.open(out)
    ids.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    Prepared.open(out)
    with raises(DataError, "file_damaged", "train.target.ids", "SHA-256"):
        Prepared.open(out, verify=True)
    ids.unlink()
    with raises(DataError, "file_damaged", "train.target.ids"):
        Prepared.open(out)
    corpus = Corpus(tmp_path / "a.en", tmp_path / "a.de")
    with raises(DataError, "file_damaged", "train.target.ids"):
        prepare_corpora([corpus], RECIPE, out)
    assert len(prepare_corpora([corpus], RECIPE, out, anew=True).split()) == 57
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with raises(DataError, "unsupported_format", "99", "1", "prepare the data again"):
        Prepared.open(out)
    (out / "manifest.json").write_text("{")
    with raises(DataError, "file_damaged", "manifest.json"):
        Prepared.open(out)
    with raises(DataError, "not_prepared_data", "dragoman prepare"):
        Prepared.open(tmp_path)


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    corpus = put(tmp_path, "a", some_pairs(60))

    def full(self, flat, lengths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.data.shards.SentenceWriter.append", full)
    with raises(DataError, "cannot_write"):
        prepare_corpora([corpus], RECIPE, tmp_path / "out")
    with raises(DataError, "cannot_write"):
        prepare_corpora([corpus], RECIPE, corpus.source / "below" / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.de", "a.en"]
