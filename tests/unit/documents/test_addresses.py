"""Domains, file names, paths and IP addresses are found, and other words with full stops and slashes are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.transfer.addresses import ADDRESS, find_addresses, may_have_addresses
from dragoman.documents.transfer.placeholders import find_placeholders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Visit example.com, (gitlab.com) x.org/a?b=1.", ["example.com", "gitlab.com", "x.org/a?b=1"]),
        ("orf.co.at, python.it/a at x.dev:8080!", ["orf.co.at", "python.it/a", "x.dev:8080"]),
        ("„siehe europarl.eu.int/register“", ["europarl.eu.int/register"]),
        ("Open report.pdf, config.yaml or README.md.", ["report.pdf", "config.yaml", "README.md"]),
        ("REPORT.PDF index.html#top report.pdf-Datei a.7z", ["REPORT.PDF", "index.html#top", "report.pdf", "a.7z"]),
        ("/etc/passwd, /etc and /opt/x/", ["/etc/passwd", "/etc", "/opt/x/"]),
        ("~/.bashrc ./configure src/main.py src/main", ["~/.bashrc", "./configure", "src/main.py", "src/main"]),
        (r"C:\Users\Anna\a.txt, (D:\backup) \\host\a", [r"C:\Users\Anna\a.txt", r"D:\backup", r"\\host\a"]),
        (r"C:\Program Files (x86)\App\x.exe starts", [r"C:\Program Files (x86)\App\x.exe"]),
        ("192.168.0.1:8080 and 10.0.0.0/8", ["192.168.0.1:8080", "10.0.0.0/8"]),
        ("v2.3.1 or v1.0.0-beta.1", ["v2.3.1", "v1.0.0-beta.1"]),
        ("访问example.com或打开src/main.py文件", ["example.com", "src/main.py"]),
        ("{config.yaml} a@b.com https://x.org/a.pdf", ["{config.yaml}", "a@b.com", "https://x.org/a.pdf"]),
    ],
)
def test_addresses_are_found(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in find_placeholders(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "e.g. this, i.e. that, z.B. dies, d.h. das, at 5 p.m. in the U.S.A., Ph.D., a.k.a.",
        "and/or he/she 24/7 km/h his/her/their 1/2 TCP/IP (he)/her/them 12/2024",
        "1.5 12.03.2024 15.000.000.000 3.14.15 1.2.3 v1 v2.0",
        "Mr.Smith said.So it ends.Next sentence.it goes on.is that so.",
        "user.name os.path.join Math.max Yes...no wait..what",
        "a: b \\n c \\ d",
    ],
)
def test_other_words_are_not_addresses(text: str) -> None:
    assert not [*find_placeholders(text)]


@given(st.from_regex(ADDRESS))
def test_the_quick_look_misses_no_address(text: str) -> None:
    assert may_have_addresses(text) or not [*find_addresses(text)]


UNITS = ["a.", "a/", "a.b ", "C:\\", "\\\\", "/a", "./", "a-", "1.", "v1.1.", "C:\\a b c d ", "+a", "a+b/", "a.com/"]
UNITS += ["%a.", "%d ", "%Y-", "%1", "`a ", "`", "--a", "yyyy-", "d.M.", "*|a", "$a", ":a", ":a`", "MMMM ", "'{a"]
UNITS += ["@:a.", "a@b-"]


@pytest.mark.parametrize("unit", UNITS)
def test_long_texts_are_read_in_linear_time(unit: str) -> None:
    """A pattern whose time grows with the square of the length would take minutes."""
    text = unit * 50_000 + " a.pdf {x}"  # with a placeholder of each pattern, so that both are tried at every place
    assert {"a.pdf", "{x}"} <= {text[low:high] for low, high in find_placeholders(text, program=True)}
