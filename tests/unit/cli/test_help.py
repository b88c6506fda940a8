"""The help: commands by purpose on one screen, and examples that work."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from adapters import write_adapter
from command_line import leave
from dragoman.cli import COMMAND_GROUPS, group
from tiny_model import LINES, write_tiny_model

TREE = "(TOP (S (NP (DT The) (NN box)) (VP (VBZ is) (ADJP (JJ old))) (. .)))\n"
SLOW = (
    "demo",
    "train",
    "distill",
    "finish",
    "serve",
    "import",
    "average",
    "verify",
    "export onnx",
    "inspect costs",
    "inspect heads",
    "forecast",
)
# These are tested elsewhere.


def all_commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and group below this one, with its name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found is not None
            path = f"{name} {word}".strip()
            yield path, found
            yield from all_commands(found, path)


def examples_of(command: click.Command) -> list[str]:
    """The command lines at the end of a command's help."""
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if line.startswith("  dragoman ")]


HELPED = dict(all_commands(group))
EXAMPLES = [(name, line) for name, command in HELPED.items() for line in examples_of(command)]


def parts_of(line: str) -> list[tuple[list[str], str | None]]:
    """The commands of a line, each with its words and the file that it reads from."""
    parts = []
    for command in line.split("|"):
        words, _, file = command.partition("<")
        parts.append((shlex.split(words)[1:], file.strip() or None))
    return parts


def test_the_commands_are_on_one_screen_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "--help")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 80
    for purpose, commands in COMMAND_GROUPS.items():
        start = next(i for i, line in enumerate(lines) if line.startswith(purpose))
        for line, (name, words) in zip(lines[start:], commands.items(), strict=False):
            assert line.removeprefix(purpose).split() == [name, *words.split()]
            assert line[12:].startswith(f" {name} ") and line[25:] == words  # in columns


@pytest.mark.parametrize("name", HELPED)
def test_the_help_of_a_command_ends_with_its_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = examples_of(HELPED[name])
    assert examples
    _, out, _ = leave(capsys, *name.split(), "--help")
    shown = out.splitlines()[-len(examples) :]
    assert [line.strip() for line in shown] == examples
    assert max(map(len, shown)) <= 80
    assert all(f"dragoman {name} " in f"{line} " for line in examples)


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[f"{name} {n}" for n, (name, _) in enumerate(EXAMPLES)])
def test_an_example_is_parsed(name: str, line: str) -> None:
    for words, _ in parts_of(line):
        command: click.Command = group
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None
            command, words = found, words[1:]
        command.make_context(name, words)


XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>old</source><target>alt</target></trans-unit></body></file></xliff>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples name."""
    place = tmp_path_factory.mktemp("examples")
    write_adapter(place / "medical", write_tiny_model(place / "my-model"))
    for stem, count in (("train", 400), ("test", 3), ("book", 3)):
        for shift, side in enumerate(("en", "de")):
            text = "".join(f"{LINES[(i + shift) % 6]} {i}\n" for i in range(count))
            (place / f"{stem}.{side}").write_text(text, encoding="utf-8")
    (place / "page.html").write_text("<p>The <b>box</b> is old.</p>\n", encoding="utf-8")
    (place / "corrected.xlf").write_text(XLIFF, encoding="utf-8")
    (place / "de.po").write_text('msgid "box"\nmsgstr "Kiste"\n', encoding="utf-8")
    (place / "wsj_0001.mrg").write_text(TREE, encoding="utf-8")
    (place / "test.txt").write_text("The box is old .\n", encoding="utf-8")
    (place / "test.trees").write_text("(S (NP XX XX )NP (VP XX (ADJP XX )ADJP )VP XX )S\n", encoding="utf-8")
    return place


RUN = [
    line
    for line in dict.fromkeys(line for _, line in EXAMPLES)
    if not line.startswith(tuple(f"dragoman {name}" for name in SLOW))
]


@pytest.mark.parametrize("line", RUN)
def test_an_example_works(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    out = ""
    for words, file in parts_of(line):
        Path("stdin").write_text(out, encoding="utf-8")
        with Path(file or "stdin").open(encoding="utf-8") as given:
            monkeypatch.setattr("sys.stdin", given)
            code, out, err = leave(capsys, *words)
        assert code == 0, err
    assert out or err or "-o" in line


SINGLE = [
    (name, option.opts[0])
    for name, command in HELPED.items()
    for option in command.params
    if isinstance(option, click.Option) and not (option.multiple or option.is_flag)
]


@pytest.mark.parametrize(("name", "option"), SINGLE)
def test_an_option_with_one_value_is_not_given_twice(
    name: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = leave(capsys, *name.split(), option, "a", option, "b")
    assert code == 2 and err == f"dragoman: {option} is given twice; give it once\n"
