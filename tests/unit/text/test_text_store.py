"""Saving and loading tokenizers: round trip, files, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import TextError
from dragoman.text import Tokenizer, load_tokenizer
from raising import raises


def test_what_was_saved_comes_back(tokenizer: Tokenizer, corpus: list[str], tmp_path: Path) -> None:
    paths = tokenizer.save(tmp_path / "new" / "place", "shared")
    assert sorted((tmp_path / "new" / "place").iterdir()) == sorted(paths)
    again = load_tokenizer(tmp_path / "new" / "place", "shared")
    assert (again.kind, again.vocabulary_size) == (tokenizer.kind, tokenizer.vocabulary_size)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode_many(corpus) == tokenizer.encode_many(corpus)
    assert again.sample(corpus[0], 0.2, 9) == tokenizer.sample(corpus[0], 0.2, 9)
    model = paths[0].read_bytes()
    assert again.save(tmp_path, "target")[0].read_bytes() == model


def test_fingerprints_tell_tokenizers_apart(tokenizers: dict[str, Tokenizer]) -> None:
    prints = {tokenizer.fingerprint for tokenizer in tokenizers.values()}
    assert len(prints) == 3
    assert all(len(bytes.fromhex(one)) == 32 for one in prints)


def test_loading_needs_no_learning_code(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers["wordpiece"].save(tmp_path, "shared")
    code = (
        "import sys; from pathlib import Path; from dragoman.text.store import load_tokenizer\n"
        f"ids = load_tokenizer(Path({str(tmp_path)!r}), 'shared').encode('the box')\n"
        "print([m for m in ('tokenizers', 'sentencepiece') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change(**values: object) -> object:
    def apply(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return apply


@pytest.mark.parametrize(
    ("which", "damage", "code", "mention"),
    [
        (0, flip, "file_damaged", "shared.json"),
        (0, lambda path: path.write_bytes(path.read_bytes()[:-9]), "file_damaged", ""),
        (0, lambda path: path.write_bytes(b""), "file_damaged", ""),
        (0, Path.unlink, "file_missing", ""),
        (0, lambda path: (path.unlink(), path.mkdir()), "file_unreadable", ""),
        (1, Path.unlink, "tokenizer_not_found", "shared.spm"),
        (1, lambda path: path.write_text("{"), "not_a_tokenizer", ""),
        (1, lambda path: path.write_text("[1]"), "not_a_tokenizer", ""),
        (1, lambda path: path.write_text("{}"), "not_a_tokenizer", "'format'"),
        (1, lambda path: path.write_bytes(b"\xff\xfe"), "not_a_tokenizer", ""),
        (1, change(kind=7), "not_a_tokenizer", "kind=7"),
        (1, change(kind="morse"), "unsupported_format", "kind 'morse'"),
        (1, change(format=99), "unsupported_format", "format 99"),
        (1, change(normalizer=99), "unsupported_format", "normalizer 99"),
        (1, change(vocabulary_size=5), "file_damaged", " 5"),
    ],
)
def test_damage_is_noticed_and_named(
    tokenizer: Tokenizer, tmp_path: Path, which: int, damage: object, code: str, mention: str
) -> None:
    path = tokenizer.save(tmp_path, "shared")[which]
    damage(path)  # type: ignore[operator]
    with raises(TextError, code, path.name, mention):
        load_tokenizer(tmp_path, "shared")


@pytest.mark.parametrize("content", [b"", b"not a model", b'{"model": {"vocab": {"a": 5}}}', b'{"model": []}'])
def test_a_file_that_is_confirmed_but_no_model_is_still_refused(
    tokenizer: Tokenizer, tmp_path: Path, content: bytes
) -> None:
    import hashlib

    model, description = tokenizer.save(tmp_path, "source")
    model.write_bytes(content)
    change(sha256=hashlib.sha256(content).hexdigest())(description)  # type: ignore[operator]
    with raises(TextError, "not_a_tokenizer", model.name):
        load_tokenizer(tmp_path, "source")


def test_a_failed_save_leaves_the_old_file(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save(tmp_path, "shared")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        tokenizer.save(tmp_path, "shared")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_names_that_are_no_file_names_are_refused(tokenizer: Tokenizer, tmp_path: Path, name: str) -> None:
    with raises(TextError, "invalid_name", "'shared'"):
        tokenizer.save(tmp_path, name)


def test_what_is_no_tokenizer_gets_the_one_that_was_meant(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, _ = tokenizer.save(tmp_path / "runs" / "model", "target")
    runs = tmp_path / "runs"
    (runs / "empty").mkdir()
    (runs / "empty" / "target.json").write_text("{}")  # describes nothing that is there
    for place, *mentions in (
        ("model", "'shared'", "available: target"),
        ("modle", f"{runs}/modle", f"did you mean {runs}/model?"),
        ("other", f"{runs}/other", f"available in {runs}: model"),
        ("empty", f"{runs}/empty", f"available in {runs}: model"),
        (".", f"{runs} ", f"did you mean {runs}/model?"),
        (f"model/{path.name}", f"{path} is a file"),
    ):
        with raises(TextError, "tokenizer_not_found", *mentions):
            load_tokenizer(runs / place, "shared")
    with raises(TextError, "tokenizer_not_found", "'traget'", "'target'"):
        load_tokenizer(runs / "model", "traget")
