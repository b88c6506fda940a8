"""Give Dragoman damaged and hostile files of every kind that it reads: it accepts them, or exits with a clear error.

python tests/torture/foreign_files.py --count 2000

Each case runs in a child process with 2 GiB of memory and 60 s. A crash, a traceback, or running out of memory or time
fails, and the files are kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit/conversion"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fairseq_files import write_fairseq
from test_joeynmt_import import write_joey

import hostile_files as hostile
import mutations as mutate
from dragoman.cli import main as dragoman
from dragoman.errors import DragomanError
from dragoman.files import MANIFEST
from marian_model import SSRU, write_marian
from opus_model import write_opus
from small_model import model_at
from tiny_run import prepare_tiny, tiny_run

MEMORY, SECONDS = 2 << 30, 60
Action = Callable[[], None]
Case = Callable[[Path, Random], Action]
YAML_FRAGMENTS = [
    "[" * 5000, "? " * 500 + "a", "&a [*a]", "*missing", "!!python/object/apply:os.system [ls]", "!!bool maybe",
    "!!timestamp x", "!!float ''", "!!int x", "1:" * 3000 + "1", "9" * 5000, "2001-99-99", "{<<: [1]}", "<<: {a: 1}",
    "!!binary x", "!!set {a, b}", "\t", "---\n---", "%YAML 9.9", "\ud83d", "'" * 99, "|\n" * 50, ".inf", ".nan",
]  # fmt: skip


def command(*words: str | Path) -> Action:
    return lambda: dragoman([str(word) for word in words])


def import_from(place: Path) -> Action:
    return command("import", place, "--out", place.parent / "imported")


def pickle_case(place: Path, draw: Random) -> Action:
    """A checkpoint of any of the three toolkits."""
    kind, name = draw.choice((("fairseq", "checkpoint_best.pt"), ("joey", "300.ckpt"), ("binary", "pytorch_model.bin")))
    path = place / kind / name
    with ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    main = next(entry for entry in entries if entry.endswith("data.pkl"))
    settings = ("arch", "task", "encoder_layers", "source_lang", "dropout", "adaptive_input")
    match draw.randrange(7):
        case 0:
            path.write_bytes(mutate.mutate_bytes(path.read_bytes(), draw, 4096))
        case 1:
            path.write_bytes(draw.choice((mutate.some_pickle(draw), mutate.NESTED.encode(), b"", b"PK\x03\x04")))
        case 2:
            content = draw.choice(
                (hostile.pointer_pickle(), hostile.key_pickle(), hostile.dump(hostile.shared_lists()), b"N" * 2_000_000)
            )
            hostile.write_torch(path, content)
        case 3:
            value: Any = draw.choice((hostile.shared_lists(), hostile.shared_tuples(), *mutate.ODD_VALUES))
            value = value if value != "\ud800" else "x"
            saved = torch.load(path, weights_only=False)
            if kind == "fairseq":
                vars(saved["cfg"]["model"])[draw.choice(settings)] = value
            else:
                saved[draw.choice((*saved, "x"))] = value
            hostile.write_torch(path, hostile.dump(saved))
        case 4:
            saved = torch.load(path, weights_only=False)
            torch.save(saved, path, _use_new_zipfile_serialization=False)
            path.write_bytes(mutate.mutate_bytes(path.read_bytes(), draw, 8192))
        case _:
            entries[main] = mutate.mutate_pickle(entries[main], draw)
            with ZipFile(path, "w") as archive:
                for entry, content in entries.items():
                    archive.writestr(entry, content)
    return import_from(place / kind)


def yaml_case(place: Path, draw: Random) -> Action:
    """The settings of JoeyNMT."""
    path = place / "joey/config.yaml"
    text = path.read_text()
    match draw.randrange(4):
        case 0:
            path.write_bytes(mutate.mutate_bytes(text.encode(), draw))
        case 1:
            bomb = hostile.yaml_laughs(draw.choice((5, 20, 60)), draw.random() < 0.5)
            text = text.replace("level: bpe", f"level: *a{bomb.count('&') - 1}") if draw.random() < 0.5 else text
            path.write_text(bomb + text)
        case _:
            lines = text.splitlines()
            for _ in range(draw.choice((1, 2))):
                place_in = draw.randrange(len(lines))
                key = lines[place_in].partition(":")[0]
                lines[place_in] = f"{key}: {draw.choice((*YAML_FRAGMENTS, *map(str, mutate.ODD_VALUES[2:20])))}"
            path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    return import_from(place / "joey")


def json_case(place: Path, draw: Random) -> Action:
    """Settings and vocabularies of Opus-MT."""
    path = place / "opus" / draw.choice(("config.json", "vocab.json", "tokenizer_config.json"))
    path.write_bytes(mutate.mutate_json(path.read_bytes(), draw))
    return import_from(place / "opus")


def safetensors_case(place: Path, draw: Random) -> Action:
    """Weights of Opus-MT."""
    path = place / "opus/model.safetensors"
    path.write_bytes(mutate.mutate_safetensors(path.read_bytes(), draw))
    return import_from(place / "opus")


def spm_case(place: Path, draw: Random) -> Action:
    """Sentencepiece models, of Opus-MT or of a model of ours."""
    change = draw.choice((mutate.mutate_bytes, mutate.overwrite, mutate.overwrite))
    if draw.random() < 0.5:
        path = place / "opus/source.spm"
        path.write_bytes(change(path.read_bytes(), draw, 3000))
        return import_from(place / "opus")
    model = place / "model"
    content = change((model / "shared.spm").read_bytes(), draw, 9000)
    (model / "shared.spm").write_bytes(content)
    about = json.loads((model / "shared.json").read_text())
    (model / "shared.json").write_text(json.dumps({**about, "sha256": hashlib.sha256(content).hexdigest()}))
    return use(model)


def marian_case(place: Path, draw: Random) -> Action:
    """Marian's own files: weights in both formats, their settings, vocabularies."""
    kind = draw.choice(("marian", "firefox"))
    path = draw.choice(sorted((place / kind).iterdir()))
    content = path.read_bytes()
    match draw.randrange(4):
        case 0:
            content = mutate.mutate_bytes(content, draw, 4096)
        case 1:
            content = mutate.overwrite(content, draw, 4096)
        case 2:  # a size or a count
            at = 8 * draw.randrange(min(len(content), 3000) // 8 + 1)
            content = content[:at] + draw.choice((b"\xff" * 8, bytes(8), b"\0" * 5 + b"\1\0\0")) + content[at + 8 :]
        case _:  # the settings are JSON inside of the weights
            known = (b'"dim-emb"', b'"enc-depth"', b'"dim-vocabs"', b'"transformer-heads"', b'"type"', b'"dec-depth"')
            key = draw.choice(known)
            odd = draw.choice((b"9999999", b"-1", b"[]", b"1e9", b"{}", b"null", b'"x"', b"[[", b"&a"))
            first, found, last = content.partition(key + b": ")
            content = first + found + odd + last[len(odd) :] if found else first
    path.write_bytes(content)
    return import_from(place / kind)


def toml_case(place: Path, draw: Random) -> Action:
    """The recipe of a model, or a recipe by itself."""
    path = place / "model/recipe.toml"
    text = path.read_text()
    match draw.randrange(3):
        case 0:
            path.write_bytes(mutate.mutate_bytes(text.encode(), draw))
        case 1:
            path.write_text("a" + ".a" * 5000 + " = 1\n" + text if draw.random() < 0.5 else f"model = {mutate.NESTED}")
        case _:
            lines = text.splitlines()
            number = draw.choice([i for i, line in enumerate(lines) if " = " in line])
            odd = (
                "inf",
                "nan",
                "-1",
                "0",
                "2147483648",
                "1e300",
                "[]",
                "{}",
                '""',
                "[" * 200 + "]" * 200,
                "1979-05-27",
            )
            lines[number] = f"{lines[number].partition(' = ')[0]} = {draw.choice(odd)}"
            path.write_text("\n".join(lines) + "\n")
    return command("recipe", path) if draw.random() < 0.5 else use(place / "model")


def model_case(place: Path, draw: Random) -> Action:
    """JSON files and weights of a model of ours, with hashes that fit: somebody else's model."""
    model = place / "model"
    path = model / draw.choice(("model.json", "shared.json", MANIFEST, "model.safetensors"))
    change = mutate.mutate_safetensors if path.suffix == ".safetensors" else mutate.mutate_json
    path.write_bytes(change(path.read_bytes(), draw))
    return use(model, rehash=path.name != MANIFEST)


def use(model: Path, rehash: bool = True) -> Action:
    """Translate with a model, whose manifest is made to fit its files."""
    if rehash:
        manifest = json.loads((model / MANIFEST).read_text())
        for name in manifest["files"]:
            content = (model / name).read_bytes()
            manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        (model / MANIFEST).write_text(json.dumps(manifest))
    return command("translate", model, "--text", "one two three", "--max-length", "5", "--threads", "1")


def data_case(place: Path, draw: Random) -> Action:
    """Prepared data; half of the time without hashes, as only very old data are."""
    prepared = place / "prepared"
    if draw.random() < 0.5:
        manifest = json.loads((prepared / MANIFEST).read_text())
        for entry in manifest["files"].values():
            del entry["sha256"]
        (prepared / MANIFEST).write_text(json.dumps(manifest))
    if draw.random() < 0.5:
        (prepared / MANIFEST).write_bytes(mutate.mutate_json((prepared / MANIFEST).read_bytes(), draw))
    else:
        path = draw.choice(sorted((*prepared.glob("*.ids"), *prepared.glob("*.offsets"))))
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice((1, 5, 300))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
    return lambda: tiny_run(place, place / "out", "train.steps=1", "train.evaluate_every=1")


CASES: dict[str, tuple[str, Case]] = {
    "pickle": ("fairseq joey binary", pickle_case), "yaml": ("joey", yaml_case), "json": ("opus", json_case),
    "safetensors": ("opus", safetensors_case), "spm": ("opus model", spm_case), "toml": ("model", toml_case),
    "model": ("model", model_case), "prepared data": ("prepared", data_case),
    "marian": ("marian firefox", marian_case),
}  # fmt: skip
SHARES = (
    "pickle",
    "pickle",
    "pickle",
    "yaml",
    "json",
    "safetensors",
    "spm",
    "toml",
    "model",
    "prepared data",
    "marian",
)


PRELOADED = ("dragoman.cli.commands.models.import_model", "dragoman.conversion.hub", "dragoman.engines.torch")


def write_originals(root: Path) -> None:
    """The files that are damaged."""
    write_opus(root / "opus")
    write_opus(root / "binary", binary=True)
    write_fairseq(root / "fairseq")
    write_joey(root / "joey")
    write_marian(root / "marian", opus=True)
    write_marian(root / "firefox", kind="int8", **SSRU)
    model_at(root / "model")
    prepare_tiny(root)
    dragoman(["translate", str(root / "model"), "--text", "one", "--max-length", "2"])  # compiles what it needs
    for name in PRELOADED:  # once, instead of in each child
        import_module(name)


def run_limited(action: Action, log: Path) -> str:
    """Run in a child with limits; how it ended."""
    child = os.fork()
    if not child:
        os._exit(run_in_child(action, log))
    _, status = os.waitpid(child, 0)
    said = log.read_text(errors="replace")
    if os.WIFSIGNALED(status):
        return f"FAILED: signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    if "Traceback" in said or "not enough memory" in said or code not in (0, 2):
        return f"FAILED: exit code {code}: {(said.strip().splitlines() or [''])[-1]:.200}"
    if len(said) > 4000 and code == 2:
        return f"FAILED: a message of {len(said):,} characters"
    return "accepted" if code == 0 else "rejected"


def run_in_child(action: Action, log: Path) -> int:
    """The exit code of an action."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(10 * SECONDS)  # of a busy machine
    try:
        action()
    except SystemExit as end:
        return int(end.code or 0)
    except DragomanError as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
        return 2
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode(errors="replace"))
        return 1
    return 0


def torture(count: int, seed: int, root: Path, kept: Path | None = None, only: str = "") -> Counter[tuple[str, str]]:
    """Run so many cases; how many of each kind ended in which way."""
    originals, tally = root / "originals", Counter[tuple[str, str]]()
    originals.mkdir()
    write_originals(originals)
    for number in range(count):
        kind = only or SHARES[number % len(SHARES)]
        needed, case = CASES[kind]
        place = root / "case"
        shutil.rmtree(place, ignore_errors=True)
        for name in needed.split():
            shutil.copytree(originals / name, place / name, symlinks=True)
        outcome = run_limited(case(place, Random(f"{seed}/{number}")), root / "log")
        tally[kind, outcome.partition(": ")[0]] += 1
        if outcome.startswith("FAILED"):
            print(f"case {number} ({kind}): {outcome}", flush=True)
            if kept is not None:
                with suppress(FileExistsError):
                    shutil.copytree(place, kept / f"case-{number}", symlinks=True)
                    shutil.copy(root / "log", kept / f"case-{number}/log")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="", choices=["", *CASES])
    parser.add_argument("--keep", type=Path, help="directory for the files of failed cases")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tally = torture(chosen.count, chosen.seed, Path(folder), chosen.keep, chosen.kind)
    for (kind, outcome), times in sorted(tally.items()):
        print(f"  {times:5d}  {kind}: {outcome}")
    return 1 if any(outcome == "FAILED" for _, outcome in tally) else 0


if __name__ == "__main__":
    sys.exit(main())
