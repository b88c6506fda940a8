"""`dragoman trees`: trees to lines, lines to trees and scores; and longer outputs."""

from __future__ import annotations

import gzip
import io
import json
import re
import textwrap
from pathlib import Path

import pytest

from command_line import leave
from dragoman import Translator
from dragoman.cli import main
from dragoman.cli.commands.data.trees import command
from dragoman.config import Recipe
from dragoman.search.types import Search
from dragoman.text.trees.constituency import read_brackets
from tiny_model import write_tiny_model

TREES = """( (S (NP-SBJ (NNP John) )
     (VP (VBZ has) (NP (DT a) (NN dog) ))
     (. .) ))
( (S (-NONE- *) ))
(TOP (NP (-LRB- -LRB-) (NN half) (-RRB- -RRB-)))
"""
SOURCE = "John has a dog .\n( half )\n"
LINES = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S\n(NP XX XX XX )NP\n"
WRITTEN = "(S (NP XX )NP (VP XX )VP (NP XX XX )NP XX\n(NP XX XX )NP )NP\n"


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gold.mrg").write_text(TREES, encoding="utf-8")
    Path("source").write_text(SOURCE, encoding="utf-8")
    Path("lines").write_text(LINES, encoding="utf-8")
    Path("written").write_text(WRITTEN, encoding="utf-8")


def test_trees_to_files_to_train_on(capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.mrg.gz").write_bytes(gzip.compress(b"(S (VB go))"))
    code, out, err = leave(capsys, "trees", "lines", "gold.mrg", "more.mrg.gz", "--source", "s", "--target", "t")
    assert (code, out, err) == (0, "", "dragoman: wrote 3 trees to s and t\n")
    assert Path("s").read_text(encoding="utf-8") == SOURCE + "go\n"
    assert Path("t").read_text(encoding="utf-8") == LINES + "(S XX )S\n"
    assert leave(capsys, "trees", "lines", "gold.mrg", "--tags", "--source", "s", "--target", "t")[0] == 0
    assert Path("s").read_text(encoding="utf-8") == SOURCE
    tagged = "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S\n(NP -LRB- NN -RRB- )NP\n"
    assert Path("t").read_text(encoding="utf-8") == tagged
    assert "F1         100.00" in leave(capsys, "trees", "score", "t", "gold.mrg")[1]
    assert "(NNP John)" in leave(capsys, "trees", "brackets", "t", "s")[1]


def test_a_dash_is_standard_output_and_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.mrg").write_text("(S (VB go))", encoding="utf-8")
    code, out, err = leave(capsys, "trees", "lines", "one.mrg", "--source", "s", "--target", "-")
    assert (code, out, err) == (0, "(S XX )S\n", "dragoman: wrote 1 tree to s and standard output\n")
    code, out, err = leave(capsys, "trees", "lines", "one.mrg", "--source", "-", "--target", "-")
    assert (code, out) == (2, "")
    assert "--source and --target are both -; give two different files" in err
    assert not Path("-").exists()


def test_an_empty_file_of_trees_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.mrg").touch()
    code, _, err = leave(capsys, "trees", "lines", "none.mrg", "--source", "s", "--target", "t")
    assert (code, err) == (2, "dragoman: none.mrg is empty; expected trees in brackets\n")


def test_what_was_written_right_scores_all(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "trees", "score", "lines", "gold.mrg")
    assert (code, err) == (0, "")
    assert out == (
        "2 sentences, 5 phrases, 5 predicted, 5 correct\n"
        "  precision  100.00\n  recall     100.00\n  F1         100.00\n  exact      100.00\n"
    )


def test_a_score_and_what_was_mended(capsys: pytest.CaptureFixture[str]) -> None:
    # Of S, NP, VP 1-4, NP and NP there are right: S, NP, NP, NP; written is VP 1-2 besides.
    code, out, err = leave(capsys, "trees", "score", "written", "gold.mrg")
    assert code == 0
    assert "2 sentences, 5 phrases, 5 predicted, 4 correct\n" in out
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["80.00", "80.00", "80.00", "50.00"]
    assert err.splitlines() == [
        "dragoman: 2 of 2 lines did not fit their sentence and were repaired:",
        "  1 closing brackets without an open phrase, left out",
        "  1 brackets closed where an outer one closes, or at the end",
        "  1 words beyond the last XX or tag, put at the end of the outermost phrase",
    ]


def test_written_lines_to_trees(capsys: pytest.CaptureFixture[str]) -> None:
    Path("source").write_text(SOURCE.replace("\n", "\n\n", 1), encoding="utf-8")
    Path("written").write_text(WRITTEN.replace("\n", "\n\n", 1), encoding="utf-8")
    code, out, err = leave(capsys, "trees", "brackets", "written", "source", "-o", "out.mrg")
    assert (code, out) == (0, "")
    assert "2 of 2 lines did not fit" in err
    first, empty, second = Path("out.mrg").read_text(encoding="utf-8").splitlines()
    assert first == "(S (NP (XX John)) (VP (XX has)) (NP (XX a) (XX dog)) (XX .))"
    assert (empty, second) == ("", "(NP (XX -LRB-) (XX half) (XX -RRB-))")
    assert [tree.words for tree in read_brackets([first, second], "x")] == [
        tuple(line.split()) for line in SOURCE.splitlines()
    ]


def test_lines_come_from_standard_input_too(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for words in (["score", "-", "gold.mrg"], ["brackets", "-", "source"]):
        with (tmp_path / "lines").open("rb") as lines:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines, encoding="utf-8"))
            main(["trees", *words])
    out, err = capfdbinary.readouterr()
    assert b"F1         100.00" in out
    assert b"(NP (XX -LRB-) (XX half) (XX -RRB-))\n" in out
    assert err == b""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["score", "lines", "no.mrg"], "there is no file no.mrg"),
        (["score", "none", "gold.mrg"], "there is no file none"),
        (["score", "lines", "gold.mrg", "gold.mrg"],
         "lines has 2 lines, but gold.mrg and the files after it have 4 sentences; give one line for each"),
        (["brackets", "lines", "short"], "lines has 2 lines, but short has 1 sentence;"),
        (["score", "short", "gold.mrg"], "short has 1 line, but gold.mrg has 2 sentences"),
        (["score", "gold.mrg", "lines"], "lines, line 1: 'NP' is not alone in S"),
        (["score", "lines", "source"], "source, line 1: 'John' is outside of any tree"),
        (["score", "lines", "empty.mrg"], "empty.mrg has no trees with words; expected brackets such as (S"),
        (["lines", "open.mrg", "--source", "s", "--target", "t"],
         "open.mrg, line 2: the tree that begins here is not closed; 1 closing brackets are missing"),
        (["lines", "gold.mrg", "--source", "s", "--target", "s"], "--source and --target are both s;"),
        (["lines", "gold.mrg", "--source", "s", "--target", "gold.mrg"], "gold.mrg is also an input"),
        (["lines", "--source", "s", "--target", "t"], "missing argument 'FILES...'"),
        (["lnes"], "no such command 'lnes'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("short").write_text("(S XX )S\n", encoding="utf-8")
    Path("empty.mrg").write_text("( (S (-NONE- *)) )\n", encoding="utf-8")
    Path("open.mrg").write_text("(S (VB go))\n(S (VB go)\n", encoding="utf-8")
    code, out, err = leave(capsys, "trees", *words)
    assert code == 2
    assert out.count("\n") == (words == ["brackets", "lines", "short"])  # lines before the missing one are answered
    assert said in err
    assert not {"s", "t"} & {path.name for path in Path().iterdir()}


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "trees", "--help")
    assert code == 0
    assert set(command.commands) == {"lines", "brackets", "score"}
    assert all(f"  {name}" in out for name in command.commands)


