"""`dragoman serve`: a translation server with a web page."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli import note, print_stderr
from dragoman.cli.options import Command, complete_model, examples
from dragoman.cli.options.constraint_options import read_terms
from dragoman.cli.options.engine_options import engine_options
from dragoman.errors import MissingExtraError
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.serve.models.served_model import ModelSummary


@click.command(cls=Command, epilog=examples("dragoman serve en-de=my-model --port 8080", "dragoman serve"))
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--adapter", "adapters", multiple=True, metavar="[NAME=]ADAPTER",
              help="Adapter of a served model, served as a separate model; repeatable.")  # fmt: skip
@click.option("--languages", metavar="SOURCE-TARGET", help="Languages of the model, such as en-es.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 for a free one.")
@click.option("--beam", type=int, default=4, show_default=True, help="Default beam size; 1 is fastest.")
@click.option("--max-beam", type=int, default=16, show_default=True, help="Maximum beam size of a request.")
@engine_options
@click.option("--workers", type=click.IntRange(1, 256), metavar="N",
              help="Worker processes, each with all models (default: no separate ones).")  # fmt: skip
@click.option("--memory", "memories", multiple=True, metavar="[MODEL=]FILE",
              help="Translation memory for documents, .tmx or .tsv, of one model or of all; repeatable.")  # fmt: skip
@click.option("--terms", multiple=True, metavar="[MODEL=]FILE",
              help="Terminology of all requests: TSV with source and target phrases; repeatable.")  # fmt: skip
@click.option("--reproducible", is_flag=True, help="Translate each sentence alone, for bit-identical results.")
@click.option("--max-queue", type=int, default=256, show_default=True, help="Maximum open requests; more get a 429.")
@click.option(
    "--max-client-requests", type=int, help="Maximum open requests per client (default: a quarter of --max-queue)."
)
@click.option(
    "--max-characters", type=int, default=1_000_000, show_default=True, help="Maximum characters per request."
)
@click.option("--max-work", type=int, default=4_000_000, show_default=True, help="Maximum output tokens x beam.")
@click.option("--max-batch", type=int, help="Maximum sentences per batch (default: the engine's choice).")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds until a request fails with 504.")
@click.option("--api-token", multiple=True, help="Token that requests must send; repeatable. [env: DRAGOMAN_API_TOKEN]")
@click.option("--allowed-host", multiple=True, help="Host name to accept in the Host header; repeatable, * for any.")
@click.option("--root-path", default="", help="URL prefix behind a proxy, such as /translate.")
@click.option("--access-log/--no-access-log", default=True, show_default=True, help="Log each request to stderr.")
def command(
    models: tuple[str, ...],
    adapters: tuple[str, ...],
    languages: str | None,
    host: str,
    port: int,
    beam: int,
    engine: str,
    device: str,
    precision: str,
    threads: int | None,
    memories: tuple[str, ...],
    terms: tuple[str, ...],
    reproducible: bool,
    api_token: tuple[str, ...],
    allowed_host: tuple[str, ...],
    root_path: str,
    access_log: bool,
    workers: int | None,
    **limits: Any,
) -> None:
    """Serve each MODEL (a directory, a model's name, or NAME=DIRECTORY) over HTTP, with a web page; by default all
    installed models.

    A NAME such as en-de gives the languages of a model that does not record them; so does --languages, for one model.
    The port opens when all models are loaded. On SIGTERM or Ctrl-C the server answers accepted requests and exits. On
    SIGHUP it reloads models whose directories were replaced. Put the API token into the environment variable
    DRAGOMAN_API_TOKEN: other users can see command lines. Read docs/howto/serving.md before you expose the server to
    others.
    """
    check_usage(root_path, allowed_host, languages, models)
    from dragoman.serve.http.access import Access, api_tokens
    from dragoman.serve.limits import Limits
    from dragoman.serve.models.loading import adapter_directories, model_directories, parse_languages
    from dragoman.serve.models.resources import files_by_model, merge_terms
    from dragoman.serve.server import bind, exposure_notes, own_names, postponed_hangup, run_server, server_url

    click.get_current_context().with_resource(postponed_hangup())
    if workers is not None:
        from dragoman.serve.workers.server import check_platform

        check_platform()
    server_limits = Limits(beam=beam, **limits)
    tokens = api_tokens(api_token, os.environ)
    pair = None if languages is None else parse_languages(languages)
    directories = model_directories(models or installed_names())
    adapted = adapter_directories(adapters, directories)
    bound = bind(host, port)  # before the models, which take time to load: a port in use fails at once
    from dragoman.serve.app import create_app
    from dragoman.serve.options import ServerOptions

    names = (*directories, *adapted)
    merged = {
        name: merge_terms([read_terms(str(path)) for path in paths])
        for name, paths in files_by_model("--terms", terms, names).items()
    }
    options = ServerOptions(
        directories,
        adapted,
        server_limits,
        pair,
        engine,
        device,
        precision,
        threads,
        reproducible,
        bool(tokens),
        memories=files_by_model("--memory", memories, names),
        terms={name: found.targets for name, found in merged.items() if found is not None},
    )

    url = server_url(bound) + root_path
    notes = exposure_notes(bound, bool(tokens), root_path)
    access = Access([host, bound.getsockname()[0], *own_names(bound), *allowed_host], tokens)
    log = log_request if access_log else lambda *_: None
    if workers is not None:
        from dragoman.serve.workers.front import create_front
        from dragoman.serve.workers.pool import WorkerPool
        from dragoman.serve.workers.server import run_workers

        pool = WorkerPool(workers, options, tokens, note)
        front = create_front(pool, root_path, log, access)
        run_workers(front, pool, bound, lambda: announce(pool.models, url, notes, f", in {plural(workers, 'worker')}"))
        return
    service = options.create_service()
    reloader = options.create_reloader(service, note)
    app = create_app(service, root_path, log, access)
    summaries = [model.summary for model in service.models.values()]
    run_server(app, service, bound, lambda: announce(summaries, url, notes), reloader.start)


def check_usage(root_path: str, hosts: tuple[str, ...], languages: str | None, models: tuple[str, ...]) -> None:
    """Raise if the extra is missing, or if options contradict each other."""
    if missing := [package for package in ("fastapi", "uvicorn", "prometheus_client") if find_spec(package) is None]:
        raise MissingExtraError(missing[0], "serve", "serving")
    if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
        raise click.UsageError(f"--root-path {root_path!r} must start with / and not end with /, as in /translate")
    from dragoman.serve.http.access import host_name

    for host in hosts:  # any other would never match the name in a header
        if "/" in host or host_name(host) != host.lower():
            message = f"--allowed-host {host!r} must be a name without scheme, port and path, such as mt.example.org"
            raise click.UsageError(message)
    if languages is not None and len(models) > 1:
        message = "--languages is for one model; name each of several models by its languages, as in en-es=DIRECTORY"
        raise click.UsageError(message)


def announce(served: list[ModelSummary], url: str, notes: list[str], where: str = "") -> None:
    """Say what is served, with which engine, and at which address; `notes` are about access."""
    for model in served:
        note(f"{model.name}: {model.engine}{where}")
        if not model.has_languages:
            advice = "give --languages, as in --languages en-es, or name the model en-es=DIRECTORY"
            note(f"{model.name}: its languages are unknown, so requests that name languages are rejected; {advice}")
    for line in notes:
        note(line)
    click.echo(f"dragoman: serving {', '.join(model.name for model in served)} on {url}")
    sys.stdout.flush()


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """Log a request; the line contains nothing that the client wrote."""
    print_stderr(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {method} {path} {status} {1000 * seconds:.0f} ms\n")


def installed_names() -> tuple[str, ...]:
    """The names of all installed models, which are served if none is given."""
    from dragoman.modeldir.installed import installed_models

    names = tuple(model.name for model in installed_models())
    if not names:
        raise click.UsageError("no models are installed; give the models to serve, or see `dragoman models`")
    return names
