"""Jobs on a local Ray cluster: the same bytes as without it, with workers and drivers that are killed in the middle.

Skipped where Ray is not installed; .ci/run has an environment with it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman.ray
from dragoman import Translator, prepare
from dragoman.cluster import throughput as speed
from dragoman.cluster.job import run_job
from dragoman.cluster.plan import make_plan
from dragoman.cluster.ray_data import ClusterOptions, cluster, connect, import_ray
from dragoman.cluster.storage import OutputDirectory, find_inputs
from dragoman.cluster.teacher import translate_sources_on_ray
from dragoman.demo.corpus import pairs
from dragoman.distillation.teacher import TeacherJob, TeacherSettings, read_sources, translate_sources
from dragoman.documents.folders import find_documents, translate_documents
from dragoman.errors import DragomanError
from dragoman.progress import SilentReporter
from poison_task import PoisonTask
from raising import raises

ray = pytest.importorskip("ray")
MODEL = Path(__file__).parents[1] / "fixtures/before/trained"
WORKERS = 3
LINES = [english for english, _ in pairs(3000, split="train")] * 3
DRIVER = """
import sys
import dragoman.ray
from dragoman.cluster import throughput
throughput.INTERVAL_SECONDS = 0
model, text, out = sys.argv[1:]
options = {"address": "local", "workers": 2, "block": 60, "beam": 1}
dragoman.ray.translate(model, text, out, show=lambda line: print(line, flush=True), **options)
"""


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    tests = Path(__file__).parents[1]  # where workers find the tasks of tests
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")]))
        connect(import_ray(), ClusterOptions("local", WORKERS))
        yield
    ray.shutdown()


@pytest.fixture(scope="module")
def reference() -> list[str]:
    return [found.text for found in Translator.load(MODEL, threads=1).translate(LINES, beam=1)]


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_formats_and_compressions_have_a_row_for_each_row(tmp_path: Path, reference: list[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    folder, lines, texts = tmp_path / "in", LINES[:700], reference[:700]
    folder.mkdir()
    (folder / "a.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = [json.dumps({"id": i, "s": line}) for i, line in enumerate(lines)]
    (folder / "c.jsonl").write_text("\n".join(rows))
    parquet.write_table(pyarrow.table({"s": lines, "n": range(len(lines))}), folder / "d.parquet", row_group_size=300)
    report = dragoman.ray.translate(
        MODEL,
        f"{folder}/*",
        tmp_path / "out",
        workers=WORKERS,
        block=100,
        field="s",
        output_field="t",
        beam=1,
        show=None,
    )
    assert (report.files, report.rows) == (4, 2800)
    out = tmp_path / "out"
    assert lines_of(out / "a.en") == texts
    assert gzip.decompress((out / "b.txt.gz").read_bytes()).decode().split("\n")[:-1] == texts
    assert [json.loads(line)["t"] for line in lines_of(out / "c.jsonl")] == texts
    table = parquet.read_table(out / "d.parquet")
    assert (table.column("t").to_pylist(), table.column("s").to_pylist()) == (texts, lines)


def test_a_worker_that_is_killed_changes_nothing(
    tmp_path: Path, reference: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in LINES))
    shown: list[str] = []
    killed: list[int] = []

    def show(line: str) -> None:
        shown.append(line)
        found = re.findall(r"/(\d+) [\d,]+(?:,|$)", line.split("by worker: ")[-1]) if "by worker" in line else []
        if len(shown) in (6, 20) and found:
            victim = next(int(pid) for pid in found if int(pid) not in killed)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    monkeypatch.setattr(speed, "INTERVAL_SECONDS", 0.0)
    report = dragoman.ray.translate(
        MODEL, tmp_path / "a.txt", tmp_path / "out", workers=WORKERS, block=60, beam=1, show=show
    )
    assert len(killed) == 2
    assert report.rows == len(LINES)
    assert lines_of(tmp_path / "out" / "a.txt") == reference


def test_a_driver_that_is_killed_is_resumed(tmp_path: Path, reference: list[str]) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out"
    text.write_text("".join(f"{line}\n" for line in LINES))
    words = [sys.executable, "-c", DRIVER, str(MODEL), str(text), str(out)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        assert driver.stdout is not None
        for _, line in zip(range(10), driver.stdout, strict=False):
            assert "finished" not in line
        driver.send_signal(signal.SIGKILL)
    assert not (out / "a.txt").exists()
    report = dragoman.ray.translate(MODEL, text, out, workers=WORKERS, block=60, beam=1, show=None)
    assert 0 < report.rows <= len(LINES) - 5 * 60
    assert lines_of(out / "a.txt") == reference
    again = dragoman.ray.translate(MODEL, text, out, workers=WORKERS, block=60, beam=1, show=None)
    assert (again.rows, again.files, again.finished_before) == (0, 0, 1)


@pytest.mark.parametrize(("missing", "code"), [(False, "worker_died"), (True, "model_not_found")])
def test_a_block_or_a_model_that_no_worker_can_use_ends_the_job(tmp_path: Path, missing: bool, code: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\npoison\nfour\n")
    plan = make_plan(find_inputs([str(tmp_path / "a.txt")]), OutputDirectory(str(tmp_path / "out")), ("text",), {})
    with cluster(ClusterOptions(workers=1)) as found, raises(DragomanError, code):
        run_job(plan, PoisonTask(missing), found, block_rows=1, throughput=speed.WorkerThroughput(plan.size, None))


def test_scores_are_those_of_the_translator(tmp_path: Path) -> None:
    some = [*pairs(300, split="train")]
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in some))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"x": s, "y": t}) + "\n" for s, t in some))
    options: dict[str, Any] = {"workers": 2, "block": 70, "measure": "per_token", "show": None}
    dragoman.ray.score(MODEL, tmp_path / "a.tsv", tmp_path / "out", **options)
    dragoman.ray.score(
        MODEL, tmp_path / "b.jsonl", tmp_path / "json", source_field="x", target_field="y", output_field="p", **options
    )
    expected = [found.per_token for found in Translator.load(MODEL, threads=1).score(some)]
    assert [float(line) for line in lines_of(tmp_path / "out" / "a.tsv")] == pytest.approx(expected, abs=1e-4)
    found = [json.loads(line)["p"] for line in lines_of(tmp_path / "json" / "b.jsonl")]
    assert found == pytest.approx(expected, abs=1e-4)


def test_documents_and_their_record_are_those_of_a_local_run(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.html").write_text(f"<p>{LINES[0]} <b>{LINES[1]}</b></p>")
    (folder / "sub" / "b.md").write_text(f"# {LINES[2]}\n\n{LINES[3]}\n")
    (folder / "c.docx").write_text("not a document")
    found, _ = find_documents([folder], tmp_path / "here")
    translator = Translator.load(MODEL)
    list(translate_documents(translator, found, tmp_path / "here", beam=1))
    results = dict(dragoman.ray.translate_documents(MODEL, found, tmp_path / "there", workers=2, beam=1, show=None))
    assert {document.name: type(result).__name__ for document, result in results.items()} == {
        "a.html": "Report",
        "sub/b.md": "Report",
        "c.docx": "DocumentError",
    }
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_teachers_chunks_are_those_of_a_local_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    some = [*pairs(2500, split="train")]  # two chunks
    source.write_text("".join(f"{one}\n" for one, _ in some))
    target.write_text("".join(f"{other}\n" for _, other in some))
    settings = TeacherSettings.of([MODEL], [source], [target], beam=2, n_best=2, alignment=False)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    job = TeacherJob([MODEL], settings, [source], [target], there, "cpu")
    shown: list[str] = []
    translate_sources_on_ray(job, "local", 2, shown.append)
    assert shown
    sources = read_sources([source], [target])
    stored = translate_sources(here, Translator.load(MODEL), settings, sources, 2500, SilentReporter())
    assert stored.chunks == 2
    assert files_of(here) == files_of(there)
    translate_sources_on_ray(job, "local", 2, lambda text: pytest.fail("it was translated again"))


@pytest.mark.parametrize("form", ["plain", "compressed"])
def test_prepared_data_are_the_same_bytes(tmp_path: Path, form: str) -> None:
    some = [*pairs(20_000, split="train"), *pairs(300, split="valid"), ("", "leer"), ("same", "same")]
    for side, name in enumerate(("s", "t")):
        text = "".join(f"{pair[side]}\n" for pair in some).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if form == "compressed" else text)
    options: dict[str, Any] = {"source": tmp_path / "s", "target": tmp_path / "t", "recipe": "tiny"}
    options |= {"changes": ["text.vocabulary_size=600"], "reporter": SilentReporter()}
    prepare(out=tmp_path / "here", **options, processes=1)
    prepare(out=tmp_path / "there", **options, ray="local")
    here, there = files_of(tmp_path / "here"), files_of(tmp_path / "there")
    assert len(here) > 5
    assert here == there