def test_a_translation_may_be_longer_by_extra_length(capsys: pytest.CaptureFixture[str]) -> None:
    write_tiny_model(Path("tiny"))
    text = "the old box"
    Path("one.en").write_text(f"{text}\n", encoding="utf-8")
    translator = Translator.load("tiny", device="cpu")
    source = len(translator.source.encode(text))
    lengths = []
    for extra in (0, 1, Search.extra_length + 40):  # a model by chance goes on until it is stopped
        code, out, err = leave(capsys, "translate", "tiny", "one.en", "--json", "--extra-length", str(extra))
        assert code == 0, err
        told = json.loads(out)
        assert told["text"] == translator.translate(text, extra_length=extra).text
        lengths.append(len(told["tokens"]))
    assert lengths[:2] == [source, source + 1]
    assert source + 1 < lengths[2] <= source + Search.extra_length + 40
    code, _, err = leave(capsys, "translate", "tiny", "one.en", "--extra-length", "-1")
    assert (code, "extra_length must be at least 0; got -1" in err) == (2, True)


def test_the_recipe_is_the_papers() -> None:
    recipe = Recipe.load(Path(__file__).parents[3] / "recipes" / "parsing.toml")
    assert (recipe.model.d_model, recipe.model.encoder_layers, recipe.model.decoder_layers) == (1024, 4, 4)
    base = Recipe.load("base").model
    assert (recipe.model.n_heads, recipe.model.d_ff, recipe.model.norm_order) == (base.n_heads, base.d_ff, "post")
    assert recipe.text.vocabulary_size == 2**14
    assert recipe.data.batch_tokens == Recipe.load("base").data.batch_tokens


def test_the_page_shows_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    """Each `$` line of docs/explanation/parsing.md prints what stands below it; files shown alone exist afterwards."""
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "parsing.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    \$ (.+)\n((?:    (?!\$).+\n)*)", page, re.MULTILINE)
    ran = 0
    for words, shown in commands:
        expected = textwrap.dedent(shown)
        program, *rest = words.removesuffix(" 2> mended").split()
        if program == "cat" and len(rest) == 1:
            Path(rest[0]).write_text(expected, encoding="utf-8")
        elif program == "cat":
            assert "".join(Path(name).read_text(encoding="utf-8") for name in rest) == expected
        else:
            code, out, err = leave(capsys, *rest)
            ran += 1
            assert (code, out if words.endswith("mended") else out + err) == (0, expected)
    assert ran == 3


def test_the_pages_python_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "parsing.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    Path("two.mrg").write_text(TREES, encoding="utf-8")
    told: dict[str, object] = {}
    exec(block, told)  # our own page
    assert told["laid"].repairs == {"unclosed": 2}  # type: ignore[attr-defined]
