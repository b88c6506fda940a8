from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from tests.raising import raises
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import detect, read_document
from dragoman.documents.formats.localization import po
from dragoman.documents.formats.localization.plural_rules import language_rule, parse_rule
from dragoman.documents.formats.localization.po_syntax import quote
from dragoman.documents.segment import ReadOptions, Target
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "localization"
FILES = sorted(path.name for path in [*FIXTURES.glob("*.po"), *FIXTURES.glob("*.pot")])


def translate(data: bytes, translator: WordByWord, options: ReadOptions | None = None) -> bytes:
    document = po.read(data, "x.po", options or ReadOptions())
    report = translate_segments(document.segments, translator)
    return document.write([result.target for result in report.results])


def load(data: bytes) -> polib.POFile:
    return polib.pofile(data.decode())


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_targets_is_the_same_bytes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    found = detect(data, name)
    assert found is not None and found.name == "po"
    document = read_document(data, name)
    assert document.segments
    assert document.write([None] * len(document.segments)) == data


@pytest.mark.parametrize("name", FILES)
def test_polib_sees_the_messages_of_the_original_with_translations(name: str, tmp_path: Path) -> None:
    data = (FIXTURES / name).read_bytes()
    source = polib.pofile(str(FIXTURES / name))
    target = "" if source.metadata.get("Language") else "de"
    (tmp_path / name).write_bytes(translate(data, WordByWord(word=str), ReadOptions("en", target)))
    written = polib.pofile(str(tmp_path / name))
    assert len(source) == len(written)
    for before, after in zip(source, written, strict=True):
        for field in ("msgid", "msgid_plural", "msgctxt", "comment", "tcomment", "occurrences", "obsolete",
                      "previous_msgid"):  # fmt: skip
            assert getattr(before, field) == getattr(after, field)
        assert [flag for flag in after.flags if flag != "fuzzy"] == [flag for flag in before.flags if flag != "fuzzy"]
        if before.obsolete:
            assert str(before) == str(after)
        elif before.msgid_plural:
            assert all(after.msgstr_plural.values())
        elif before.msgstr:
            assert (after.msgstr, after.fuzzy) == (before.msgstr, before.fuzzy)
        else:
            assert after.msgstr == before.msgid and after.fuzzy  # the translation of WordByWord(word=str)


def test_untouched_lines_stay_as_they_are() -> None:
    data = (FIXTURES / "weblate.po").read_text(encoding="utf-8")
    written = translate(data.encode(), WordByWord(word=str.upper)).decode()
    lines = written.splitlines()
    assert {line for line in data.splitlines() if line not in lines} == {"#, python-brace-format", 'msgstr[1] ""'}
    assert 'msgid "A long sentence that was broken by hand "\n"in the middle, and\\n"\n"again here."' in written
    assert '#, fuzzy, python-brace-format\nmsgid "Hello {name}' in written
    assert 'msgstr "HELLO {name}, YOU HAVE {count} MESSAGES."' in written
    assert '#, fuzzy\nmsgctxt "verb"' in written
    assert 'msgstr[0] "%d Blume ist offen.\\n"\nmsgstr[1] "%d FLOWERS ARE OPEN.\\n"' in written


def test_translations_are_kept_unless_asked() -> None:
    data = (FIXTURES / "weblate.po").read_bytes()
    kept, replaced = (translate(data, WordByWord(), ReadOptions(retranslate=again)) for again in (False, True))
    assert [load(one).find("Welcome to the garden!\n").msgstr for one in (kept, replaced)] == [
        "Willkommen im Garten!\n", "WELCOME TO THE GARDEN!\n",
    ]  # fmt: skip


def test_approved_translations_are_not_fuzzy() -> None:
    document = po.read(b'msgid "one"\nmsgstr ""\n', "x.po", ReadOptions())
    assert document.write([Target("eins", approved=True)]) == b'msgid "one"\nmsgstr "eins"\n'
    assert document.write([Target("eins")]) == b'#, fuzzy\nmsgid "one"\nmsgstr "eins"\n'


@pytest.mark.parametrize(("language", "forms"), [("de", 2), ("ru", 3), ("ja", 1), ("ar", 6)])
def test_a_template_gets_the_plural_forms_of_the_language(language: str, forms: int) -> None:
    data = (FIXTURES / "program.pot").read_bytes()
    written = load(translate(data, WordByWord(), ReadOptions("en", language)))
    assert written.metadata["Language"] == language
    assert written.metadata["Plural-Forms"].startswith(f"nplurals={forms};")
    entry = written.find("%d flower is open.\n")
    assert list(entry.msgstr_plural) == list(range(forms))
    assert all(text.startswith("%d FLOWER") and text.endswith(".\n") for text in entry.msgstr_plural.values())


def test_a_form_for_more_than_one_number_keeps_the_placeholder() -> None:
    data = b'msgid "One bee."\nmsgid_plural "%d bees."\nmsgstr[0] ""\nmsgstr[1] ""\n'
    german, russian = (
        load(translate(data, WordByWord(), ReadOptions("en", to)))[0].msgstr_plural for to in ("de", "ru")
    )
    assert german == {0: "ONE BEE.", 1: "%d BEES."}
    assert russian == {0: "%d BEES.", 1: "%d BEES.", 2: "%d BEES."}  # the first form is for 21 too


