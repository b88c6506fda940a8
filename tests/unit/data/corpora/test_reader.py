import gzip
import hashlib
import json
import lzma
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.data.corpora.reader import Corpus, read_pairs, rechunk
from dragoman.data.prepare.inputs import InputHashes
from dragoman.errors import DataError
from raising import raises

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
if find_spec("zstandard"):  # an extra
    import zstandard

    PACK[".zst"] = zstandard.ZstdCompressor().compress


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def flat(parts):
    return [item for part in parts for item in part]


def all_pairs(corpus, size=3):
    return [pair for sources, targets in read_pairs(corpus, size) for pair in zip(sources, targets, strict=True)]


@pytest.mark.parametrize("suffix", PACK)
def test_every_packing_gives_the_same_lines(tmp_path, suffix):
    text = "one\ntwo\n\nfour ü\n" * 50
    path = put(tmp_path, f"text{suffix}", PACK[suffix](text.encode()))
    assert [line for part in read_line_blocks(path) for line in part] == text.split("\n")[:-1]


@pytest.mark.parametrize("suffix", [suffix for suffix in PACK if suffix])
def test_packed_members_one_after_the_other_are_one_file(tmp_path, suffix):
    path = put(tmp_path, f"text{suffix}", PACK[suffix](b"one\ntw") + PACK[suffix](b"o\nthree"))
    assert flat(read_line_blocks(path)) == ["one", "two", "three"]


def test_lines_end_at_newline_only(tmp_path):
    odd = ["a\u2028b", "c\u0085d", "e\x0bf\x0cg", "h\u2029", "i\rj", "k\x1cl"]
    path = put(tmp_path, "text", "\n".join(odd) + "\n")
    assert flat(read_line_blocks(path)) == odd


