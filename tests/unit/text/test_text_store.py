"""Saved tokenizers: what comes back, what is left on disk, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import TextError
from dragoman.text import Tokenizer, load_tokenizer


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
    ("which", "damage", "message"),
    [
        (0, flip, r"{path} is not the file that shared\.json describes"),
        (0, lambda path: path.write_bytes(path.read_bytes()[:-9]), "{path} is not the file"),
        (0, lambda path: path.write_bytes(b""), "{path} is not the file"),
        (0, Path.unlink, "{path} does not exist; copy the tokenizer again"),
        (0, lambda path: (path.unlink(), path.mkdir()), "{path} cannot be read"),
        (1, Path.unlink, r"has no tokenizer; a tokenizer is {path} and shared\.spm or "),
        (1, lambda path: path.write_text("{"), "{path} does not describe a tokenizer"),
        (1, lambda path: path.write_text("[1]"), "{path} does not describe a tokenizer"),
        (1, lambda path: path.write_text("{}"), "{path} does not describe a tokenizer.*'format'"),
        (1, lambda path: path.write_bytes(b"\xff\xfe"), "{path} does not describe a tokenizer"),
        (1, change(kind=7), "{path} does not describe a tokenizer: kind=7"),
        (1, change(kind="morse"), "{path} has .* kind 'morse'; this Dragoman reads .* bpe, unigram, wordpiece"),
        (1, change(format=99), "{path} has format 99"),
        (1, change(normalizer=99), "{path} has .* normalizer 99"),
        (1, change(vocabulary_size=5), r"{path} says 5"),
    ],
)
def test_damage_is_noticed_and_named(
    tokenizer: Tokenizer, tmp_path: Path, which: int, damage: object, message: str
) -> None:
    path = tokenizer.save(tmp_path, "shared")[which]
    damage(path)  # type: ignore[operator]
    with pytest.raises(TextError, match=message.format(path=path.name.replace(".", r"\."))):
        load_tokenizer(tmp_path, "shared")


@pytest.mark.parametrize("content", [b"", b"not a model", b'{"model": {"vocab": {"a": 5}}}', b'{"model": []}'])
def test_a_file_that_is_confirmed_but_no_model_is_still_refused(
    tokenizer: Tokenizer, tmp_path: Path, content: bytes
) -> None:
    import hashlib

    model, description = tokenizer.save(tmp_path, "source")
    model.write_bytes(content)
    change(sha256=hashlib.sha256(content).hexdigest())(description)  # type: ignore[operator]
    with pytest.raises(TextError, match=f"{model.name} cannot be loaded: "):
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
    with pytest.raises(TextError, match="cannot be saved as"):
        tokenizer.save(tmp_path, name)


def test_what_is_no_tokenizer_gets_the_one_that_was_meant(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, _ = tokenizer.save(tmp_path / "runs" / "model", "target")
    runs = tmp_path / "runs"
    (runs / "empty").mkdir()
    (runs / "empty" / "target.json").write_text("{}")  # describes nothing that is there
    for place, message in (
        ("model", "model has no tokenizer of the name .* 'shared'; there are: target$"),
        (
            "modle",
            f"there is no directory {runs}/modle; a tokenizer is shared.json and .*; did you mean {runs}/model\\?",
        ),
        ("other", f"there is no directory {runs}/other; .*; in {runs} there are: model$"),
        ("empty", f"{runs}/empty has no tokenizer; .*; in {runs} there are: model$"),
        (".", f"{runs} has no tokenizer; .*; did you mean {runs}/model\\?"),
        (f"model/{path.name}", f"{path} is a file, and no directory with a tokenizer; .*; give such a directory$"),
    ):
        with pytest.raises(TextError, match=message):
            load_tokenizer(runs / place, "shared")
    with pytest.raises(TextError, match="'traget'; did you mean 'target'"):
        load_tokenizer(runs / "model", "traget")
