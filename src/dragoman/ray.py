"""Translate and score files of any size on a Ray cluster, or on all cores of this machine.

    import dragoman.ray

    report = dragoman.ray.translate("my-model", "data/*.jsonl.zst", "out", workers=8)
    print(report.rows, report.files)

Every function resumes where an earlier call with the same arguments stopped. docs/howto/clusters.md has the details.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dragoman.cluster.documents import DocumentTask, run_documents
from dragoman.cluster.job import JobReport, run_job
from dragoman.cluster.plan import make_plan
from dragoman.cluster.ray_data import ClusterOptions, cluster, import_ray
from dragoman.cluster.rows import BLOCK_ROWS
from dragoman.cluster.storage import FOLDER, TEMPORARY, InputFile, OutputDirectory, find_inputs, is_url
from dragoman.cluster.tasks import ModelSource, RowTask, ScoringTask, TranslationTask
from dragoman.cluster.throughput import WorkerThroughput
from dragoman.documents.folders import DocumentFile
from dragoman.documents.reports.report import Report
from dragoman.errors import DataError, DragomanError, OutputError, SearchError
from dragoman.files import MANIFEST, exclusive_lock, sha256
from dragoman.modeldir.adapter import find_adapter
from dragoman.modeldir.locate import find_ensemble, find_model
from dragoman.values import plural

__all__ = ["score", "translate", "translate_documents"]

Show = Callable[[str], None]
Names = str | Path | Sequence[str | Path]


def translate(
    model: str | Path,
    files: Names,
    output: str | Path,
    *,
    address: str = "",
    workers: int | None = None,
    threads: int = 1,
    block: int = BLOCK_ROWS,
    field: str = "text",
    output_field: str = "translation",
    scores: bool = False,
    alignments: bool = False,
    loading: Mapping[str, Any] | None = None,
    show: Show | None = print,
    **options: Any,
) -> JobReport:
    """Translate files into a directory: a file for each, and a row for each row, in order.

    `files` are paths, patterns, folders or URLs of text, JSON lines or Parquet, compressed or not; `output` is a
    directory or URL. `field` is the text of a JSON line or a Parquet row, `output_field` its translation. `address` is
    that of a Ray cluster ("local": this machine; the default is $RAY_ADDRESS, or else this machine). Each of `workers`
    has an engine with `threads` CPU threads, or a GPU; `block` is the number of rows that it takes at a time. `loading`
    are options of `Translator.load`, and `options` those of `Translator.stream`. `show` receives progress; None hides
    it.
    """
    from dragoman.translation.translator import Translator

    if options.get("n_best", 1) != 1:
        raise SearchError("a row has one translation; drop `n_best`", code="conflicting_options")
    given = dict(loading or {})
    directory = find_model(model)
    translator = Translator.load(directory, **given)
    list(translator.stream([], alignment=alignments, **options))  # options are checked before a file is read

    def make_task(source: ModelSource) -> RowTask:
        return TranslationTask(source, options, output_field, scores, alignments)

    return run_task(
        make_task, directory, given, files, output, (field,), ClusterOptions(address, workers, threads), block, show
    )


def score(
    model: str | Path,
    files: Names,
    output: str | Path,
    *,
    address: str = "",
    workers: int | None = None,
    threads: int = 1,
    block: int = BLOCK_ROWS,
    source_field: str = "source",
    target_field: str = "target",
    output_field: str = "score",
    measure: str = "log_probability",
    loading: Mapping[str, Any] | None = None,
    show: Show | None = print,
    **options: Any,
) -> JobReport:
    """Score the pairs of files into a directory: a file for each, and a row for each row, in order.

    A line of text is source, tab, target, and its output a number; JSON lines and Parquet have two fields, and get a
    third. `measure` is "log_probability", "per_token" or "score" (log P / lp). The other arguments are those of
    `translate`; `options` are those of `Translator.stream_scores`.
    """
    from dragoman.translation.translator import Translator

    if measure not in ("log_probability", "per_token", "score"):
        raise DataError(f"unknown measure {measure!r}; use log_probability, per_token or score", code="unknown_choice")
    given = dict(loading or {})
    directory = find_model(model)
    Translator.load(directory, **given).resolve_target(options.get("to"))

    def make_task(source: ModelSource) -> RowTask:
        return ScoringTask(source, options, output_field, measure)

    fields = (source_field, target_field)
    return run_task(
        make_task, directory, given, files, output, fields, ClusterOptions(address, workers, threads), block, show
    )


def translate_documents(
    model: str | Path,
    documents: Sequence[DocumentFile],
    output: str | Path,
    *,
    address: str = "",
    workers: int | None = None,
    threads: int = 1,
    format: str | None = None,  # noqa: A002 - the name of the option on the command line
    memory: Sequence[str] = (),
    retranslate: bool = False,
    loading: Mapping[str, Any] | None = None,
    show: Show | None = print,
    **options: Any,
) -> Iterator[tuple[DocumentFile, Report | DragomanError | None]]:
    """Translate documents into a directory, one for each worker at a time; yield each when it is done.

    `documents` are those of `dragoman.documents.folders.find_documents`. Each comes with its report, its error, or None
    if it was translated before. The record of finished documents is the same as without a cluster.
    """
    import_ray()
    given, place = dict(loading or {}), Path(output).absolute()
    source, _ = absolute_model(find_model(model), given, threads)
    files = [DocumentFile(one.source.absolute(), one.name) for one in documents]
    device = str(given.get("device", "auto"))
    with cluster(ClusterOptions(address, workers, threads, device)) as ray:
        throughput = WorkerThroughput(len(files), show, "document")
        source = ModelSource(source.model, {**source.options, "device": ray.device})
        paths = [str(Path(one).absolute()) for one in memory]
        task = DocumentTask(source, place, format, paths, retranslate, options)
        yield from run_documents(files, task, ray, throughput)
        for line in throughput.summary():
            (show or (lambda text: None))(line)


def run_task(
    make_task: Callable[[ModelSource], RowTask],
    model: Path,
    loading: dict[str, Any],
    files: Names,
    output: str | Path,
    fields: tuple[str, ...],
    options: ClusterOptions,
    block: int,
    show: Show | None,
) -> JobReport:
    """Run a task on files; nothing is started if all of them are finished."""
    import_ray()
    if type(block) is not int or block < 1:
        raise DataError(f"block must be a whole number, 1 or more; got {block!r}", code="out_of_range")
    say: Show = show or (lambda text: None)
    source, digests = absolute_model(model, loading, options.threads)
    place = output_directory(output)
    inputs = find_inputs([str(one) for one in ([files] if isinstance(files, str | Path) else files)])
    check_outputs(inputs, place)
    settings = {"model": digests, "fields": list(fields), **make_task(source).settings}
    with ExitStack() as stack:
        if place.is_local:
            stack.enter_context(exclusive_lock(Path(place.url) / FOLDER / "lock", f"writing {place.url}"))
        place.remove(TEMPORARY)  # of a run that was killed
        plan = make_plan(inputs, place, fields, settings)
        if plan.finished:
            say(f"{plural(plan.finished, 'file')} of {len(inputs):,} were finished before")
        if not plan.todo:
            return JobReport(0, plan.finished, 0, {})
        device = str(loading.get("device", "auto"))
        ray = stack.enter_context(cluster(ClusterOptions(options.address, options.workers, options.threads, device)))
        say(f"{plural(len(plan.todo), 'file')} with {plural(ray.workers, 'worker')} ({ray.device})")
        throughput = WorkerThroughput(plan.size, show)
        task = make_task(ModelSource(source.model, {**source.options, "device": ray.device}))
        report = run_job(plan, task, ray, block_rows=block, throughput=throughput, note=say)
        for line in throughput.summary():
            say(line)
    report.check()
    return report


def absolute_model(model: Path, loading: dict[str, Any], threads: int) -> tuple[ModelSource, dict[str, Any]]:
    """A model for workers, which have other working directories, and what tells it apart from others."""
    others = [one.absolute() for one in find_ensemble(model, loading.get("ensemble"))]
    adapter = None if loading.get("adapter") is None else find_adapter(loading["adapter"], model).absolute()
    options = {**loading, "ensemble": others, "adapter": adapter, "threads": threads}
    files = [model, *others, *([] if adapter is None else [adapter])]
    digests: dict[str, Any] = {"files": [sha256(one / MANIFEST) for one in files]}
    digests |= {name: str(loading[name]) for name in ("mean", "precision", "engine", "language") if loading.get(name)}
    return ModelSource(str(model.absolute()), options), digests


def output_directory(output: str | Path) -> OutputDirectory:
    """The output directory; reject a file."""
    word = str(output)
    if is_url(word):
        return OutputDirectory(word)
    place = Path(word).absolute()
    if place.exists() and not place.is_dir():
        raise OutputError(f"{word} is a file; give a directory", code="not_a_directory")
    return OutputDirectory(str(place))


def check_outputs(inputs: Sequence[InputFile], output: OutputDirectory) -> None:
    """Raise if an output would overwrite its input."""
    for file in inputs:
        if file.url in (f"{output.url.rstrip('/')}/{file.name}", output.place(file.name)):
            raise OutputError(f"{file.url} is also an output; write to another directory", code="output_is_input")