def test_windows_line_ends_and_a_byte_order_mark_are_dropped(tmp_path):
    path = put(tmp_path, "text", b"\xef\xbb\xbfone\r\n\rtwo\r\r\n\r\nfour")
    assert flat(read_line_blocks(path)) == ["one", "\rtwo\r", "", "four"]


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"])), min_size=1),
    block=st.integers(1, 9),
    end=st.booleans(),
)
def test_lines_whatever_the_size_of_blocks(tmp_path_factory, texts, block, end):
    if not end and texts[-1] == "":
        texts = [*texts[:-1], "x"]
    path = put(tmp_path_factory.mktemp("lines"), "text", "\n".join(texts) + ("\n" if end else ""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.data.corpora.compression.BLOCK_BYTES", block)
        assert flat(read_line_blocks(path)) == texts


@given(parts=st.lists(st.lists(st.integers())), size=st.integers(1, 7))
def test_chunks_are_full_and_in_order(parts, size):
    got = list(rechunk(parts, size))
    assert flat(got) == flat(parts)
    assert all(len(chunk) == size for chunk in got[:-1]) and all(got)


def test_plain_tsv_and_json_lines_give_the_same_pairs(tmp_path):
    pairs = [("one", "eins"), ("", "zwei"), ("three\u2028!", "drei"), ("a", ""), ("five", "fünf")]
    source = put(tmp_path, "x.en", "".join(f"{s}\n" for s, _ in pairs))
    target = put(tmp_path, "x.de.xz", lzma.compress("".join(f"{t}\n" for _, t in pairs).encode()))
    tsv = put(tmp_path, "x.tsv", "".join(f"{s}\t{t}\n" for s, t in pairs))
    wide = put(tmp_path, "wide.tsv", "".join(f"7\t{t}\tnote\t{s}\n" for s, t in pairs))
    nested = put(tmp_path, "a.jsonl", "".join(json.dumps({"translation": {"en": s, "de": t}}) + "\n" for s, t in pairs))
    flat = put(tmp_path, "b.jsonl", "".join(json.dumps({"en": s, "de": t, "id": 3}) + "\n" for s, t in pairs))
    assert all_pairs(Corpus(source, target)) == pairs
    assert all_pairs(Corpus(tsv, form="tsv")) == pairs
    assert all_pairs(Corpus(wide, form="tsv", source_key="4", target_key="2")) == pairs
    assert all_pairs(Corpus(nested, form="jsonl", source_key="en", target_key="de")) == pairs
    assert all_pairs(Corpus(flat, form="jsonl", source_key="en", target_key="de")) == pairs


def test_a_blank_line_in_tsv_and_json_is_an_empty_pair(tmp_path):
    assert all_pairs(Corpus(put(tmp_path, "x.tsv", "a\tb\n\nc\td\n"), form="tsv")) == [("a", "b"), ("", ""), ("c", "d")]
    rows = put(tmp_path, "x.jsonl", '{"a": "1", "b": "2"}\n \n')
    assert all_pairs(Corpus(rows, form="jsonl", source_key="a", target_key="b")) == [("1", "2"), ("", "")]


def test_a_file_is_hashed_while_it_is_read(tmp_path):
    text = os.urandom(3 << 20).hex().encode()
    path = put(tmp_path, "x.gz", gzip.compress(b"\n".join(text[i : i + 80] for i in range(0, len(text), 80)), 1))
    seen = []
    hashes = InputHashes(seen.append)
    blocks = read_line_blocks(path, hashes.open)
    count = len(next(blocks))
    assert not hashes.digests  # nothing is known of a file that is read in part
    count += sum(map(len, blocks))
    assert count == -(-len(text) // 80)
    assert sum(seen) == path.stat().st_size and len(seen) > 2
    assert hashes.digests == {path: hashlib.sha256(path.read_bytes()).hexdigest()}


def three(folder, **files):
    """Files by name, and the corpus a.en + a.de of three good pairs where they are not given."""
    made = {"a.en": "one\ntwo\nthree\n", "a.de": "eins\nzwei\ndrei\n", **files}
    for name, content in made.items():
        if content is not None:
            put(folder, name, content)
    return Corpus(folder / "a.en", folder / "a.de")


def tsv(folder, content, **keys):
    return Corpus(put(folder, "a.tsv", content), form="tsv", **keys)


def jsonl(folder, content):
    return Corpus(put(folder, "a.jsonl", content), form="jsonl", source_key="en", target_key="de")


def packed_source(suffix, change):
    def make(folder):
        text = "".join(f"sentence number {i}\n" for i in range(5000)).encode()
        source = put(folder, f"b.en{suffix}", change(bytearray(PACK[suffix](text))))
        return Corpus(source, put(folder, "b.de", text.replace(b"sentence", b"Satz")))

    return make


def flipped(content):
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


MALFORMED = {
    "source has fewer lines": (lambda f: three(f, **{"a.en": "one\ntwo\n"}), ("count_mismatch", "a.en", "2", "a.de")),
    "target has fewer lines": (lambda f: three(f, **{"a.de": "eins\n"}), ("count_mismatch", "a.en", "3", "a.de")),
    "source is empty": (lambda f: three(f, **{"a.en": ""}), ("file_empty", "a.en")),
    "target is empty": (lambda f: three(f, **{"a.de": ""}), ("file_empty", "a.de")),
    "compressed file is empty": (
        lambda f: Corpus(put(f, "e.en.gz", gzip.compress(b"")), put(f, "e.de", "x\n")),
        ("file_empty", "e.en.gz"),
    ),
    "Latin-1 bytes": (
        lambda f: three(f, **{"a.de": "eins\nzwei\nfünf\n".encode("latin-1")}),
        ("not_utf8", "a.de", "3", "2"),
    ),
    "a character cut in half at the end": (
        lambda f: three(f, **{"a.en": b"one\ntwo\nthree \xe4\xb8"}),
        ("not_utf8", "3", "7"),
    ),
    "encoded surrogate": (
        lambda f: three(f, **{"a.en": b"one\n\xed\xa0\x80\nx\n"}),
        ("not_utf8", "a.en", "2", "1"),
    ),
    "UTF-16 with its mark": (
        lambda f: three(f, **{"a.en": "one\ntwo\nthree\n".encode("utf-16")}),
        ("wrong_file_format", "a.en", "UTF-16"),
    ),
    "UTF-16 without its mark": (
        lambda f: three(f, **{"a.en": "one\ntwo\nthree\n".encode("utf-16-le")}),
        ("invalid_character", "a.en", "1"),
    ),
    "a NUL byte": (lambda f: three(f, **{"a.de": b"eins\nz\0wei\ndrei\n"}), ("invalid_character", "a.de", "2")),
    "missing file": (lambda f: three(f, **{"a.de": None}), ("file_missing", "a.de", "a.en")),
    "a broken symbolic link": (
        lambda f: (f / "a.de").symlink_to("gone.de") or three(f, **{"a.de": None}),
        ("file_missing", "a.de", "gone.de"),
    ),
    "a directory": (lambda f: (f / "a.de").mkdir() or three(f, **{"a.de": None}), ("not_a_file", "a.de")),
    "a pipe": (lambda f: os.mkfifo(f / "a.de") or three(f, **{"a.de": None}), ("not_a_file", "a.de")),
    "gzip cut short": (packed_source(".gz", lambda c: bytes(c[:-50])), ("file_damaged", "b.en.gz")),
    "xz cut short": (packed_source(".xz", lambda c: bytes(c[:-50])), ("file_damaged", "b.en.xz")),
    "zstd cut short": (packed_source(".zst", lambda c: bytes(c[:-50])), ("file_damaged", "b.en.zst")),
    "gzip with a wrong byte": (packed_source(".gz", flipped), ("file_damaged", "b.en.gz")),
    "xz with a wrong byte": (packed_source(".xz", flipped), ("file_damaged", "b.en.xz")),
    "named .gz but plain": (
        lambda f: Corpus(put(f, "p.gz", "one\n"), put(f, "p.de", "eins\n")),
        ("wrong_file_format", "p.gz", "6f", "6e"),
    ),
    "named .gz but xz": (
        lambda f: Corpus(put(f, "p.gz", lzma.compress(b"one\n")), put(f, "p.de", "eins\n")),
        ("wrong_file_format", "p.gz"),
    ),
    "a zip archive": (lambda f: three(f, **{"a.en": b"PK\x03\x04rest"}), ("wrong_file_format", "a.en")),
    "bzip2": (lambda f: three(f, **{"a.en": b"BZh91AY&SYxx"}), ("wrong_file_format", "a.en", "bzip2")),
    "no line ends at all": (
        lambda f: three(f, **{"a.en": b"x" * (1 << 16)}),
        ("line_too_long", "a.en", "1"),
    ),
    "TSV with one column": (lambda f: tsv(f, "a\tb\nlonely\n"), ("wrong_columns", "a.tsv", "2", "1")),
    "TSV with three columns": (lambda f: tsv(f, "a\tb\tc\n"), ("wrong_columns", "a.tsv", "1", "3")),
    "TSV without the column asked for": (
        lambda f: tsv(f, "a\tb\tc\nd\te\n", source_key="1", target_key="3"),
        ("wrong_columns", "a.tsv", "2", "1"),
    ),
    "TSV with a column's name": (
        lambda f: tsv(f, "a\tb\n", source_key="en", target_key="de"),
        ("invalid_column", "1"),
    ),
    "TSV with one column twice": (
        lambda f: tsv(f, "a\tb\n", source_key="2", target_key="2"),
        ("duplicate_key", "give two"),
    ),
    "JSON: no JSON": (lambda f: jsonl(f, '{"en": "a", "de": "b"}\n{"en": \n'), ("invalid_json", "a.jsonl", "2")),
    "JSON: a number that is too long": (
        lambda f: jsonl(f, f'{{"en": {"9" * 5000}, "de": "b"}}\n'),
        ("invalid_json", "a.jsonl", "1"),
    ),
    "JSON: a list": (lambda f: jsonl(f, '["a", "b"]\n'), ("wrong_type", "a.jsonl", "1")),
    "JSON: no such key": (
        lambda f: jsonl(f, '{"en": "a", "fr": "b"}\n'),
        ("missing_key", "1", "'de'", "'en'"),
    ),
    "JSON: null": (lambda f: jsonl(f, '{"en": "a", "de": null}\n'), ("wrong_type", "1", "'de'")),
    "JSON: half a surrogate pair": (
        lambda f: jsonl(f, '{"en": "\\ud83d", "de": "b"}\n'),
        ("invalid_character", "1", "U+D83D"),
    ),
    "JSON: a NUL character": (
        lambda f: jsonl(f, '{"en": "a\\u0000", "de": "b"}\n'),
        ("invalid_character", "1", "'en'"),
    ),
    "JSON without keys": (
        lambda f: Corpus(f / "a.jsonl", form="jsonl"),
        ("missing_key", "source key", "target key", "en and de"),
    ),
    "plain file alone": (lambda f: Corpus(f / "a.en"), ("missing_option",)),
    "weight of zero": (lambda f: Corpus(f / "a.en", f / "a.de", weight=0.0), ("out_of_range", "0.0")),
    "weight that is no number": (
        lambda f: Corpus(f / "a.en", f / "a.de", weight=float("nan")),
        ("out_of_range",),
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_input_is_refused_by_name(tmp_path, monkeypatch, case):
    if case.startswith("zstd") and ".zst" not in PACK:
        pytest.skip("zstandard is not installed")
    make, expected = MALFORMED[case]
    monkeypatch.setattr("dragoman.data.corpora.lines.MAX_LINE_BYTES", 1 << 15)
    with raises(DataError, *expected):
        all_pairs(make(tmp_path))


@pytest.mark.parametrize("suffix", [suffix for suffix in PACK if suffix])
def test_lines_before_the_damage_are_given(tmp_path, suffix):
    text = [os.urandom(30).hex() for _ in range(10_000)]
    content = PACK[suffix]("".join(f"{line}\n" for line in text).encode())
    found = []
    with raises(DataError, "file_damaged"):
        for part in read_line_blocks(put(tmp_path, f"x{suffix}", content[: len(content) * 2 // 3])):
            found += part
    assert found == text[: len(found)]
    assert len(found) > 100  # a decoder gives what it has, by blocks of its own


@pytest.mark.parametrize(
    ("bad", "code"), [(b"b\xffd", "not_utf8"), (b"t\0o", "invalid_character"), (b"caf\xe9 t\0o", "not_utf8")]
)
def test_lines_before_a_wrong_one_are_given(tmp_path, bad, code):
    found = []
    with raises(DataError, code, "line 4"):
        for part in read_line_blocks(put(tmp_path, "x", b"\xef\xbb\xbfone\r\n\nthree\n" + bad + b"\nfive\n")):
            found += part
    assert found == ["one", "", "three"]


@pytest.mark.parametrize(
    ("content", "binary"),
    [
        (b"caf\xe9\na stray \x08 character\n", False),
        (b"a stray \x08 character\ncaf\xe9", False),
        (b"caf\xe9 \x08\n", True),
        (b"caf\xe9 \x08", True),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\n", True),
    ],
)
def test_control_characters_of_other_lines_make_no_binary_file(tmp_path, content, binary):
    with raises(DataError, "not_utf8", "may be a binary file" if binary else "iconv"):
        list(read_line_blocks(put(tmp_path, "x", content)))


def test_the_line_of_a_wrong_byte_is_right_deep_in_a_file(tmp_path):
    good = "eine Zeile mit Umlaut ü\n".encode() * 200_000
    path = put(tmp_path, "a", good + b"ab\xff\n" + good)
    with raises(DataError, "not_utf8", "200001", "3"):
        list(read_line_blocks(path))


def test_an_unreadable_file_says_so(tmp_path, monkeypatch):
    corpus = three(tmp_path)

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with raises(DataError, "file_unreadable", "a.en"):
        all_pairs(corpus)


def test_the_documentation_lists_every_malformed_input():
    told = (Path(__file__).parents[4] / "docs" / "howto" / "data.md").read_text(encoding="utf-8")
    assert [case for case in MALFORMED if case not in told] == []
    assert len(MALFORMED) >= 25
