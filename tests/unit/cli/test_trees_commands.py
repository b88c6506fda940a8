"""Trees on the command line: `--source-trees` of each command, and its errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import leave
from dragoman import Translator
from dragoman.config import ModelRecipe
from dragoman.data.corpora.reader import read_trees_file
from dragoman.models.loading import min_parameter_count
from tiny_model import write_tiny_model
from tiny_run import TINY, with_trees, write_corpus

LINES = ["the old box", "", "we'll see the box"]
TREES = ["the 3 old 3 box 0", "we 3 'll 3 see 0 the 5 box 3"]
QUICK = ["--max-length", "5"]


def conllu(tree: str) -> str:
    cells = tree.split()
    rows = [
        f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"
        for number, (word, head) in enumerate(zip(cells[::2], cells[1::2], strict=True), 1)
    ]
    return "".join(rows) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    write_tiny_model(folder / "tiny", "model.positions=syntax")
    write_tiny_model(folder / "plain")
    (folder / "test.en").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (folder / "test.de").write_text("der alte Kasten\n\nwir sehen den Kasten\n", encoding="utf-8")
    (folder / "test.conllu").write_text("".join(map(conllu, TREES)), encoding="utf-8")
    (folder / "first.conllu").write_text(conllu(TREES[0]), encoding="utf-8")
    (folder / "second.conllu").write_text(conllu(TREES[1]), encoding="utf-8")
    (folder / "circle.conllu").write_text(conllu("the 2 old 1 box 0"), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_translate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator.load(folder / "tiny", device="cpu")
    expected = [one.text for one in translator.translate(LINES, trees=read_trees_file("test.conllu"), max_length=5)]
    said = "".join(f"{text}\n" for text in expected)
    code, out, err = leave(capsys, "translate", "tiny", "test.en", "--source-trees", "test.conllu", *QUICK)
    assert (code, out) == (0, said), err
    both = ["--source-trees", "first.conllu", "--source-trees", "second.conllu"]
    assert leave(capsys, "translate", "tiny", "test.en", *both, *QUICK)[:2] == (0, said)
    code, out, _ = leave(capsys, "translate", "tiny", "test.en", *both, *QUICK, "--json", "--alignments")
    assert [json.loads(line)["text"] for line in out.splitlines()] == expected
    twice = ["test.en", "test.en", "--source-trees", "test.conllu", "--source-trees", "test.conllu"]
    assert leave(capsys, "translate", "tiny", *twice, *QUICK)[:2] == (0, said * 2)


def test_words_are_demanded_of_sentences_with_trees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wishes = ["--avoid", "the", "--require", "Kasten", "--max-length", "9"]
    code, out, err = leave(capsys, "translate", "tiny", "test.en", "--source-trees", "test.conllu", *wishes)
    translator = Translator.load(folder / "tiny", device="cpu")
    asked = {"require": ["Kasten"], "avoid": ["the"], "max_length": 9}
    found = translator.translate(LINES, trees=read_trees_file("test.conllu"), **asked)
    assert (code, out) == (0, "".join(f"{one.text}\n" for one in found)), err
    assert all("Kasten" in one.text for one in (found[0], found[2]))


@pytest.mark.parametrize(
    ("words", "said", "lines"),
    [
        (["tiny", "test.en"], "reads each sentence with its dependency tree", 0),
        (["plain", "test.en", "--source-trees", "test.conllu"], "does not read trees", 0),
        (["tiny", "test.en", "--source-trees", "no.conllu"], "there is no file no.conllu", 0),
        (
            ["tiny", "test.en", "--source-trees", "circle.conllu"],
            "circle.conllu, line 1: heads form a cycle",
            0,
        ),
        (["tiny", "test.en", "--source-trees", "first.conllu"], "only 1 tree, and none for line 3, \"we'll see", 2),
        (
            ["tiny", "test.en", *["--source-trees", "first.conllu"] * 2],
            "first.conllu, line 1: this tree does not match line 3: it has word 1, 'the', where",
            2,
        ),
        (
            ["tiny", "test.en", "--source-trees", "test.conllu", "--source-trees", "first.conllu"],
            "first.conllu, line 1: ",
            3,
        ),
        (["tiny", "test.en", "--source-trees", "test.de"], "test.de, line 1: 1 column, but CoNLL-U has 10", 0),
        (
            ["tiny", "test.en", "--source-trees", "test.conllu", "--split", "sentences"],
            "cannot be combined with trees",
            0,
        ),
        (["tiny", "test.en", "--source-trees", "test.conllu", "--engine", "native"], "model.positions='syntax'", 0),
        (["tiny", "test.en", "--source-trees", "test.conllu", "-o", "test.conllu"], "test.conllu", 0),
    ],
)
def test_translate_refuses(
    words: list[str], said: str, lines: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "test.conllu").read_bytes()
    code, out, err = leave(capsys, "translate", *words, *QUICK)
    assert (code, out.count("\n")) == (2, lines), err
    assert said in err and "Traceback" not in err
    assert (folder / "test.conllu").read_bytes() == before


def test_trees_from_a_pipe_are_refused_before_the_model_is_loaded(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe.conllu")
    monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("it was loaded"))
    code, _, err = leave(capsys, "translate", "tiny", "test.en", "--source-trees", "pipe.conllu", *QUICK)
    assert (code, "to a file first" in err) == (2, True), err


def test_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "tiny", "--source", "test.en", "--reference", "test.de", "--metric", "chrF"]
    code, out, err = leave(capsys, *command, "--source-trees", "test.conllu", "--against", "plain")
    assert (code, "3 sentences" in out, "against" in out) == (0, True, True), err
    for words, said in (
        (command, "give the trees: --source-trees"),
        ([*command, *["--source-trees", "test.conllu"] * 2], "2 --source-trees but 1 --source files"),
        ([*command, "--source-trees", "first.conllu"], "only 1 tree, and none for line 3"),
        (
            ["evaluate", "plain", *command[2:], "--source-trees", "test.conllu"],
            "source trees have no effect",
        ),
    ):
        code, _, err = leave(capsys, *words)
        assert (code, said in err) == (2, True), err


def test_evaluate_looks_at_all_trees_before_it_translates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the last set and of the model beside too, and those that are too many."""

    def translate(*_: object, **__: object) -> None:
        raise AssertionError("this took an hour")

    monkeypatch.setattr(Translator, "stream", translate)
    one = ["--source", "test.en", "--reference", "test.de"]
    trees = [["--source-trees", f"{name}.conllu"] for name in ("test", "first")]
    Path("one.en").write_text("the old box\n", encoding="utf-8")
    for words, said in (
        (["plain", "--against", "tiny", *one], "give the trees: --source-trees"),
        (["plain", "--against", "tiny", *one, *trees[1]], "only 1 tree, and none for line 3"),
        (["tiny", *one, *one, *trees[0], *trees[1]], "only 1 tree, and none for line 3"),
        (["tiny", "--source", "one.en", "--reference", "one.en", *trees[0]], "test.conllu, line 5: "),
    ):
        code, _, err = leave(capsys, "evaluate", *words)
        assert (code, said in err) == (2, True), err


