"""What works without PyTorch and the other packages of extras, and what a user reads where one is needed.

Two child processes, because imports cannot be undone: one forbids the packages, the other has them all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.errors import PACKAGE_EXTRAS, MissingExtraError, missing_extra
from dragoman.native import library, why_not

BEFORE = Path(__file__).parents[1] / "fixtures/before"
MODEL = BEFORE / "trained"
RUN = """
import contextlib, io, json, sys
packages, commands = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(packages))
from dragoman.cli import main
results = {}
for command in commands:
    out, err, code = io.TextIOWrapper(io.BytesIO()), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(command.split())
        except SystemExit as end:
            code = end.code or 0
    out.flush()
    results[command] = (code, out.buffer.getvalue().decode(), err.getvalue())
print(json.dumps([results, sorted(set(packages) & {name for name, module in sys.modules.items() if module})]))
"""
EXTRAS = [*PACKAGE_EXTRAS, "zstandard", "pydantic", "fastapi", "uvicorn", "matplotlib", "ctranslate2"]
SIDES = "--source t.en --target t.de"
CORE = {
    "translate": f"translate {MODEL} t.en",
    "align while translating": f"translate {MODEL} t.en --alignments",
    "sample": f"translate {MODEL} t.en --sample --seed 3",
    "score": f"score {MODEL} {SIDES}",
    "score with an ensemble": f"score {MODEL} {SIDES} --ensemble {MODEL}",
    "attention": f"inspect attention {MODEL} --text one --out attention.html",
    "align": f"inspect alignment {MODEL} {SIDES}",
    "terms": f"translate {MODEL} t.en --terms terms.tsv",
    "evaluate a model": f"evaluate {MODEL} --source t.en --reference t.de",
    "evaluate files": "evaluate --hypothesis t.de --reference t.de",
    "tokenize": f"tokenize {MODEL} --ids",
}
NEEDS_TRAIN = (
    f"train {SIDES} --out OUT",
    f"prepare {SIDES} --out OUT",
    f"average {MODEL} {MODEL} --out OUT",
    "import . --out OUT",
    f"finish {MODEL}",
    f"inspect heads {MODEL} {SIDES}",
    "inspect costs",
    f"translate {MODEL} t.en --engine torch",
    f"translate {MODEL} t.en --device cuda",
    "forecast train data.csv --target x --horizon 3 --out OUT",
)

Results = dict[str, tuple[int, str, str]]


def run(packages: list[str], commands: list[str], directory: Path) -> tuple[Results, list[str]]:
    """The exit code, stdout and stderr of each command without these packages, and the packages that were imported."""
    words = [sys.executable, "-c", RUN, json.dumps([packages, commands])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=directory)
    assert done.returncode == 0, done.stderr
    results, imported = json.loads(done.stdout)
    return results, imported


def without_rates(text: str) -> str:
    return re.sub(r", [\d.,]+ sentences/s", "", text)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A directory with a few sentences in both languages, and terms."""
    for name in ("t.en", "t.de"):
        lines = (BEFORE / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:12]), encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("three\tdrei\n", encoding="utf-8")
    return tmp_path


def test_what_translates_needs_no_extra(texts: Path) -> None:
    if library("translate") is None:
        pytest.skip(str(why_not("translate")))
    (bare, imported), (full, _) = (run(packages, [*CORE.values()], texts) for packages in (EXTRAS, []))
    for name, command in CORE.items():
        code, out, err = bare[command]
        assert code == 0 and (out or name == "tokenize"), (name, err)
        assert [code, without_rates(out), err] == [0, without_rates(full[command][1]), full[command][2]], name
    assert imported == []


def test_a_command_that_needs_an_extra_prints_the_pip_line(texts: Path) -> None:
    before = sorted(texts.iterdir())
    for command, (code, out, err) in run(EXTRAS, [*NEEDS_TRAIN], texts)[0].items():
        assert (code, out) == (2, ""), (command, err)
        assert "pip install 'dragoman[train]'" in err and err.startswith("dragoman: ") and err.count("\n") == 1, err
    assert sorted(texts.iterdir()) == before


def test_a_recipe_is_shown_without_the_number_of_parameters(tmp_path: Path) -> None:
    code, out, err = run(EXTRAS, ["recipe tiny"], tmp_path)[0]["recipe tiny"]
    assert code == 0 and "d_model" in out and "parameters" not in out
    assert "pip install 'dragoman[train]'" in err


def test_the_python_api_names_the_extra(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
        "import dragoman\n"
        "from dragoman.errors import MissingExtraError\n"
        "calls = (lambda: dragoman.Transformer, lambda: dragoman.train(source='a', target='b', out=sys.argv[1]),\n"
        "         lambda: dragoman.forecast)\n"
        "for call in calls:\n"
        "    try: call()\n"
        "    except MissingExtraError as error: print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["missing_extra"] * 3, "")


def test_only_packages_of_extras_are_explained() -> None:
    known = missing_extra(ModuleNotFoundError("no", name="torch.nn"), "training")
    assert isinstance(known, MissingExtraError) and "dragoman[train]" in str(known)
    assert missing_extra(ModuleNotFoundError("no", name="torchvision"), "training") is None
    assert missing_extra(ModuleNotFoundError("no"), "training") is None


def test_public_functions_keep_their_signatures() -> None:
    import inspect

    assert "recipe" in inspect.signature(dragoman.train).parameters