def test_the_model_reads_a_number_of_the_plural_form() -> None:
    translator = WordByWord()
    translate((FIXTURES / "program.ru.po").read_bytes(), translator)
    form = parse_rule(load((FIXTURES / "program.ru.po").read_bytes()).metadata["Plural-Forms"])
    assert form is not None
    read = [text.split()[0] for text in translator.calls[0] if "open." in text]
    assert [form.form(int(number)) for number in read] == [0, 1, 2]


def test_directives_that_change_places_are_numbered() -> None:
    data = b'#, c-format\nmsgid "%s ate %d of <b>%s</b>.\\n"\nmsgstr ""\n'
    (entry,) = load(translate(data, WordByWord(word=str, order=backward)))
    assert entry.msgstr == "<b>%3$s</b>. of %2$d ate %1$s\n"
    (entry,) = load(translate(data, WordByWord()))
    assert entry.msgstr == "%s ATE %d OF <b>%s</b>.\n"
    python = data.replace(b"c-format", b"python-format")
    assert translate(python, WordByWord(word=str, order=backward)) == python  # Python has no numbers: not translated


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("run `git checkout %s` on %s", "%2$s ON `git checkout %1$s` RUN"),
        ("%s.txt or --out=%d", "--out=%2$d OR %1$s.txt"),
        ("%s%% of %d%s", "%2$d%3$s OF %1$s%%"),
        ("on %Y-%m-%d, %s or %d", None),  # not a format of printf
        ("%1$s is `%2$s`", "`%2$s` IS %1$s"),
        ("%*d of %s", None),
        ("<a href='%s'>one</a> %s", None),
    ],
)
def test_directives_inside_other_placeholders_are_numbered(message: str, expected: str | None) -> None:
    data = f'#, c-format\nmsgid "{message}"\nmsgstr ""\n'
    (entry,) = load(translate(data.encode(), WordByWord(order=backward)))
    assert entry.msgstr == (expected or "")
    python = load(translate(data.replace("c-format", "python-format").encode(), WordByWord(order=backward)))
    assert python[0].msgstr == (expected if expected and "$" in message else "")


def test_charsets() -> None:
    latin = (FIXTURES / "latin1.po").read_bytes()
    assert "Ä".encode("latin-1") in translate(latin, WordByWord(word=lambda word: "Ä"))
    with raises(DocumentError, "unsupported_encoding", "Ω"):
        translate(latin, WordByWord(word=lambda word: "Ω"))
    ascii_file = (FIXTURES / "program.ascii.po").read_bytes()
    assert b"charset=ASCII" in ascii_file
    assert load(translate(ascii_file, WordByWord(word=lambda word: "Ω"))).metadata["Content-Type"].endswith("UTF-8")


def test_another_language_is_an_error() -> None:
    with raises(DocumentError, "language_mismatch", "de"):
        translate((FIXTURES / "weblate.po").read_bytes(), WordByWord(), ReadOptions("en", "fr"))
    assert translate((FIXTURES / "weblate.po").read_bytes(), WordByWord(), ReadOptions("en", "de-AT"))


def test_pairs_say_which_are_fuzzy() -> None:
    pairs = list(po.read_pairs((FIXTURES / "weblate.po").read_bytes(), "weblate.po", ReadOptions()))
    assert [pair[:2] for pair in pairs if not pair.unreviewed] == [
        ("Welcome to the garden!\n", "Willkommen im Garten!\n"),
        ("%d flower is open.\n", "%d Blume ist offen.\n"),
        ("Plant", "Pflanze"),
    ]
    assert sum(pair.unreviewed for pair in pairs) == 1


@pytest.mark.parametrize(
    "text", ["a", 'say "hi"\\\n', "x" * 200, "word " * 40, "one\ntwo\n\nthree\t\\n " * 9, "\n", ""]
)
def test_strings_are_read_back_by_polib(text: str) -> None:
    for wrap in (True, False):
        for newline in ("\n", "\r\n"):
            written = f'msgid "k"\nmsgstr {quote(text, "msgstr", newline, wrap)}\n'
            assert load(written.encode())[0].msgstr == text
            longest = max(map(len, written.splitlines()))
            assert longest <= 80 or not wrap or "x" * 200 in text


