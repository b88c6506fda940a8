"""Random and mutated command lines for every command: no traceback, exit code 0, 1 or 2, no file lost or half written.

python tests/torture/cli_fuzz.py --count 2000

The first cases are commands that work; each of the others changes the words, options, values and files of one of them.
A case runs in a child process in a folder of its own, with limits of memory and time; what runs too long is stopped by
SIGTERM, and must then end by itself. Case N of seed S is the same each time (`--seed S --first N --count 1`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mutations as mutate
from dragoman.cli import COMMANDS, group
from dragoman.cli import main as dragoman
from opus_model import write_opus
from small_model import model_at
from tiny_run import TINY, prepare_tiny, tiny_run, write_corpus

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/before"
MEMORY, STOP_AFTER, GIVE_UP = 4 << 30, 30.0, 180.0  # bytes beyond what is used already, and seconds
TREES = "( (S (NP (PRP one)) (VP (VB two))) )\n( (S (NP (PRP three)) (VP (VB four))) )\n"
PAIR = "--source en.txt --target de.txt"
TRAIN = f"{PAIR} --recipe tiny {' '.join(f'--set {change}' for change in TINY)} --set train.steps=3"
BASES = (
    "translate model --text one|translate model en.txt -o out.txt|translate model en.txt --nbest 2 --beam 3 --scores "
    "--json|translate model --terms terms.tsv --text one|translate model en.txt --constraints constraints.jsonl|"
    "translate model --ensemble other --text one|score model --text one --translation eins|"
    "score model de.tsv -o out.tsv|"
    f"score model {PAIR} --json|evaluate model --source en.txt --reference de.txt --report report|"
    "evaluate --hypothesis de.txt --reference de.txt --against en.txt|"
    f"train --out new {TRAIN}|train --out run {TRAIN}|train --out new --from model {PAIR} --set train.steps=2|"
    "train --out new --tsv de.tsv --recipe tiny.toml --set train.steps=2 --dry-run|finish stopped|finish run|"
    f"recipe base|recipe tiny.toml --set model.d_ff=8|prepare {PAIR} --out data --recipe tiny --processes 1 --set "
    "text.vocabulary_size=300|prepare --jsonl pairs.jsonl --source-key en --target-key de --out data --recipe tiny "
    "--processes 1|tokenize model|tokenize model --ids --sample 0.1|detokenize model|detokenize model --ids|"
    "trees lines trees.mrg --source s.txt --target t.txt|trees brackets lines.txt words.txt -o back.mrg|"
    "trees score lines.txt trees.mrg|average run --out mean --last 2|average model other --out mean|"
    "import opus --out imported|engines --json|inspect attention model --text one --out page.html|"
    f"inspect alignment model {PAIR}|inspect costs --length 4 --d-model 8 --n-heads 2|"
    f"inspect heads model {PAIR} --pairs 3 --out heads.json|inspect positions model --out positions.svg|"
    "serve model --port 0|serve a=model --port 0 --host localhost|demo --out demo --pairs 1000 --set train.steps=2"
).split("|")
NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "1e3",
    "99999999999999999999",
    "-2147483649",
    "nan",
    "inf",
    "1e999",
    "0.5",
    "x",
)
TEXTS = (
    "", " ", "x", "en", "de", "one two", "\u00e4" * 300, "\x1b[2J\x07", os.fsdecode(b"\xff\xfe"), "-", "--", "=",
    "a=b=c", "{0}", "%s", "../..", "1-2", "0", "\u202e", "\U0001f600", "model", "one\ntwo", "a\tb", "NAME=" + "y" * 500,
)  # fmt: skip
PATHS = (
    "model", "run", "stopped", "en.txt", "de.txt", "de.tsv", "pairs.jsonl", "terms.tsv", "constraints.jsonl",
    "trees.mrg", "tiny.toml", "empty", "binary", "folder", "missing", "missing/deep/file", "opus", "prepared",
    "/dev/null", "/dev/full", "link", "dangling", "model/model.safetensors", "en.txt/x", "", "run/training", "z" * 300,
    ".", "-",
)  # fmt: skip
SETTINGS = (
    *("model.d_model", "model.n_heads", "model.positions", "model.architecture", "model.dropout", "model.pattern"),
    *(
        "train.steps",
        "train.learning_rate",
        "train.precision",
        "train.keep",
        "train.ema",
        "train.average",
        "train.parallel",
    ),
    *(
        "data.batch_tokens",
        "data.valid_pairs",
        "text.vocabulary_size",
        "text.kind",
        "train.seed",
        "x.y",
        "train",
        "",
        "=",
    ),
)
OUTPUTS = ("--out", "-o", "--output", "--report")
WRITERS = ("train", "finish", "prepare", "demo")  # what they prepared or trained stays when they end early
TOKENS = {"model": "\u2581 e\n", "--ids": "5 6 7\n"}
STDIN = ("", "one two three\nfour\n", "5 6 7\n\n", "\udcff\n", "x" * 5000)


def write_originals(root: Path) -> None:
    """The files that the cases use."""
    corpus = write_corpus(root, 60)
    corpus.source.rename(root / "en.txt")
    corpus.target.rename(root / "de.txt")
    pairs = list(zip(*((root / name).read_text().splitlines() for name in ("en.txt", "de.txt")), strict=True))
    (root / "de.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (root / "pairs.jsonl").write_text("".join(f'{{"en": "{a}", "de": "{b}"}}\n' for a, b in pairs))
    (root / "terms.tsv").write_text("one\teins\ntwo\tzwei\n")
    (root / "constraints.jsonl").write_text('{"require": ["eins"]}\n{}\n' * 30)
    (root / "trees.mrg").write_text(TREES)
    (root / "tiny.toml").write_text("[model]\nd_model = 16\nn_heads = 2\nd_ff = 24\n[data]\nvalid_pairs = 5\n")
    (root / "empty").touch()
    (root / "binary").write_bytes(Random(1).randbytes(3000))
    (root / "folder").mkdir()
    (root / "link").symlink_to("en.txt")
    (root / "dangling").symlink_to("nowhere")
    model_at(root / "model")
    model_at(root / "other", seed=2)
    write_opus(root / "opus")
    prepare_tiny(root)
    tiny_run(root, root / "run")
    shutil.copytree(FIXTURES / "stopped", root / "stopped")
    sides = ["--source", str(root / "words.txt"), "--target", str(root / "lines.txt")]
    dragoman(["trees", "lines", str(root / "trees.mrg"), *sides])


def leaves(command: click.Command, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands that do something, with their words."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in COMMANDS if command is group else command.list_commands(context):
        found = command.get_command(context, each)
        assert found is not None
        yield from leaves(found, (*name, each))


def draw_value(option: click.Parameter, draw: Random) -> str:
    """A value for an option, of its type half of the time."""
    kind = draw.choice(("type", "type", "number", "text", "path"))
    if "--set" in option.opts:
        return f"{draw.choice(SETTINGS)}={draw.choice((*NUMBERS, *TEXTS[:8], 'true', '[1]'))}"
    if "--processes" in option.opts or "--port" in option.opts:
        return draw.choice(("1", "0", "-1", "x", "1.5", "99999"))
    match option.type if kind == "type" else kind:
        case click.Choice() as chosen:
            return str(draw.choice(list(chosen.choices)))
        case click.types.IntParamType() | click.types.FloatParamType() | "number":
            return draw.choice(NUMBERS)
        case click.Path() | click.File() | "path":
            return draw.choice(PATHS)
    return draw.choice(PATHS if draw.random() < 0.3 else TEXTS)


def draw_command(draw: Random, options: dict[tuple[str, ...], list[click.Option]]) -> list[str]:
    """The words of one case."""
    words = draw.choice(BASES).split(" ")
    known = options.get((words[0],)) or options[words[0], words[1]]
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 5))):
        place = draw.randrange(1, len(words) + 1)
        match draw.randrange(10):
            case 0 if len(words) > 2:
                del words[min(place, len(words) - 1)]
            case 1:
                words.insert(place, draw.choice((*TEXTS, *PATHS)))
            case 2:
                words[place:place] = [draw.choice(words), draw.choice(words)]
            case 3 if place < len(words):
                words[place] = draw.choice((*PATHS, *NUMBERS, *TEXTS))
            case 4 if place < len(words):
                words[place] = (
                    mutate.mutate_bytes(os.fsencode(words[place]), draw).replace(b"\0", b"").decode("latin-1")
                )
            case _:
                option = draw.choice(known)
                name = draw.choice([*option.opts, *option.secondary_opts])
                words += [name] if getattr(option, "is_flag", False) else [name, draw_value(option, draw)]
    if words[0] in ("train", "demo") and draw.random() < 0.9:
        words += ["--set", "train.steps=2"]
    if words[0] == "serve" and "--port" not in words:
        words += ["--port", "0"]
    return [word.replace("\0", "") for word in words]


def damage(place: Path, draw: Random) -> None:
    """Change a file or two, as other programs and people do."""
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        file = draw.choice(sorted(path for path in place.rglob("*") if path.is_file() and not path.is_symlink()))
        match draw.randrange(4):
            case 0:
                file.unlink()
            case 1:
                file.write_bytes(b"")
            case 2:
                file.write_bytes(file.read_bytes()[: -draw.randrange(1, 50)])
            case _:
                file.write_bytes(mutate.mutate_bytes(file.read_bytes(), draw, 3000))


def contents(place: Path) -> dict[str, str]:
    """A digest of every file, by its path."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def run_in_child(words: list[str], place: Path, stdin: str, log: Path) -> int:
    """The exit code of a command line."""
    os.chdir(place)
    (place.parent / "stdin").write_bytes(stdin.encode(errors="surrogateescape"))
    for number, source in enumerate((place.parent / "stdin", place.parent / "stdout", log)):
        os.dup2(os.open(source, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0)), number)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    streams = [
        open(number, mode, encoding="utf-8", errors=errors)  # noqa: SIM115, PTH123
        for number, (mode, errors) in enumerate((("r", "strict"), ("w", "strict"), ("w", "backslashreplace")))
    ]
    sys.stdin, sys.stdout, sys.stderr = streams  # which stay open: `streams` refers to them until the end
    try:
        dragoman(words)
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run_case(words: list[str], place: Path, stdin: str, log: Path) -> tuple[int, bool]:
    """The exit code (negative for a signal), and whether the command had to be stopped."""
    (place.parent / "stdout").write_bytes(b"")
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setsid()
            code = run_in_child(words, place, stdin, log)
        except BaseException:
            os.write(2, traceback.format_exc().encode(errors="replace"))
        finally:
            os._exit(code)
    began, stopped = time.monotonic(), False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), stopped
        seconds = time.monotonic() - began
        serves = words[0] == "serve" and b"http://" in (place.parent / "stdout").read_bytes()
        if not stopped and (seconds > STOP_AFTER or serves):
            os.kill(child, signal.SIGTERM)
            stopped = True
        if seconds > GIVE_UP:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)


