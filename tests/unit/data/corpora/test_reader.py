import gzip
import json
import lzma
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.corpora.reader import Corpus, chunks, read_line_blocks, read_pairs
from dragoman.errors import DataError

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
        patch.setattr("dragoman.data.corpora.compression.BLOCK", block)
        assert flat(read_line_blocks(path)) == texts


@given(parts=st.lists(st.lists(st.integers())), size=st.integers(1, 7))
def test_chunks_are_full_and_in_order(parts, size):
    got = list(chunks(parts, size))
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


def test_progress_adds_up_to_the_bytes_on_disk(tmp_path):
    text = os.urandom(3 << 20).hex().encode()
    path = put(tmp_path, "x.gz", gzip.compress(b"\n".join(text[i : i + 80] for i in range(0, len(text), 80)), 1))
    seen = []
    count = sum(len(part) for part in read_line_blocks(path, seen.append))
    assert count == -(-len(text) // 80)
    assert sum(seen) == path.stat().st_size and len(seen) > 2


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
    "source has fewer lines": (lambda f: three(f, **{"a.en": "one\ntwo\n"}), r"a\.en has 2 lines but .*a\.de has 3"),
    "target has fewer lines": (lambda f: three(f, **{"a.de": "eins\n"}), r"a\.en has 3 lines but .*a\.de has 1"),
    "source is empty": (lambda f: three(f, **{"a.en": ""}), r"a\.en is empty"),
    "target is empty": (lambda f: three(f, **{"a.de": ""}), r"a\.de is empty"),
    "packed file holds nothing": (
        lambda f: Corpus(put(f, "e.en.gz", gzip.compress(b"")), put(f, "e.de", "x\n")),
        r"e\.en\.gz is empty",
    ),
    "Latin-1 bytes": (
        lambda f: three(f, **{"a.de": "eins\nzwei\nfünf\n".encode("latin-1")}),
        r"a\.de, line 3, byte 2: not UTF-8 \(fc 6e 66.*iconv",
    ),
    "a character cut in half at the end": (
        lambda f: three(f, **{"a.en": b"one\ntwo\nthree \xe4\xb8"}),
        r"line 3, byte 7",
    ),
    "encoded surrogate": (
        lambda f: three(f, **{"a.en": b"one\n\xed\xa0\x80\nx\n"}),
        r"a\.en, line 2, byte 1: not UTF-8",
    ),
    "UTF-16 with its mark": (lambda f: three(f, **{"a.en": "one\ntwo\nthree\n".encode("utf-16")}), r"a\.en is UTF-16"),
    "UTF-16 without its mark": (
        lambda f: three(f, **{"a.en": "one\ntwo\nthree\n".encode("utf-16-le")}),
        r"a\.en, line 1: a NUL byte",
    ),
    "a NUL byte": (lambda f: three(f, **{"a.de": b"eins\nz\0wei\ndrei\n"}), r"a\.de, line 2: a NUL byte"),
    "missing file": (lambda f: three(f, **{"a.de": None}), r"there is no file .*a\.de; did you mean .*a\.en"),
    "a link that leads nowhere": (
        lambda f: (f / "a.de").symlink_to("gone.de") or three(f, **{"a.de": None}),
        r"a\.de is a link to gone\.de, which is not there",
    ),
    "a directory": (lambda f: (f / "a.de").mkdir() or three(f, **{"a.de": None}), r"a\.de is a directory"),
    "a pipe": (lambda f: os.mkfifo(f / "a.de") or three(f, **{"a.de": None}), r"a\.de is not a regular file"),
    "gzip cut short": (packed_source(".gz", lambda c: bytes(c[:-50])), r"b\.en\.gz is damaged or cut short after"),
    "xz cut short": (packed_source(".xz", lambda c: bytes(c[:-50])), r"b\.en\.xz is damaged or cut short after"),
    "zstd cut short": (packed_source(".zst", lambda c: bytes(c[:-50])), r"b\.en\.zst is damaged or cut short after"),
    "gzip with a wrong byte": (packed_source(".gz", flipped), r"b\.en\.gz(, line \d+.*not UTF-8| is damaged)"),
    "xz with a wrong byte": (packed_source(".xz", flipped), r"b\.en\.xz is damaged"),
    "named .gz but plain": (
        lambda f: Corpus(put(f, "p.gz", "one\n"), put(f, "p.de", "eins\n")),
        r"p\.gz is named \.gz, but its first bytes \(6f 6e 65 0a\)",
    ),
    "named .gz but xz": (
        lambda f: Corpus(put(f, "p.gz", lzma.compress(b"one\n")), put(f, "p.de", "eins\n")),
        r"p\.gz is named \.gz, but",
    ),
    "a zip archive": (lambda f: three(f, **{"a.en": b"PK\x03\x04rest"}), r"a\.en is a zip archive"),
    "bzip2": (lambda f: three(f, **{"a.en": b"BZh91AY&SYxx"}), r"a\.en is packed with bzip2"),
    "no line ends at all": (
        lambda f: three(f, **{"a.en": b"x" * (1 << 16)}),
        r"a\.en, line 1: more than .* without an end",
    ),
    "TSV with one column": (lambda f: tsv(f, "a\tb\nlonely\n"), r"a\.tsv, line 2: 1 columns"),
    "TSV with three columns": (lambda f: tsv(f, "a\tb\tc\n"), r"a\.tsv, line 1: 3 columns.*--source-key"),
    "TSV without the column asked for": (
        lambda f: tsv(f, "a\tb\tc\nd\te\n", source_key="1", target_key="3"),
        r"a\.tsv, line 2: 2 columns, but columns 1 and 3",
    ),
    "TSV with a column's name": (
        lambda f: tsv(f, "a\tb\n", source_key="en", target_key="de"),
        r"column numbers from 1",
    ),
    "TSV with one column twice": (
        lambda f: tsv(f, "a\tb\n", source_key="2", target_key="2"),
        r"as source and as target",
    ),
    "JSON: no JSON": (lambda f: jsonl(f, '{"en": "a", "de": "b"}\n{"en": \n'), r"a\.jsonl, line 2: not JSON"),
    "JSON: a number that is too long": (
        lambda f: jsonl(f, f'{{"en": {"9" * 5000}, "de": "b"}}\n'),
        r"a\.jsonl, line 1: not JSON \(Exceeds the limit",
    ),
    "JSON: a list": (lambda f: jsonl(f, '["a", "b"]\n'), r"a\.jsonl, line 1: list instead of an object"),
    "JSON: no such key": (
        lambda f: jsonl(f, '{"en": "a", "fr": "b"}\n'),
        r"line 1: there is no key 'de'; .*'en', 'fr'",
    ),
    "JSON: null": (lambda f: jsonl(f, '{"en": "a", "de": null}\n'), r"line 1: 'de' is null, not a text"),
    "JSON: half a surrogate pair": (lambda f: jsonl(f, '{"en": "\\ud83d", "de": "b"}\n'), r"line 1: .*U\+D83D"),
    "JSON: a NUL character": (lambda f: jsonl(f, '{"en": "a\\u0000", "de": "b"}\n'), r"line 1: 'en' has a NUL"),
    "JSON without keys": (lambda f: Corpus(f / "a.jsonl", form="jsonl"), r"need --source-key and --target-key"),
    "plain file alone": (lambda f: Corpus(f / "a.en"), r"plain files come in twos"),
    "weight of zero": (lambda f: Corpus(f / "a.en", f / "a.de", weight=0.0), r"weight is a number over 0, .*; got 0.0"),
    "weight that is no number": (
        lambda f: Corpus(f / "a.en", f / "a.de", weight=float("nan")),
        r"a weight is a number",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_input_is_refused_by_name(tmp_path, monkeypatch, case):
    if case.startswith("zstd") and ".zst" not in PACK:
        pytest.skip("zstandard is not installed")
    make, message = MALFORMED[case]
    monkeypatch.setattr("dragoman.data.corpora.reader.LONGEST_LINE", 1 << 15)
    with pytest.raises(DataError, match=f"(?s){message}"):
        all_pairs(make(tmp_path))


@pytest.mark.parametrize("suffix", [suffix for suffix in PACK if suffix])
def test_lines_before_the_damage_are_given(tmp_path, suffix):
    text = [os.urandom(30).hex() for _ in range(10_000)]
    content = PACK[suffix]("".join(f"{line}\n" for line in text).encode())
    found = []
    with pytest.raises(DataError, match="is damaged or cut short"):
        for part in read_line_blocks(put(tmp_path, f"x{suffix}", content[: len(content) * 2 // 3])):
            found += part
    assert found == text[: len(found)]
    assert len(found) > 100  # a decoder gives what it has, by blocks of its own


@pytest.mark.parametrize("bad", [b"b\xffd", b"t\0o", b"caf\xe9 t\0o"])
def test_lines_before_a_wrong_one_are_given(tmp_path, bad):
    found = []
    with pytest.raises(DataError, match="line 4"):
        for part in read_line_blocks(put(tmp_path, "x", b"\xef\xbb\xbfone\r\n\nthree\n" + bad + b"\nfive\n")):
            found += part
    assert found == ["one", "", "three"]


def test_the_line_of_a_wrong_byte_is_right_deep_in_a_file(tmp_path):
    good = "eine Zeile mit Umlaut ü\n".encode() * 200_000
    path = put(tmp_path, "a", good + b"ab\xff\n" + good)
    with pytest.raises(DataError, match="line 200001, byte 3"):
        list(read_line_blocks(path))


def test_an_unreadable_file_says_so(tmp_path, monkeypatch):
    corpus = three(tmp_path)

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"cannot read .*a\.en: Permission denied"):
        all_pairs(corpus)


def test_the_documentation_lists_every_malformed_input():
    told = (Path(__file__).parents[4] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [case for case in MALFORMED if case not in told] == []
    assert len(MALFORMED) >= 25
