"""`dragoman models`: the models that are installed."""

from __future__ import annotations

import click

from dragoman.cli.options import Command, examples
from dragoman.cli.output import check_stdout


@click.command(cls=Command, name="models", epilog=examples("dragoman models", "dragoman models --json"))
@click.option("--json", "as_json", is_flag=True, help="A JSON array with one object per model.")
def command(as_json: bool) -> None:
    """List the models that can be used by name: languages, size, validation BLEU, license and origin."""
    check_stdout()
    from dragoman.engines.specs import format_text
    from dragoman.modeldir.installed import installed_models
    from dragoman.modeldir.locate import model_sources

    found = installed_models()
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps([{**asdict(model), "path": str(model.path)} for model in found], indent=2))
        return
    if not found:
        places = ", ".join(str(folder) for _, folder in model_sources())
        click.echo(f"no models are installed; install a data package, or put model directories into {places}")
        return
    rows = [["name", "languages", "size", "BLEU", "license", "from"]]
    for model in found:
        languages = f"{', '.join(model.source_languages) or '?'} to {', '.join(model.target_languages) or '?'}"
        bleu = "" if model.bleu is None else f"{model.bleu:.1f}"
        rows.append([model.name, languages, f"{model.bytes / 1e6:.1f} MB", bleu, model.license, model.origin])
    click.echo(format_text(rows, width=60), nl=False)
