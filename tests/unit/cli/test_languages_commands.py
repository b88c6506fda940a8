"""Commands with a multilingual model: `--to`, and errors without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import leave
from dragoman.inspect.alignment import align_pairs, format_pharaoh
from dragoman.translation.translator import Translator
from tiny_model import LINES, write_tiny_model

TO = 'text.targets=["de", "fr"]'
TEXTS = [LINES[0], "", LINES[1]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("several") / "model", TO)


@pytest.fixture(scope="module")
def right(model: Path) -> dict[str, list[str]]:
    """What the model itself writes, by language."""
    translator = Translator.load(model, device="cpu", engine="torch")
    return {to: [one.text for one in translator.translate(TEXTS, to=to)] for to in translator.targets}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "in.en", TEXTS)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


CPU = ("--device", "cpu", "--engine", "torch")


def test_translate(
    model: Path, source: Path, right: dict[str, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for to, texts in right.items():
        code, out, err = leave(capsys, "translate", str(model), str(source), "--to", to, *CPU)
        assert (code, out.split("\n")) == (0, [*texts, ""]), err
    code, out, err = leave(capsys, "translate", str(model), str(source), *CPU)
    assert (code, out) == (2, "") and "translates into de, fr; choose one: --to de" in err
    code, _, err = leave(capsys, "translate", str(model), str(source), "--to", "it", *CPU)
    assert (code, "does not translate into 'it'; available: de, fr" in err) == (2, True), err
    one = write_tiny_model(tmp_path / "one")
    code, _, err = leave(capsys, "translate", str(one), str(source), "--to", "de", *CPU)
    assert (code, "single target language" in err) == (2, True), err


def test_words_are_demanded_in_each_language(model: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator.load(model, device="cpu", engine="torch")
    for to in translator.targets:
        wishes = ("--require", "Flur", "--avoid", "the", "--max-length", "14")
        code, out, err = leave(capsys, "translate", str(model), str(source), "--to", to, *wishes, "--device", "cpu")
        found = translator.translate(TEXTS, to=to, require=["Flur"], avoid=["the"], max_length=14)
        assert (code, out.split("\n")) == (0, [*(one.text for one in found), ""]), err
        assert "Flur" in found[0].text
    code, _, err = leave(capsys, "translate", str(model), str(source), "--require", "Flur", *CPU)
    assert (code, "translates into de, fr; choose one: --to de" in err) == (2, True), err


def test_alignments_do_not_count_the_language(model: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("translate", str(model), str(source), "--to", "fr", "--json", "--alignments", *CPU)
    code, out, err = leave(capsys, *asked)
    assert code == 0, err
    for line, text in zip(out.splitlines(), TEXTS, strict=True):
        links = json.loads(line)["alignment"]
        assert all(0 <= source < len(text.split()) for source, _ in links)


def test_score(model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write(tmp_path / "out.fr", [LINES[4], "", LINES[5]])
    asked = ["score", str(model), "--source", str(source), "--target", str(target), "--device", "cpu"]
    translator = Translator.load(model, device="cpu", engine="torch")
    pairs, found = list(zip(TEXTS, [LINES[4], "", LINES[5]], strict=True)), {}
    for to in translator.targets:
        code, out, err = leave(capsys, *asked, "--to", to)
        assert code == 0, err
        found[to] = [float(line) for line in out.split()]
        assert found[to] == pytest.approx([one.log_probability for one in translator.score(pairs, to=to)], abs=1e-3)
    assert found["de"] != found["fr"]
    code, out, err = leave(capsys, *asked)
    assert (code, out, "--to de" in err) == (2, "", True), err


def test_models_with_other_languages_do_not_translate_together(
    model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = write_tiny_model(tmp_path / "same", TO, seed=4)
    turned = write_tiny_model(tmp_path / "turned", 'text.targets=["fr", "de"]')
    asked = ["translate", str(model), str(source), "--to", "fr", *CPU, "--ensemble"]
    assert leave(capsys, *asked, str(same))[0] == 0
    code, _, err = leave(capsys, *asked, str(turned))
    assert (code, "target languages differ" in err) == (2, True), err


def test_evaluate(
    model: Path,
    source: Path,
    right: dict[str, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [write(tmp_path / f"ref.{to}", texts) for to, texts in right.items()]
    sets = [word for file in files for word in ("--source", str(source), "--reference", str(file))]
    asked = ["evaluate", str(model), *sets, "--metric", "chrF", *CPU]
    code, out, err = leave(capsys, *asked, "--to", "de", "--to", "fr", "--report", str(tmp_path / "report"))
    assert (code, out.count("100.00")) == (0, 2), err
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [each["to"] for each in told["sets"]] == ["de", "fr"]
    code, out, err = leave(capsys, *asked, "--to", "de")  # for both
    assert (code, out.count("100.00")) == (0, 1), err
    code, _, err = leave(capsys, *asked)
    assert (code, "--to de" in err) == (2, True), err
    code, _, err = leave(capsys, *asked, *(["--to", "de"] * 3))
    assert (code, "3 --to for 2 test sets; give one for each, or one for all" in err) == (2, True), err
    one = write_tiny_model(tmp_path / "one")
    code, _, err = leave(capsys, "evaluate", str(one), *asked[2:], "--to", "fr")
    assert (code, "fr" in err) == (2, True), err


def test_inspect_attention(
    model: Path, tmp_path: Path, right: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["inspect", "attention", str(model), "--text", TEXTS[0]]
    for to, texts in right.items():
        page = tmp_path / f"{to}.html"
        code, out, err = leave(capsys, *asked, "--to", to, "--out", str(page))
        assert (code, out) == (0, f"{texts[0]}\n"), err
        assert f"2{to}" in page.read_text(encoding="utf-8")
    code, _, err = leave(capsys, *asked, "--out", str(tmp_path / "x.html"))
    assert (code, "--to de" in err) == (2, True), err


def test_what_was_looked_at_names_the_language_as_a_mark(model: Path) -> None:
    from dragoman.inspect.attention.maps import record_attention

    translator = Translator.load(model, device="cpu", engine="torch")
    looked = record_attention(translator, TEXTS[0], to="fr")
    ids = translator.source.encode(TEXTS[0])
    assert looked.source.tokens == ("<2fr>", *translator.source.tokens(ids), "‹end›")
    labels = [word.label for word in looked.source.words]
    assert labels == ["<2fr>", *TEXTS[0].split(), "‹end›"]
    assert [word.special for word in looked.source.words] == [True, *[False] * (len(labels) - 2), True]
    assert looked.maps["encoder"].shape[2:] == (len(ids) + 2, len(ids) + 2)
    between = looked.pool("cross")
    assert between.shape[-1] == len(labels)
    assert between.sum(-1).min() == pytest.approx(1, abs=1e-4)


def test_inspect_alignment(model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write(tmp_path / "out.fr", [LINES[4], "", LINES[5]])
    asked = ["inspect", "alignment", str(model), "--source", str(source), "--target", str(target)]
    code, out, err = leave(capsys, *asked, "--to", "fr")
    assert code == 0, err
    translator = Translator.load(model, device="cpu", engine="torch")
    links = align_pairs(translator, TEXTS, [LINES[4], "", LINES[5]], to="fr")
    assert out.splitlines() == [format_pharaoh(each) for each in links]
    assert all(0 <= s < len(text.split()) for each, text in zip(links, TEXTS, strict=True) for s, _ in each)
    code, _, err = leave(capsys, *asked, "--to", "fr", "--out", str(tmp_path / "pair.png"))
    assert (code, (tmp_path / "pair.png").is_file()) == (0, True), err
    assert leave(capsys, *asked)[0] == 2