def test_inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look = ["inspect", "attention", "tiny", "--text", "the old box", "--out", "page.html"]
    code, _, err = leave(capsys, *look, "--source-trees", "first.conllu")
    assert (code, (folder / "page.html").is_file()) == (0, True), err
    code, _, err = leave(
        capsys, *look[:3], "--source", "test.en", "--source-trees", "test.conllu", "--line", "3", *look[-2:]
    )
    assert code == 0, err  # with the tree of this line
    assert leave(capsys, *look)[0] == 2
    code, _, err = leave(capsys, *look, "--source-trees", "test.conllu")
    assert (code, "test.conllu, line 5: " in err) == (2, True), err
    align = ["inspect", "alignment", "tiny", "--source", "test.en", "--target", "test.de"]
    code, out, err = leave(capsys, *align, "--source-trees", "test.conllu")
    assert (code, out.count("\n")) == (0, 3), err
    code, _, err = leave(capsys, *align, "--source-trees", "test.conllu", "--out", "pair.png", "--line", "3")
    assert (code, (folder / "pair.png").is_file()) == (0, True), err
    assert "give the trees: --source-trees" in leave(capsys, *align)[2]
    code, _, err = leave(capsys, "inspect", "positions", "tiny", "--out", "positions.png")
    assert (code, (folder / "positions.png").is_file()) == (0, True), err