def judge(words: list[str], code: int, stopped: bool, said: str, before: dict[str, str], after: dict[str, str]) -> str:
    """What went wrong, or how the command ended."""
    tail = f"{(said.strip().splitlines() or [''])[-1]:.300}"
    if "Traceback (most recent call last)" in said:
        return f"FAILED: traceback: {tail}"
    killed = stopped and code == -signal.SIGTERM  # only training saves; the others just end
    if code not in (0, 1, 2) and not killed and not (stopped and code in (130, 143)):
        return f"FAILED: exit code {code}: {tail}"
    if code and not killed and not said.strip():
        return f"FAILED: exit code {code} without a message"
    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word in OUTPUTS]
    named += [word.partition("=")[2] for word in words if word.startswith(tuple(f"{name}=" for name in OUTPUTS))]
    if words[0] == "finish" or words[:2] == ["trees", "lines"]:
        named += words[1:]

    named += ["en.txt"] if "link" in named else []  # a link is followed

    def may_change(path: str) -> bool:
        return any(path == (place := os.path.normpath(name)) or path.startswith(f"{place}/") for name in named if name)

    for path, digest in before.items():
        changed = after.get(path) != digest
        if changed and not (may_change(path) and (code == 0 or (words[0] in WRITERS and "training/" in path))):
            return f"FAILED: {path} {'changed' if path in after else 'is gone'}, exit code {code}: {tail}"
    for path in after.keys() - before.keys():
        hidden = any(part.startswith(".") and part != "." for part in Path(path).parts)
        if (hidden and not killed) or (code and not hidden and words[0] not in WRITERS):
            return f"FAILED: {path} was left behind, exit code {code}: {tail}"
    return "stopped" if stopped else "succeeded" if code == 0 else f"rejected ({code})"


