"""Run a job: read files in blocks, work on them, write a part for each, and join the parts of a file at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from dragoman.cluster.executor import Executor
from dragoman.cluster.plan import FileJob, Plan
from dragoman.cluster.rows import RowBlock
from dragoman.cluster.storage import open_input
from dragoman.cluster.tasks import RowTask
from dragoman.cluster.throughput import WorkerThroughput
from dragoman.errors import DataError, DragomanError
from dragoman.values import plural


@dataclass(frozen=True)
class JobBlock:
    """A block on its way to a worker.

    Without a block, its part was written before. The last one of a file has no part: `number` counts the others.
    """

    job: FileJob
    number: int
    first: int = 0  # the number of rows before it
    rows: int = 0
    amount: int = 0  # bytes of the file
    part: str = ""
    block: RowBlock | None = None
    error: tuple[str, str] | None = None  # message and code

    @property
    def is_end(self) -> bool:
        """Whether the file has been read to its end."""
        return not self.part and self.error is None


@dataclass(frozen=True)
class BlockResult:
    """What became of a block."""

    file: int
    number: int
    rows: int
    amount: int
    part: str
    is_end: bool
    worked: bool  # whether this run did the work
    error: tuple[str, str] | None = None


def read_job(job: FileJob, size: int) -> Iterator[JobBlock]:
    """The blocks of a file; an error ends them."""
    number = first = position = 0
    try:
        with open_input(job.file.url) as raw:
            for block in job.format.blocks(raw, size):
                part, amount = job.part(number, block), block.position - position
                kept = None if job.output.size(part) is not None else block
                yield JobBlock(job, number, first, block.rows, amount, part, kept)
                number, first, position = number + 1, first + block.rows, block.position
    except (DragomanError, OSError) as error:
        yield JobBlock(job, number, error=describe_error(error, job.file.url))
        return
    yield JobBlock(job, number, rows=first, amount=max(0, job.file.size - position))


def describe_error(error: DragomanError | OSError, place: str) -> tuple[str, str]:
    """The message and the code of an error."""
    if isinstance(error, DragomanError):
        return str(error), error.code
    return f"{place}: {error.strerror or error}", "file_unreadable"


def load_worker(task: RowTask) -> Callable[[JobBlock], BlockResult]:
    """Load the engine of a task; return the function that works on a block and writes its part."""
    work = task.load()

    def run(given: JobBlock) -> BlockResult:
        error = given.error
        if given.block is not None:
            form = given.job.format
            try:
                found = work(form.texts(given.block, given.first), given.first)
                assert len(found) == given.rows, "one result for each row"
                content = form.part(given.block, found, task.columns)
                with given.job.output.write(given.part, sync_name=False) as file:  # a lost part is written again
                    file.write(content)
            except (DragomanError, OSError) as problem:
                error = describe_error(problem, given.job.file.url)
        return BlockResult(
            given.job.number, given.number, given.rows, given.amount, given.part, given.is_end,
            given.block is not None, error,
        )  # fmt: skip

    return run


@dataclass
class FileProgress:
    """The parts of a file so far; `n_parts` and `rows` are known at its end."""

    parts: dict[int, str] = field(default_factory=dict)
    rows: int = 0
    n_parts: int | None = None
    expected_rows: int = 0
    failed: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all parts are there."""
        return not self.failed and self.n_parts == len(self.parts)


def finish_file(job: FileJob, parts: list[str], rows: int) -> int:
    """Join the parts of a file, record it, and remove the parts; return its size."""

    def opened() -> Iterator[IO[bytes]]:
        for part in parts:
            with job.output.read(part) as file:
                yield file

    with job.output.write(job.file.name) as into:
        job.format.join(opened(), into)
    size = job.output.size(job.file.name) or 0
    job.output.write_json(
        job.record, {"version": job.file.version, "settings": job.settings, "bytes": size, "rows": rows}
    )
    job.output.remove(job.parts_folder)
    return size


@dataclass(frozen=True)
class JobReport:
    """What a job did: files and rows, and the errors of files, by name."""

    files: int
    finished_before: int
    rows: int
    errors: Mapping[str, tuple[str, str]]

    def check(self) -> None:
        """Raise if a file could not be read."""
        if self.errors:
            name, (message, code) = next(iter(self.errors.items()))
            more = f" (and {plural(len(self.errors) - 1, 'file')} more)" if len(self.errors) > 1 else ""
            raise DataError(f"{name} was not finished: {message}{more}", code=code)


def run_job(
    plan: Plan,
    task: RowTask,
    executor: Executor,
    *,
    block_rows: int,
    throughput: WorkerThroughput,
    note: Callable[[str], None] = lambda text: None,
) -> JobReport:
    """Work on the files of a plan; a file that cannot be read does not stop the others."""
    jobs = {job.number: job for job in plan.todo}
    progress = {number: FileProgress() for number in jobs}
    errors: dict[str, tuple[str, str]] = {}
    finishing: list[Callable[[], int]] = []
    read: Callable[[FileJob], Iterator[JobBlock]] = partial(read_job, size=block_rows)
    for outcome in executor.map(plan.todo, read, partial(load_worker, task)):
        result = outcome.value
        job, file = jobs[result.file], progress[result.file]
        if result.error is not None:
            if not file.failed:
                errors[job.file.name] = result.error
                note(f"{job.file.url} was not finished: {result.error[0]}")
            file.failed = True
            continue
        if result.is_end:
            file.n_parts, file.expected_rows = result.number, result.rows
        elif result.number not in file.parts:  # a block that was worked on twice counts once
            file.parts[result.number] = result.part
            file.rows += result.rows
        rows = result.rows if result.worked else 0
        throughput.count(outcome.worker, rows, result.amount, outcome.seconds if rows else 0.0)
        if file.is_complete:
            assert file.rows == file.expected_rows, "one row out for each row in"
            parts = [file.parts[number] for number in range(len(file.parts))]
            finishing.append(executor.submit(finish_file, job, parts, file.rows))
            progress[result.file] = FileProgress()  # a job may have millions of parts
    for wait in finishing:
        wait()
    return JobReport(len(finishing), plan.finished, throughput.rows, errors)
