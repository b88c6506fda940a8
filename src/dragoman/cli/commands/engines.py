"""`dragoman engines`: what each engine supports, and which are available here."""

from __future__ import annotations

import click

from dragoman.cli.options import NAME, Command, complete_model, examples
from dragoman.cli.output import check_stdout


@click.command(cls=Command, epilog=examples("dragoman engines", "dragoman engines my-model --device cpu"))
@click.argument("model", required=False, type=NAME, shell_complete=complete_model)
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1, ...")
@click.option("--json", "as_json", is_flag=True, help="A JSON array with one object per engine.")
def command(model: str | None, device: str, as_json: bool) -> None:
    """Show what each engine supports, and whether it is available here.

    With MODEL (a directory, or a model's name), check whether it can run that model.
    """
    check_stdout()
    from dragoman.engines.select import check_device, has_gpu
    from dragoman.engines.specs import capability_rows, engine_statuses, format_text
    from dragoman.modeldir.layout import verify_model_cached
    from dragoman.modeldir.locate import find_model, model_name, read_recipe

    recipe, name = None, ""
    if model is not None:
        directory = find_model(model)
        verify_model_cached(directory)
        recipe, name = read_recipe(directory).model, f", for {model_name(directory)}"
    device = check_device("cuda" if has_gpu() else "cpu") if device == "auto" else check_device(device)
    statuses = engine_statuses(recipe, device)
    if as_json:
        import json

        click.echo(json.dumps([status.to_json() for status in statuses], indent=2))
        return
    click.echo(format_text(capability_rows()))
    rows = [[status.name, status.unavailable or "available"] for status in statuses]
    click.echo(f"On {device} here{name}:\n{format_text(rows, width=200)}", nl=False)
