"""Command-line options for Ray clusters, shared by the commands that run on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dragoman.cli import note
from dragoman.cli.options import reject_unused
from dragoman.errors import DataError
from dragoman.values import MAX_INT, MAX_THREADS

RAY_OPTION = click.option(
    "--ray",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS]",
    help="Work on a Ray cluster at HOST:PORT, or on this machine: `local`.  [default: $RAY_ADDRESS, or local]",
)
WORKERS_OPTION = click.option(
    "--workers", type=click.IntRange(1, MAX_THREADS), help="Workers on the cluster.  [default: all CPUs or GPUs]"
)
BLOCK_OPTION = click.option(
    "--block", type=click.IntRange(1, MAX_INT), help="Lines per block with --ray.  [default: 4096]"
)
WITHOUT_RAY = "it belongs to --ray; add --ray"


def row_options(output_field: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `ray`, `workers`, `block` and `output_field` to a command; `output_field` is the default of the last."""
    name = click.option(
        "--output-field",
        metavar="NAME",
        help=f"Field of the result in JSON lines and Parquet, with --ray.  [default: {output_field}]",
    )

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed((RAY_OPTION, WORKERS_OPTION, BLOCK_OPTION, name)):
            function = option(function)
        return function

    return add


@dataclass(frozen=True)
class RayArguments:
    """The options of --ray: arguments of the functions of `dragoman.ray`."""

    address: str
    arguments: dict[str, Any]

    @classmethod
    def take(cls, settings: dict[str, Any]) -> RayArguments | None:
        """Remove the options from `settings`; None without --ray."""
        address = settings.pop("ray")
        names = ("workers", "block", "field", "output_field")
        given = {name: value for name in names if (value := settings.pop(name, None)) is not None}
        if address is None:
            reject_unused(names, WITHOUT_RAY)
            return None
        from dragoman.cluster.ray_data import import_ray

        import_ray()  # before anything else is done
        return cls(address, given)

    def keywords(self, threads: int | None, progress: bool | None, *, rows: bool = True) -> dict[str, Any]:
        """The arguments of a function of `dragoman.ray`; those of rows only with `rows`."""
        chosen = self.arguments if rows else {k: v for k, v in self.arguments.items() if k == "workers"}
        if len(chosen) < len(self.arguments):
            reject_unused(("block", "field", "output_field"), "documents have no rows")
        show = None if progress is False else note
        return {"address": self.address, "threads": threads or 1, "show": show, **chosen}

    def run(
        self,
        function: Callable[..., object],
        model: Path,
        files: Sequence[str],
        output: str,
        progress: bool | None,
        loading: dict[str, Any],
        options: dict[str, Any],
    ) -> None:
        """Call `translate` or `score` of `dragoman.ray` for the rows of files."""
        arguments = self.keywords(loading.pop("threads"), progress)
        function(model, files, output_folder(output), loading=loading, **arguments, **options)

    def find_documents(self, files: Sequence[str], format_name: str | None) -> list[Path | None]:
        """The files and folders to translate as documents; empty if these are files of rows."""
        from dragoman.cluster.storage import is_rows

        if format_name == "text" or not files or (format_name is None and any(map(is_rows, files))):
            return []
        return [Path(file) for file in files]


def output_folder(output: str) -> str:
    """The directory of the outputs; standard output cannot hold several files."""
    if output == "-":
        raise DataError("--ray writes a file for each file; give a directory: -o DIR", code="missing_option")
    return output
