"""The engines and their capabilities as a table, for `dragoman engines` and docs/translating.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dragoman.engines.base import Capabilities
from dragoman.engines.specs import SPECS

if TYPE_CHECKING:
    from dragoman.config import ModelRecipe

LABELS = {
    "devices": "devices",
    "precisions": "precisions, default first",
    "searches": "searches",
    "max_beam": "largest beam",
    "no_repeat": "`no_repeat`",
    "prefixes": "forced prefixes",
    "constraints": "required, avoided phrases",
    "ensembles": "ensembles",
    "scoring": "scoring",
    "attention": "attention",
    "alignment": "word alignment",
    "position_codes": "position codes",
    "batch_invariant": "bit-identical in any batch",
    "preferred_batch": "preferred batch, sentences",
}


@dataclass(frozen=True)
class EngineStatus:
    """An engine on this machine; `unavailable` is the reason why it cannot be used, if any."""

    name: str
    capabilities: Capabilities
    unavailable: str | None

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {
            "engine": self.name,
            "available": self.unavailable is None,
            "reason": self.unavailable,
            "capabilities": asdict(self.capabilities),
        }


def engine_statuses(recipe: ModelRecipe | None, device: str) -> list[EngineStatus]:
    """Every engine, and whether it can run a model (any model, without a recipe) on a device of this machine."""
    return [EngineStatus(spec.name, spec.capabilities, spec.unavailable(recipe, device)) for spec in SPECS]


def capability_rows() -> list[list[str]]:
    """A header and one row per capability, with one column per engine."""
    columns = [asdict(spec.capabilities) for spec in SPECS]
    header = ["", *(f"`{spec.name}`" for spec in SPECS)]
    return [header, *([label, *(_format(column[name]) for column in columns)] for name, label in LABELS.items())]


def format_text(rows: Sequence[Sequence[str]], width: int = 22) -> str:
    """Rows as aligned columns for a terminal; cells longer than `width` are wrapped."""
    cells = [[wrap(cell.replace("`", ""), width) or [""] for cell in row] for row in rows]
    lines = [line for row in cells for line in zip_longest(*row, fillvalue="")]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)


def format_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else f"{value:,}"
