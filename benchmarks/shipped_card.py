"""The card of a model that ships with Dragoman: data, licenses, commands, figures with signatures, weaknesses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES = {"en": "English", "de": "German"}
LICENSE = "CC-BY-4.0"
MODELS = {"teacher": "teacher", "student": "student", "student-int8": "this model"}
BACK_TRANSLATED = {
    "en-de": "German sentences of these corpora, English by a model",
    "de-en": "English sentences of Tatoeba, German by a model",
}


def read_reports(run: Path) -> dict[str, dict[str, Any]]:
    """The evaluation reports of a run, by model."""
    found = {name: run / f"{name}-report" / "report.json" for name in MODELS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items() if path.exists()}


def score_lines(reports: Mapping[str, dict[str, Any]]) -> list[str]:
    """A table of BLEU and chrF on all test sets, with signatures."""
    sets = [each["name"] for each in next(iter(reports.values()))["sets"]]
    lines = [
        f"| BLEU / chrF | {' | '.join(sets)} |",
        f"|---|{'---|' * len(sets)}",
    ]
    for name, report in reports.items():
        scores = [each["scores"] for each in report["sets"]]
        cells = [f"{each['BLEU']['value']:.2f} / {each['chrF']['value']:.2f}" for each in scores]
        lines.append(f"| {MODELS[name]}, {report['system']['precision']} | {' | '.join(cells)} |")
    first = next(iter(reports.values()))["sets"][0]["scores"]
    return [*lines, "", f"`{first['BLEU']['signature']}`, `{first['chrF']['signature']}`; beam 4."]


def derived_lines(run: Path) -> list[str]:
    """Rows of what was derived from the corpora, if the run has it."""
    found = {
        "phrases": ("words and short phrases of these pairs, by statistical alignment", "teacher, student"),
        "names": ("pairs of these corpora with other names and numbers", "teacher, student"),
        "back-translated": (BACK_TRANSLATED[run.name], "teacher" if run.name == "en-de" else "teacher, student"),
    }
    counts = {name: count_lines(path) for name in found if (path := run / f"{name}.en").exists()}
    return [f"| {found[name][0]}, {n:,} pairs | {found[name][1]} | as above |" for name, n in counts.items()]


def count_lines(path: Path) -> int:
    """The number of lines of a file."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def card(run: Path, weaknesses: str) -> str:
    """The card of the student in int8 of a run."""
    pair, recipes = run.name, json.loads((run / "steps.json").read_text(encoding="utf-8"))
    source, target = (NAMES[code] for code in pair.split("-"))
    reports, times = read_reports(run), json.loads((run / "times.json").read_text(encoding="utf-8"))
    selection = json.loads((run / "student/training/distillation/report.json").read_text(encoding="utf-8"))
    news = reports["student-int8"]["sets"][0]["scores"]["BLEU"]["value"]
    spent = ", ".join(f"{stage} {seconds:,.0f} s" for stage, seconds in times.items())
    stages = [*(name for name in ("phrases", "names") if (run / f"{name}.en").exists()), *times]
    if "aligner" not in times:
        del recipes["aligner"]
    lines = [
        *(f"# {source} to {target}", ""),
        f"A small model that translates from {source} to {target} on any CPU: 6 encoder layers and 2 decoder layers,",
        "d_model 256, 10,000 tokens, int8. It is a student of a larger model, trained on its translations.",
        *("", f'    echo "..." | dragoman translate {pair}', "", "## Scores", "", *score_lines(reports), ""),
        "The test sets: news (newstest2013, on which everything was chosen, and newstest2014), everyday sentences",
        "(Tatoeba) and speeches of the European Parliament (Europarl).",
        *("", "| figure | value |", "|---|---|", f"| bleu | {news:.2f} |", "", "bleu: newstest2013."),
        *("", "## Known weaknesses", "", weaknesses.strip(), "", "## Data", ""),
        "| corpus | used for | license |",
        "|---|---|---|",
        "| Europarl, 1,655,544 pairs | teacher; three quarters of its sources, student | no known restrictions |",
        "| Tatoeba, 165,812 pairs (and English of its other pairs) | teacher, student | CC BY 2.0 FR |",
        "| newstest2008 to 2012, three times | teacher, student | none stated |",
        *derived_lines(run),
        *(
            "",
            f"The student learned from {selection['kept']:,} translations of {selection['read']:,}. No sentence of a",
        ),
        "test set is among its sources.",
        *("", "## License", ""),
        f"{LICENSE}. Everyday sentences are from [Tatoeba](https://tatoeba.org), CC BY 2.0 FR, by way of",
        "[manythings.org/anki](https://www.manythings.org/anki/). Speeches are from the European Parliament's",
        "proceedings (Europarl; Koehn, 2005; Amponsah-Kaakyire et al., 2021).",
        *("", "## How it was made", ""),
        f"    python benchmarks/shipped_models.py DATA --out RUNS {' '.join(stages)} publish --pair {pair}",
        "",
        f"Seed 1. Steps: {', '.join(f'{name} {steps:,}' for name, steps in recipes.items())}. Time: {spent}.",
    ]
    return "\n".join(lines) + "\n"
