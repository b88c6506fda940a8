"""The models in `models/`: small enough, intact, documented, and able to translate, without training anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.documents.files import translate_document
from dragoman.files import manifest_entries
from dragoman.modeldir.info import read_info
from dragoman.modeldir.installed import card_bleu
from dragoman.modeldir.layout import verify_model
from dragoman.translation.translator import Translator

MODELS = Path(__file__).parents[2] / "models"
SENTENCES = {
    "de-en": {
        "Wo ist der Bahnhof?": "Where's the station?",
        "Könntest du mir bitte das Salz reichen?": "Could you pass me the salt, please?",
        "Das Paket kostet 12,50 € und wiegt 2,3 kg.": "The package costs EUR 12.50 and weighs 2.3 kg.",
    },
    "en-de": {
        "Where is the station?": "Wo ist der Bahnhof?",
        "How much does this cost?": "Wie viel kostet das?",
        "Thank you for your letter of 12 May 2024.": "Vielen Dank für Ihr Schreiben vom 12. Mai 2024.",
    },
}


@pytest.fixture(params=sorted(path.name for path in MODELS.iterdir()))
def model(request: pytest.FixtureRequest) -> Path:
    """Each model."""
    return MODELS / str(request.param)


def test_they_are_small_intact_and_documented(model: Path) -> None:
    verify_model(model)
    sizes = [path.stat().st_size for path in model.iterdir()]
    assert sum(sizes) <= 12_000_000
    assert max(sizes) <= 8_000_000
    assert {path.name for path in model.iterdir()} == {*manifest_entries(model), "manifest.json", "card.md"}
    info, card = read_info(model), (model / "card.md").read_text(encoding="utf-8")
    assert "-".join((*info.source_languages, *info.target_languages)) == model.name
    assert info.license
    assert info.license in card
    assert card_bleu(model)
    for heading in ("Scores", "Known weaknesses", "Data", "License", "How it was made"):
        assert f"## {heading}\n" in card


def test_they_translate(model: Path) -> None:
    sentences = SENTENCES[model.name]
    found = Translator.load(model, device="cpu").translate(list(sentences))
    assert [each.text for each in found] == [*sentences.values()]


def test_they_move_markup_to_the_right_words(model: Path, tmp_path: Path) -> None:
    pages = {
        "en": "<p>The <b>red house</b> is <a href='/x'>very old</a>.</p>\n",
        "de": "<p>Das <b>rote Haus</b> ist <a href='/x'>sehr alt</a>.</p>\n",
    }
    source, target = model.name.split("-")
    page = tmp_path / "page.html"
    page.write_text(pages[source], encoding="utf-8")
    translate_document(model, page, tmp_path / "translated.html")
    assert (tmp_path / "translated.html").read_text(encoding="utf-8") == pages[target]


def test_their_name_is_enough(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "translate", "en-de"]
    done = subprocess.run(
        command, input="Where is the station?\n", capture_output=True, text=True, cwd=tmp_path, encoding="utf-8"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Wo ist der Bahnhof?\n", "")
