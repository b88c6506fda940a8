"""reference/engines.md: the capabilities that each engine declares."""

from __future__ import annotations

from dragoman.engines.specs import capability_rows
from reference_pages.markdown import table, wrap


def page() -> list[str]:
    """The title and the blocks of the page."""
    header, *rows = capability_rows()
    return [
        "Engines",
        wrap(
            "An engine runs the search: token ids in, hypotheses out. `--engine auto` takes the first one, in the "
            "order of the columns, that supports the request and is available on the device. `dragoman engines "
            "[MODEL]` prints this table, and says why an engine cannot be used on a machine or for a model. "
            "[Translating](../howto/translating.md#engines) has what each engine needs."
        ),
        table(header, rows),
    ]
