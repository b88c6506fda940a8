"""Jobs without Ray: one file for each file, one row for each row, in order, whatever order the work has."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dragoman.cluster.job import JobReport, run_job
from dragoman.cluster.plan import Plan, make_plan
from dragoman.cluster.rows import Texts, Values
from dragoman.cluster.storage import FOLDER, OutputDirectory, find_inputs
from dragoman.cluster.tasks import Work
from dragoman.cluster.throughput import WorkerThroughput
from dragoman.errors import DataError, OutputError
from in_process_executor import InProcessExecutor
from raising import raises

CALLS: list[str] = []  # what workers worked on; they are pickled, so it is not in the task


@dataclass(frozen=True)
class Shout:
    """Texts in capitals."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, type] = field(default_factory=lambda: {"translation": str})

    def load(self) -> Work:
        def work(texts: Texts, before: int) -> list[Values]:
            CALLS.extend(text for (text,) in texts)
            return [{"translation": text.upper()} for (text,) in texts]

        return work


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CALLS.clear()
    place = tmp_path / "in"
    (place / "sub").mkdir(parents=True)
    (place / "a.txt").write_text("".join(f"a {i}\n" for i in range(23)))
    (place / "sub" / "b.txt.gz").write_bytes(gzip.compress("".join(f"b {i}\n" for i in range(11)).encode()))
    (place / "c.jsonl").write_text("".join(json.dumps({"text": f"c {i}"}) + "\n" for i in range(7)))
    (place / "empty.txt").write_text("")
    return place


def plan_of(folder: Path, settings: Mapping[str, Any] | None = None) -> Plan:
    out = OutputDirectory(str(folder.parent / "out"))
    return make_plan(find_inputs([str(folder)]), out, ("text",), settings or {"task": "shout"})


def run(folder: Path, executor: InProcessExecutor, block: int = 5, plan: Plan | None = None) -> JobReport:
    plan = plan or plan_of(folder)
    return run_job(plan, Shout(), executor, block_rows=block, throughput=WorkerThroughput(plan.size, None))


def outputs(folder: Path) -> dict[str, bytes]:
    out = folder.parent / "out"
    files = [path for path in out.rglob("*") if path.is_file() and FOLDER not in path.relative_to(out).parts]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def check_outputs(folder: Path) -> None:
    found = outputs(folder)
    assert set(found) == {"a.txt", "sub/b.txt.gz", "c.jsonl", "empty.txt"}
    assert found["a.txt"] == "".join(f"A {i}\n" for i in range(23)).encode()
    assert gzip.decompress(found["sub/b.txt.gz"]) == "".join(f"B {i}\n" for i in range(11)).encode()
    rows = [json.loads(line) for line in found["c.jsonl"].splitlines()]
    assert rows == [{"text": f"c {i}", "translation": f"C {i}"} for i in range(7)]
    assert found["empty.txt"] == b""


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_the_work_does_not_matter(folder: Path, seed: int) -> None:
    report = run(folder, InProcessExecutor(seed))
    assert (report.files, report.rows, report.errors) == (4, 41, {})
    check_outputs(folder)
    assert not [*(folder.parent / "out" / FOLDER / "parts").rglob("*.txt")]


@pytest.mark.parametrize("stop", [1, 9])
def test_a_job_that_was_stopped_resumes_without_work_done_twice(folder: Path, stop: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(folder, InProcessExecutor(1, stop))
    done = len(CALLS)
    report = run(folder, InProcessExecutor(2))
    assert report.rows == 41 - done
    assert sorted(CALLS) == sorted({*CALLS})
    check_outputs(folder)


def test_finished_files_are_not_read_again_unless_they_changed(folder: Path) -> None:
    run(folder, InProcessExecutor())
    CALLS.clear()
    plan = plan_of(folder)
    assert (len(plan.todo), plan.finished) == (0, 4)
    (folder / "c.jsonl").write_text('{"text": "new"}\n')
    (folder.parent / "out" / "a.txt").unlink()
    plan = plan_of(folder)
    assert sorted(job.file.name for job in plan.todo) == ["a.txt", "c.jsonl"]
    run(folder, InProcessExecutor(), plan=plan)
    assert sorted(CALLS) == sorted(["new", *(f"a {i}" for i in range(23))])
    assert outputs(folder)["c.jsonl"] == b'{"text": "new", "translation": "NEW"}\n'


def test_other_settings_do_not_mix_with_what_is_there(folder: Path) -> None:
    run(folder, InProcessExecutor())
    with raises(OutputError, "run_mismatch", "task"):
        plan_of(folder, {"task": "whisper"})


def test_parts_of_other_rows_or_settings_are_not_taken(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(folder, InProcessExecutor(1, 9))
    (folder / "a.txt").write_text("".join(f"x {i}\n" for i in range(23)))
    run(folder, InProcessExecutor())
    assert outputs(folder)["a.txt"] == "".join(f"X {i}\n" for i in range(23)).encode()


def test_a_file_that_cannot_be_read_does_not_stop_the_others(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"fine\n" * 7 + b"\xff\n")
    (folder / "bad.jsonl").write_bytes(b'{"text": "x"}\n' * 6 + b"{}\n")
    report = run(folder, InProcessExecutor())
    assert {name: code for name, (_, code) in report.errors.items()} == {
        "bad.txt": "not_utf8",
        "bad.jsonl": "missing_key",
    }
    check_outputs(folder)
    with raises(DataError, next(iter(report.errors.values()))[1], "bad"):
        report.check()


def test_throughput_shows_each_worker_and_the_time_left() -> None:
    now, shown = [0.0], list[str]()
    throughput = WorkerThroughput(1000, shown.append, now=lambda: now[0])
    throughput.count("node/1", 50, 0, 2.0)
    now[0] = 10.0
    throughput.count("node/2", 30, 250, 1.0)
    now[0] = 15.0
    throughput.count("node/1", 20, 250, 2.0)
    assert shown == ["25 %, 8 lines/s, 0:30 left; lines/s by worker: node/1 25, node/2 30"]
    assert throughput.summary() == [
        "100 lines in 0:15, 6.7 lines/s",
        "node/1: 70 lines, 17.5 lines/s, busy 4 s",
        "node/2: 30 lines, 30.0 lines/s, busy 1 s",
    ]
