"""benchmarks/shipped_models.py: the student's sources and steps, its phrases and names, and its card."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import shipped_card
import shipped_models
import shipped_names
import shipped_phrases

STEPS = {"teacher": 7, "aligner": 5, "student": 11}
NUMBERS = {"two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "seven": "sieben"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Corpora with a sentence or two each, all different."""
    names = [*shipped_models.HELD_OUT, "europarl_en-de/train", "tatoeba_en-de/train", "tatoeba_en-fr/train"]
    names += [f"wmt_en-de/{name}" for name in shipped_models.NEWS]
    for name in names:
        for language in ("en", "de"):
            path = tmp_path / "data" / f"{name}.{language}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} in {language}.\n", encoding="utf-8")
    return tmp_path / "data"


def maker(data: Path, pair: str = "en-de") -> shipped_models.Maker:
    return shipped_models.Maker(data, data.parent / "runs", pair, steps=dict(STEPS), dry_run=False)


def test_sources_are_unique_and_not_in_a_test_set(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_models.Maker, "europarl_share", 1.0)
    held_out = (data / "wmt_en-de/newstest2014.en").read_text()
    more = ["Once!", "once", held_out.upper().rstrip(".\n") + " !", "", "word " * 81]
    (data / "tatoeba_en-de/train.en").write_text("\n".join(more) + "\n", encoding="utf-8")
    lines = [*maker(data).source_lines()]
    assert [line for line in lines if "once" in line.lower()] == ["Once!"]
    assert not any("newstest2013" in line or "2014" in line for line in lines)
    assert not any(line.startswith("word word") for line in lines)
    assert "tatoeba_en-fr/train in en." in lines
    assert not any("tatoeba_en-fr" in line for line in maker(data, "de-en").source_lines())  # it has no German


def test_fewer_steps_of_the_student_fit_into_less_time() -> None:
    lines, most = 10 * shipped_models.LINES_PER_SECOND, 42_000
    seconds = 10 + shipped_models.STUDENT_OVERHEAD
    assert (
        shipped_models.fitting_steps(seconds + 20_000 * shipped_models.STUDENT_STEP_SECONDS + 1, lines, most) == 20_000
    )
    assert shipped_models.fitting_steps(10_000, lines, most) == most
    assert shipped_models.fitting_steps(0, lines, most) == most // 4