def test_serve_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = leave(capsys, "serve", "tiny", "--port", "0")
    assert (code, "reads dependency trees" in err) == (2, True), err


def test_recipe_counts_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "recipe", "base", "--set", "model.positions=syntax")
    assert (code, 'positions = "syntax"' in out, "positions 262,144," in out) == (0, True, True), err  # 512 x 512
    syntax, order = (ModelRecipe(positions=positions) for positions in ("syntax", "sinusoidal"))
    assert min_parameter_count(syntax, 9) - min_parameter_count(order, 9) == 512 * 512


def grown(folder: Path, name: str, pairs: int = 300) -> list[str]:
    """A corpus of numbers with their trees, as options."""
    folder.mkdir()
    files = with_trees(write_corpus(folder, pairs)).files
    options = [f"--{name}{option}" for option in ("source", "target", "source-trees")]
    return [word for pair in zip(options, map(str, files), strict=True) for word in pair]


def test_train_and_prepare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [word for change in (*TINY, "train.steps=2", "train.warmup_steps=1") for word in ("--set", change)]
    corpus, valid = grown(tmp_path / "a", ""), grown(tmp_path / "v", "valid-", 30)
    out = ["--out", str(tmp_path / "model")]
    syntax = ["--set", "model.positions=syntax"]
    code, _, err = leave(capsys, "train", *corpus, *valid, *settings, *syntax, *out)
    assert (code, "is finished" in err) == (0, True), err
    assert "numbers.conllu" in (tmp_path / "model" / "card.md").read_text(encoding="utf-8")
    assert "reads each source sentence with its dependency tree" in (tmp_path / "model" / "card.md").read_text()
    (tmp_path / "one.en").write_text("one two\n")
    (tmp_path / "one.conllu").write_text(conllu("one 0 two 1"))
    trees = ["--source-trees", str(tmp_path / "one.conllu")]
    assert leave(capsys, "translate", str(tmp_path / "model"), str(tmp_path / "one.en"), *trees, *QUICK)[0] == 0

    other = ["--out", str(tmp_path / "other")]
    for words, said in (
        ([*corpus[:4], *settings, *syntax], "model.positions='syntax' needs the dependency tree of each source senten"),
        ([*corpus, *settings], "--source-trees has no effect: model.positions='sinusoidal' reads no trees"),
        ([*corpus, "--set", "model.architecture=recurrent"], "a recurrent model reads no trees; leave them out"),
        (
            [*corpus, *valid[:4], *settings, *syntax],
            "missing for numbers.en + numbers.de; give them for all corpora or for none",
        ),
        ([*corpus, *corpus[4:], *settings, *syntax], "got 2 files of trees for 1 corpus"),
        ([*corpus, *valid[4:], *settings, *syntax], "needs one validation set"),
    ):
        code, _, err = leave(capsys, "train", *words, *other)
        assert (code, said in err) == (2, True), err
    assert not (tmp_path / "other").exists()

    place = tmp_path / "prepared"
    code, _, err = leave(capsys, "prepare", *corpus, *settings, "--out", str(place))
    assert code == 0, err
    assert (place / "train.depths.ids").stat().st_size == sum(len(line.encode()) for line in prepared_texts(place)), (
        "a byte a byte"
    )
    (tmp_path / "a" / "numbers.conllu").write_text(conllu("one 0"))
    code, _, err = leave(capsys, "prepare", *corpus, *settings, "--out", str(tmp_path / "again"))
    assert (code, "numbers.conllu, line 1: this tree does not match line 1" in err) == (2, True), err


def prepared_texts(place: Path) -> list[str]:
    from dragoman.data.prepared import Prepared

    prepared = Prepared.open(place)
    split, tokenizer = prepared.split(), prepared.tokenizers[0]
    return [tokenizer.decode(split.source[i]) for i in range(len(split))]