def torture(first: int, count: int, seed: int, root: Path, verbose: bool = False) -> Counter[tuple[str, str]]:
    """Run so many cases; how many of each command ended in which way."""
    originals, tally, place = root / "originals", Counter[tuple[str, str]](), root / "case"
    originals.mkdir()
    write_originals(originals)
    help_option = click.Option(["-h", "--help"], is_flag=True)
    options = {
        name: [help_option, *(each for each in leaf.params if isinstance(each, click.Option))]
        for name, leaf in leaves(group)
    }
    dragoman(["translate", str(originals / "model"), "--text", "one", "--max-length", "2"])  # compiles what it needs
    for number in range(first, first + count):
        draw = Random(f"{seed}/{number}")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(originals, place, symlinks=True)
        unchanged = number < len(BASES)
        words = BASES[number].split(" ") if unchanged else draw_command(draw, options)
        stdin = TOKENS[words[-1]] if words[0] == "detokenize" and unchanged else draw.choice(STDIN)
        if not unchanged:
            damage(place, draw)
        before = contents(place)
        code, stopped = run_case(words, place, stdin, root / "log")
        said = (root / "log").read_text(errors="replace")
        outcome = judge(words, code, stopped, said, before, contents(place))
        if unchanged and code and not stopped:
            outcome = f"FAILED: exit code {code}: {said.strip()[-300:]}"
        tally[words[0], outcome.partition(":")[0]] += 1
        if outcome.startswith("FAILED") or verbose:
            print(f"case {number}: {words!r:.1500}\n  {outcome}", flush=True)
            if verbose:
                print(said, flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DRAGOMAN_CACHE", str(Path(folder) / "cache"))
        tally = torture(chosen.first, chosen.count, chosen.seed, Path(folder), chosen.verbose)
    for (command, outcome), times in sorted(tally.items()):
        print(f"  {times:5d}  {command}: {outcome}")
    print(f"{tally.total()} command lines, {sum(n for (_, outcome), n in tally.items() if outcome == 'FAILED')} failed")
    return 1 if any(outcome == "FAILED" for _, outcome in tally) else 0


if __name__ == "__main__":
    sys.exit(main())
