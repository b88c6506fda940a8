"""`dragoman verify`: check whether this machine computes what a model gave when it was written."""

from __future__ import annotations

import click

from dragoman import api
from dragoman.cli.options import NAME, Command, complete_model, examples
from dragoman.cli.output import check_stdout
from dragoman.errors import DragomanError


@click.command(
    cls=Command, name="verify", epilog=examples("dragoman verify my-model", "dragoman verify my-model --json")
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.option("--json", "as_json", is_flag=True, help="A JSON object with the checks of all engines.")
def command(model: str, as_json: bool) -> None:
    """Verify the files of MODEL, and that each engine here gives the stored translations of its probe sentences.

    Tokens, log-probabilities and attention are compared. The exit code is 2 if an engine differs.
    """
    check_stdout()
    report = api.verify(model)
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps({**asdict(report), "passed": report.passed}, indent=2))
    else:
        from dragoman.engines.specs import format_text

        rows = [["engine", "precision", "device", "result", "equal", "log-probability", "attention"]]
        for check in report.checks:
            row = [check.engine, check.precision, check.device, check.status]
            if check.status == "unavailable":
                rows.append([*row, check.reason, "", ""])
                continue
            differences = (check.log_probability_difference, check.attention_difference)
            rows.append([*row, f"{check.equal} of {check.probes}", *(f"+-{value:.1g}" for value in differences)])
        click.echo(format_text(rows, width=60), nl=False)
    if not report.passed:
        names = ", ".join(f"{check.engine} {check.precision}" for check in report.checks if check.status == "differs")
        raise DragomanError(
            f"{names} gives other translations than the machine that wrote the model ({report.machine}); use another "
            "engine, and report it with the output of `dragoman verify --json`",
            code="verification_failed",
        )