def test_a_student_that_resumes_keeps_its_steps(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(shipped_models.Maker, "run", lambda self, stage, *arguments: commands.append(arguments))
    for _ in range(2):
        one = maker(data)
        one.out.mkdir(parents=True, exist_ok=True)
        one.deadline = 0.0  # long ago: a quarter of the steps
        one.distill()
    assert commands[0] == commands[1]
    assert "train.steps=2" in commands[0]


def test_the_commands_train_teacher_aligner_and_student_in_this_order(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_models, "ROOT", data.parent)  # without models
    stages = ["teacher", "aligner", "distill", "measure"]
    place = ["shipped_models.py", str(data), "--out", str(data.parent / "runs"), "--pair", "en-de", "--dry-run"]
    monkeypatch.setattr(sys, "argv", [*place, *stages])
    shipped_models.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["train", "train", "distill", *["evaluate"] * 3]
    assert (
        f"{data}/europarl_en-de/train.de --target {data}/europarl_en-de/train.en" in lines[1]
    )  # the opposite direction
    assert not any("newstest2014" in line for line in lines[:3])  # only measured on


def test_the_model_in_the_repository_aligns_where_no_other_is(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["shipped_models.py", str(data), "--out", str(data.parent / "runs"), "--pair", "de-en", "--dry-run"]
    monkeypatch.setattr(sys, "argv", [*place, "teacher", "distill"])
    shipped_models.main()
    assert f"--reverse {shipped_models.ROOT / 'models' / 'en-de'} " in capsys.readouterr().out


def test_the_card_has_scores_steps_and_the_weaknesses(tmp_path: Path) -> None:
    run = tmp_path / "de-en"
    scores = {"BLEU": {"value": 21.234, "signature": "tok:13a"}, "chrF": {"value": 51.2, "signature": "nc:6"}}
    report = {"system": {"precision": "int8"}, "sets": [{"name": "newstest2013", "scores": scores}]}
    for name, content in {
        "student-int8-report/report.json": report,
        "student/training/distillation/report.json": {"kept": 1234, "read": 2345},
        "times.json": {"teacher": 61.2},
        "steps.json": STEPS,
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(json.dumps(content), encoding="utf-8")
    (run / "names.en").write_text("We saw Korvez.\nWe saw 37.\n")
    text = shipped_card.card(run, "It drops smileys.")
    for part in (
        "German to English",
        "21.23 / 51.20",
        "tok:13a",
        "1,234",
        "student 11",
        "other names and numbers, 2 pairs",
        "RUNS names teacher publish",
        "It drops smileys.",
        "Tatoeba",
    ):
        assert part in text


def test_phrases_are_an_own_corpus_of_the_teacher_and_sources_of_the_student(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_models, "PHRASE_SHARE", 1.0)
    sentences = [(f"we saw the {n} house yesterday", f"wir sahen das {m} Haus gestern") for n, m in NUMBERS.items()]
    write_corpus(data / "europarl_en-de/train", sentences * 8)
    (data / "wmt_en-de/newstest2014.en").write_text("Yesterday!\n", encoding="utf-8")
    maker(data).phrases()
    found = dict(read_phrases(maker(data)))
    assert found["house"] == found["House"] == "Haus"
    assert {number: found[number] for number in NUMBERS} == NUMBERS
    assert found["Two"] == "Zwei"
    assert "yesterday" not in found  # a sentence of a test set
    assert dict(read_phrases(maker(data, "de-en")))["Haus"] == "House"
    assert "three" in [*maker(data).source_lines()]
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(shipped_models.Maker, "run", lambda self, stage, *arguments: commands.append(arguments))
    maker(data).train("teacher", 12)
    assert str(maker(data).phrase_files[0]) in commands[0]


def test_names_are_a_corpus_of_the_teacher_and_sources_of_the_student(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_models, "NAME_SHARE", 1.0)
    (data / "wmt_en-de/newstest2014.en").write_text("We saw Berlin in 5 days.\n", encoding="utf-8")
    pairs = [("We saw Anna and her 37 cats.", "Wir sahen Anna und ihre 37 Katzen.")] * 3
    write_corpus(data / shipped_models.TATOEBA, [*pairs, ("We saw Berlin in 5 days", "Wir sahen Berlin in 5 Tagen")])
    maker(data).names()
    found = [*zip(*map(shipped_models.read_lines, maker(data).name_files), strict=True)]
    own = [pair for pair in found if pair[0].startswith("We saw")]
    assert len(own) == 3  # that of the test set is left out
    for source, target in own:
        name, number = source.split()[2], source.split()[5]
        assert target == f"Wir sahen {name} und ihre {number} Katzen." and name != "Anna"
    assert own[0][0] in [*maker(data).source_lines()]
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(shipped_models.Maker, "run", lambda self, stage, *arguments: commands.append(arguments))
    maker(data).train("teacher", 12)
    assert str(maker(data).name_files[0]) in commands[0]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Mr Barroso met Tony Blair.", "Herr Barroso traf Tony Blair.", ["Barroso", "Tony", "Blair"]),
        (
            "In Rome, the EU has 27 members.",
            "In Rom hat die EU 27 Mitglieder.",
            ["27"],
        ),  # a sentence begins; an article
        ("Anna saw Anna.", "Anna sah sie.", []),
        ("On 5 August, by Ford F-150", "Am 5. August, im Ford F-150", ["5", "F-150"]),
    ],
)
def test_names_and_numbers_that_both_sides_have_once(source: str, target: str, expected: list[str]) -> None:
    assert shipped_names.shared_words((source, target)) == expected


@pytest.mark.parametrize("word", ["Barroso", "EU", "27", "1998", "F-150"])
def test_another_word_is_of_the_same_kind(word: str) -> None:
    model = shipped_names.NameModel(["Barroso", "Boro", "Bargo"], ["barrogo"])
    generator = random.Random(3)
    others = {shipped_names.other_word(word, model, generator) for _ in range(200)}
    assert len(others) > 5 and "barrogo" not in map(str.lower, others)
    if word[0].isdigit():
        assert {len(other) for other in others} == {len(word)} and all(map(str.isdigit, others))
    else:
        assert all(other[0].isupper() or any(map(str.isdigit, other)) for other in others)


def test_english_without_german_is_translated_back_for_the_teacher_into_english(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out, known = ((data / f"{name}.en").read_text() for name in ("wmt_en-de/newstest2013", shipped_models.TATOEBA))
    (data / "tatoeba_en-fr/train.en").write_text(f"New here.\nnew here\n{held_out}{known.upper()}", encoding="utf-8")
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(shipped_models.Maker, "run", lambda self, stage, *arguments: commands.append(arguments))
    one = maker(data, "de-en")
    one.backtranslate()
    assert one.back_translated[1].read_text() == "New here.\n"
    one.back_translated[0].write_text("Neu hier.\n")
    one.backtranslate()  # it is done
    one.train("teacher", 12)
    assert [arguments[0] for arguments in commands] == ["translate", "train"]
    assert {*map(str, one.back_translated)} <= {*commands[1]}
    assert "Neu hier." in [*one.source_lines()]


def test_german_gets_other_english_for_the_teacher_into_german(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_models, "BACK_SHARE", 0.0)
    monkeypatch.setattr(shipped_models.Maker, "run", lambda *_: None)
    held_out, target = ((data / f"wmt_en-de/{name}.de") for name in ("newstest2013", "newstest2009"))
    target.write_text(f"Guten Tag.\nguten Tag\n{held_out.read_text()}", encoding="utf-8")
    one = maker(data, "en-de")
    one.backtranslate()
    lines = one.back_translated[1].read_text().splitlines()
    assert [line for line in lines if "tag" in line.lower()] == ["Guten Tag."]
    assert f"{shipped_models.TATOEBA} in de." in lines
    assert not any("europarl" in line or "newstest2013" in line for line in lines)
    one.back_translated[0].write_text("Good day.\n")
    assert "Good day." not in [*one.source_lines()]  # the student has the English of people


def read_phrases(one: shipped_models.Maker) -> list[tuple[str, str]]:
    return list(zip(*map(shipped_models.read_lines, one.phrase_files), strict=True))


def write_corpus(name: Path, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        name.with_name(f"{name.name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))


def test_phrases_are_linked_with_each_other_and_with_nothing_else() -> None:
    source, target = ["so", "the", "annual", "report", "is", "here", "."], ["der", "Jahresbericht", "ist", "da", "."]
    links = [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (6, 4)]
    found = set(shipped_phrases.linked_phrases(source, target, links))
    assert (("annual", "report"), ("Jahresbericht",)) in found
    assert (("is", "here"), ("ist", "da")) in found
    assert not any(phrase == ("report",) for phrase, _ in found)  # half of what the translation is linked with
    assert not any("der" in translation or "." in translation for _, translation in found)  # first word, no word


def test_a_phrase_keeps_its_most_frequent_translation() -> None:
    one, other, rare = ("Lösung",), ("Antwort",), ("Ausweg",)
    counts = shipped_phrases.PhraseCounts(
        Counter({(("solution",), one): 60, (("solution",), other): 30, (("exit",), rare): 4}),
        (Counter({("solution",): 90, ("exit",): 4}), Counter({one: 60, other: 30, rare: 4})),
        (set(), set()),
    )
    assert shipped_phrases.translations(counts, 0) == {"solution": "Lösung"}
    assert shipped_phrases.translations(counts, 1) == {"Antwort": "solution", "Lösung": "solution"}
