"""Translate the sources of a distillation on a cluster, into the files in which a local run has its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from dragoman.cluster.executor import Executor
from dragoman.cluster.ray_data import ClusterOptions, cluster
from dragoman.cluster.throughput import WorkerThroughput
from dragoman.distillation.teacher import TeacherJob, read_sources
from dragoman.distillation.translations import TeacherChunk, read_chunks


def read_teacher_job(job: TeacherJob) -> Iterator[TeacherChunk]:
    """The chunks that are not translated yet."""
    for chunk in read_chunks(job.folder, read_sources(job.sources, job.references)):
        if not chunk.is_translated():
            yield chunk


def load_teacher(job: TeacherJob, device: str) -> Callable[[TeacherChunk], int]:
    """Load the teacher; return the function that translates a chunk."""
    from dragoman.translation.translator import Translator

    translator = Translator.load(job.models[0], device=device, ensemble=job.models[1:], threads=1)

    def run(chunk: TeacherChunk) -> int:
        chunk.write(translator.translate([source for source, _ in chunk.given], **job.settings.search))
        return len(chunk.pairs)

    return run


def translate_sources_on_ray(job: TeacherJob, address: str, workers: int | None, show: Callable[[str], None]) -> None:
    """Translate the chunks of a teacher on a Ray cluster."""
    missing = sum(len(chunk.pairs) for chunk in read_teacher_job(job))
    if not missing:
        return
    with cluster(ClusterOptions(address, workers, device=job.device)) as ray:
        throughput = WorkerThroughput(missing, show)
        run_teacher(job, ray, ray.device, throughput)
        for line in throughput.summary():
            show(line)


def run_teacher(job: TeacherJob, executor: Executor, device: str, throughput: WorkerThroughput) -> None:
    """Translate all chunks; paths are made absolute, because workers have other working directories."""
    job = replace(
        job,
        models=[path.absolute() for path in job.models],
        sources=[path.absolute() for path in job.sources],
        references=[path.absolute() for path in job.references],
        folder=job.folder.absolute(),
    )
    for outcome in executor.map([job], read_teacher_job, partial(load_teacher, job, device)):
        throughput.count(outcome.worker, outcome.value, outcome.value, outcome.seconds)
