"""`dragoman serve`: a translation server with a page."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

import click

from dragoman.cli import tell
from dragoman.cli.options.completion import complete_model
from dragoman.engines.select import ENGINES, PRECISIONS
from dragoman.errors import MissingExtraError


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", shell_complete=complete_model)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 listens to other machines too.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--beam", type=int, default=4, show_default=True, help="Where a request names none; 1 is quickest.")
@click.option("--max-beam", type=int, default=16, show_default=True, help="The widest that a request may ask for.")
@click.option("--engine", type=click.Choice(["auto", *ENGINES]), default="auto", show_default=True,
              help="What computes; auto takes the quickest that is there and knows the model.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(PRECISIONS), default="auto", show_default=True,
              help="Of the weights; auto is int8 on a CPU where the engine has it.")  # fmt: skip
@click.option("--threads", type=int, help="CPU threads; without it OMP_NUM_THREADS, or all.")
@click.option("--reproducible", is_flag=True, help="The same translation in any company, from every engine.")
@click.option("--max-queue", type=int, default=256, show_default=True, help="Requests at once; more are answered 429.")
@click.option("--max-characters", type=int, default=1_000_000, show_default=True, help="Of a request.")
@click.option("--max-batch", type=int, help="Sentences at a time; the engine's own choice, without it.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds until a request is given up.")
@click.option("--root-path", default="", help="The prefix under which a proxy shows the server, as /translate.")
@click.option(
    "--access-log/--no-access-log", default=True, show_default=True, help="A line for each request on stderr."
)
def command(
    models: tuple[str, ...],
    host: str,
    port: int,
    beam: int,
    engine: str,
    device: str,
    precision: str,
    threads: int | None,
    reproducible: bool,
    root_path: str,
    access_log: bool,
    **limits: Any,
) -> None:
    """Serve each MODEL (a directory, a model's name, or NAME=DIRECTORY) over HTTP, with a page for people.

    The port opens when all models are loaded. SIGTERM or Ctrl-C ends the server when what it has accepted is answered.
    There is no authentication: see docs/serving.md before others can reach it.
    """
    if missing := [package for package in ("fastapi", "uvicorn", "prometheus_client") if find_spec(package) is None]:
        raise MissingExtraError(missing[0], "serve", "serving")
    if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
        raise click.UsageError(f"--root-path {root_path!r} must begin with / and not end with it, as in /translate")
    from dragoman.serve.limits import Limits
    from dragoman.serve.loading import batch_of, named, open_model
    from dragoman.serve.server import address, bind, serve

    held = Limits(beam=beam, **limits)
    places = named(models)
    taken = bind(host, port)  # before the models: they take longer to load than a taken port to notice
    from dragoman.serve.app import application
    from dragoman.serve.service import DEFAULT_BATCH, Service

    options = {"engine": engine, "device": device, "precision": precision, "threads": threads}
    served = {name: open_model(name, place, beam, **options) for name, place in places.items()}
    batch = max(batch_of(one, beam) for one in served.values()) or DEFAULT_BATCH
    service = Service(served, held, reproducible, batch)

    def listening() -> None:
        for one in served.values():
            tell(f"dragoman: {one.name}: {one.engine}\n")
        click.echo(f"dragoman: serving {', '.join(served)} on {address(taken)}{root_path}")
        sys.stdout.flush()

    serve(application(service, root_path, log if access_log else lambda *_: None), service, taken, listening)


def log(method: str, path: str, status: int, seconds: float) -> None:
    """A line for each request; nothing in it was written by whoever asked."""
    tell(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {method} {path} {status} {1000 * seconds:.0f} ms\n")