@pytest.mark.parametrize("language", ["de", "fr", "ru", "pl", "cs", "sl", "lt", "lv", "ro", "ja", "pt_BR"])
def test_rules_are_those_of_msginit(language: str, tmp_path: Path) -> None:
    rule = language_rule(language)
    assert rule is not None
    assert {rule.form(n) for n in range(1000)} == set(range(rule.count))
    for form in range(rule.count):
        assert rule.numbers(form) and all(rule.form(n) == form for n in rule.numbers(form))
    if shutil.which("msginit") is None:
        return
    (tmp_path / "x.pot").write_bytes((FIXTURES / "program.pot").read_bytes())
    made = subprocess.run(["msginit", "--no-translator", "-l", language, "-i", str(tmp_path / "x.pot"), "-o", "-"],
                          capture_output=True, check=True)  # fmt: skip
    theirs = parse_rule(load(made.stdout).metadata["Plural-Forms"])
    assert theirs is not None and [rule.form(n) for n in range(200)] == [theirs.form(n) for n in range(200)]


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
@pytest.mark.parametrize("name", [*FILES, "shuffled"])
def test_msgfmt_accepts_translations(name: str, tmp_path: Path) -> None:
    data = (FIXTURES / (name if name in FILES else "program.ru.po")).read_bytes()
    target = "" if b"Language: " in data and b"Language: \\n" not in data else "de"
    order = backward if name == "shuffled" else lambda words: range(len(words))
    written = translate(data, WordByWord(order=order), ReadOptions("en", target))
    (tmp_path / "x.po").write_bytes(written)
    checked = subprocess.run(["msgfmt", "-c", "--use-fuzzy", "-o", str(tmp_path / "x.mo"), str(tmp_path / "x.po")],
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stderr


def test_damaged_files_give_an_error_or_a_document() -> None:
    generator = random.Random(5)
    for name in ("weblate.po", "program.pot", "crlf.po"):
        whole = (FIXTURES / name).read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(generator.randint(1, 6)):
                place = generator.randrange(len(data))
                data[place : place + generator.randint(0, 20)] = generator.choice(
                    [b'"', b"\\", b"\n", b"msgid", b"#", b"msgstr[9]", b"\xff", b"", b"nplurals=3; plural=n%0;"]
                )
            try:
                translate(bytes(data), WordByWord())
                document = po.read(bytes(data), name, ReadOptions())
                assert document.write([None] * len(document.segments)) == bytes(data)
            except DocumentError as error:
                assert error.code in ("damaged_document", "unsupported_encoding")
    with raises(DocumentError, "damaged_document", "line 2"):
        po.read(b'msgid "a"\nmsgstr "b\n', "x.po", ReadOptions())


ICU = "Hello {name}: {n, plural, one {# new file} other {# new files in {folder}}}"


def test_icu_branches_are_translated() -> None:
    entry = f'msgid "{ICU}"\nmsgstr ""\n'
    (found,) = load(translate(entry.encode(), WordByWord(order=backward)))
    assert found.msgstr == "{n, plural, one {FILE NEW #} other {{folder} IN FILES NEW #}} {name}: HELLO"
    lost = WordByWord(lost=frozenset(["X1", "4831", "5984"]), can_require=False)  # what stands for {folder}
    assert not load(translate(entry.encode(), lost))[0].msgstr
    (numbers,) = load(translate(b'msgid "{n, plural, one {#} other {#}}"\nmsgstr ""\n', WordByWord()))
    assert numbers.msgstr == numbers.msgid
    (broken,) = load(translate(b'msgid "{n, plural, one {a"\nmsgstr ""\n', WordByWord()))
    assert broken.msgstr  # braces that do not match are text


@pytest.mark.parametrize(
    ("flags", "message", "expected"),
    [
        ("c-format", "one <code>in %s</code> two %d", "ONE <code>in %s</code> TWO %d"),  # neither twice nor numbered
        ("c-format", "one %5.2fx two %ldms", "ONE %5.2fX TWO %ldMS"),
        ("python-format", "%dnew files, 100%% sure", "%dNEW FILES, 100%% SURE"),
        ("c-format", "%s of 100%%</b> %d", "%s OF 100%%</b> %d"),
        ("no-c-format", "100%discount and 5%fun", "100%DISCOUNT AND 5%FUN"),
        ("c-format", "one <a href='http://x/%s/%d'>two %s", "ONE <a href='http://x/%s/%d'>TWO %s"),
        ("c-format", "use `cp %s` or %s.txt", "USE `cp %s` OR %s.txt"),
        ("python-format", "use `cp %s` or --out=%s", "USE `cp %s` OR --out=%s"),
        ("c-format", "%Y-%m-%d, %Y-%m-%d or %d", "%Y-%m-%d, %Y-%m-%d OR %d"),
        ("c-format", "%*d of %s and 5<b>%</b>", "%*d OF %s AND 5<b>%</b>"),
    ],
)
def test_directives_are_those_of_the_format(flags: str, message: str, expected: str) -> None:
    data = f'#, {flags}\nmsgid "{message}"\nmsgstr ""\n'.encode()
    (entry,) = load(translate(data, WordByWord()))
    assert entry.msgstr == expected


def test_an_identical_translation_keeps_markup_inside_words() -> None:
    message = "un<b>do</b>able  it<wbr>self<i> </i>"
    (entry,) = load(translate(f'msgid "{message}"\nmsgstr ""\n'.encode(), WordByWord(word=str)))
    assert entry.msgstr == message


def test_blocks_in_messages_are_translated_one_by_one() -> None:
    data = b'msgid "<!-- a --><p>one two</p><ul><li>six ten</li></ul>"\nmsgstr ""\n'
    (entry,) = load(translate(data, WordByWord(order=backward)))
    assert entry.msgstr == "<!-- a --><p>TWO ONE</p><ul><li>TEN SIX</li></ul>"
