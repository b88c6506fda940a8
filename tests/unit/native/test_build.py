"""Building the C libraries on first use: cached, self-tested, and optional."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.native import build, variants

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
GOOD = "EXPORT int self_test(void) { return 0; }\nEXPORT int twice(int x) { return 2 * x; }\n"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("DRAGOMAN_NATIVE", raising=False)
    build.library.cache_clear()
    yield tmp_path
    build.library.cache_clear()
    build._reasons.clear()


def write(folder: Path, name: str, source: str) -> None:
    """The library `name`, of one source."""
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{name}.c").write_text(source)


@needs_compiler
def test_built_once_and_kept(sources: Path) -> None:
    write(sources, "good", GOOD)
    made = build.library("good")
    assert made is not None and made.twice(21) == 42
    (kept,) = (sources / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    build.library.cache_clear()
    again = build.library("good")
    assert again is not None and kept.stat().st_mtime_ns == before


@needs_compiler
def test_another_source_is_another_library(sources: Path) -> None:
    write(sources, "good", GOOD)
    build.library("good")
    build.library.cache_clear()
    write(sources, "good", GOOD.replace("2 * x", "3 * x"))
    made = build.library("good")
    assert made is not None and made.twice(21) == 63
    assert len(list((sources / "cache").iterdir())) == 2


@needs_compiler
def test_a_library_is_built_again_for_every_file_of_its_folder_and_for_no_other(sources: Path) -> None:
    write(sources, "good", f'#include "deep/far.h"\n{GOOD.replace("2 * x", "FAR * x + near()")}')
    (sources / "good/deep").mkdir()
    (sources / "good/deep/far.h").write_text("#define FAR 5\nint near(void);\n")
    (sources / "good/deep/near.c").write_text('#include "far.h"\nint near(void) { return 1; }\n')
    write(sources, "other", GOOD)

    def built() -> tuple[int, set[str]]:
        build.library.cache_clear()
        made = build.library("good")
        assert made is not None and build.library("other") is not None
        return made.twice(2), {path.name for path in (sources / "cache").iterdir()}

    twice, before = built()
    assert twice == 11
    (sources / "foreign.h").write_text("#error never read\n")
    assert built() == (11, before)
    for name, old, new, expected in (("far.h", "5", "6", 13), ("near.c", "1", "3", 15)):
        file = sources / "good/deep" / name
        file.write_text(file.read_text().replace(old, new))
        twice, after = built()
        (added,) = after - before
        assert twice == expected and added.startswith("good-")
        before = after


@pytest.mark.parametrize("name", ["gemm", "subword_sampling", "translate"])
def test_each_source_of_our_libraries_stands_alone_and_reads_only_its_folder(name: str) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = build.HERE / name
    for source in folder.rglob("*.c"):
        words = ["cc", build.EXPORT, "-std=gnu11", "-MM", *build.TARGETS[0], str(source)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine cannot compile {source.name}: {done.stderr[:200]}")
        read = [Path(word).resolve() for word in done.stdout.replace("\\\n", " ").split()[1:]]
        assert all(path.is_relative_to(folder) for path in read)


SHAPE = """
#include <stddef.h>
typedef struct { int rows; double scale; } Grid;
typedef struct { const char *name; size_t offset, size; } Layout;
EXPORT const Layout structure_layouts[] = {
    {"Grid", 0, sizeof(Grid)}, {"Grid.rows", 0, 4}, {"Grid.scale", offsetof(Grid, scale), 8}, {NULL, 0, 0}};
"""
RIGHT = [("rows", ctypes.c_int), ("scale", ctypes.c_double)]
WRONG = {
    "order": ([RIGHT[1], RIGHT[0]], "Grid.scale"),
    "type": ([RIGHT[0], ("scale", ctypes.c_float)], "Grid "),
    "name": ([RIGHT[0], ("factor", ctypes.c_double)], "Grid.factor"),
    "missing field": ([("rows", ctypes.c_int), ("filling", ctypes.c_int), ("scale", ctypes.c_double)], "Grid.filling"),
}


@needs_compiler
@pytest.mark.parametrize("wrong", WRONG)
def test_a_structure_that_python_lays_out_otherwise_makes_the_library_unusable(sources: Path, wrong: str) -> None:
    write(sources, "good", SHAPE + GOOD)
    assert build.library("good", structures=(type("Grid", (ctypes.Structure,), {"_fields_": RIGHT}),)) is not None
    fields, mention = WRONG[wrong]
    assert build.library("good", structures=(type("Grid", (ctypes.Structure,), {"_fields_": fields}),)) is None
    assert mention in str(build.why_not("good")) and "reinstall" in str(build.why_not("good"))


@needs_compiler
def test_a_library_that_reports_no_structures_has_none(sources: Path) -> None:
    write(sources, "good", GOOD)
    assert build.library("good", structures=(type("Grid", (ctypes.Structure,), {"_fields_": RIGHT}),)) is None
    assert "Grid" in str(build.why_not("good"))


@needs_compiler
@pytest.mark.parametrize("body", ["return 1;", "__builtin_trap();"])
def test_what_fails_or_dies_in_its_own_test_is_not_loaded(sources: Path, body: str) -> None:
    write(sources, "bad", f"EXPORT int self_test(void) {{ {body} }}\n")
    assert build.library("bad") is None
    assert "self-test" in str(build.why_not("bad"))
    assert [path.suffix for path in (sources / "cache").iterdir()] == [".failed"]


@needs_compiler
def test_what_failed_is_not_tried_again_that_day(sources: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(sources, "bad", "EXPORT int self_test(void) { return 1; }\n")
    build.library("bad")
    caplog.clear()
    build.library.cache_clear()
    build._reasons.clear()
    assert build.library("bad") is None
    assert caplog.text == "" and "self-test" in str(build.why_not("bad"))
    (failed,) = (sources / "cache").iterdir()
    two_days_ago = failed.stat().st_mtime - 2 * 24 * 3600
    os.utime(failed, (two_days_ago, two_days_ago))
    build.library.cache_clear()
    assert build.library("bad") is None and "library bad" in caplog.text


@needs_compiler
@pytest.mark.parametrize("which", ["directory", "file"])
def test_code_that_others_could_have_written_is_not_loaded(sources: Path, which: str) -> None:
    write(sources, "good", GOOD)
    assert build.library("good") is not None
    cached = sources / "cache"
    (cached if which == "directory" else next(cached.iterdir())).chmod(0o777)
    build.library.cache_clear()
    assert build.library("good") is None
    assert "writable by others" in str(build.why_not("good")) and "DRAGOMAN_CACHE" in str(build.why_not("good"))


@needs_compiler
def test_a_link_is_not_loaded(sources: Path) -> None:
    write(sources, "good", GOOD)
    assert build.library("good") is not None
    (kept,) = (sources / "cache").iterdir()
    kept.rename(sources / "elsewhere")
    kept.symlink_to(sources / "elsewhere")
    build.library.cache_clear()
    assert build.library("good") is None and str(kept) in str(build.why_not("good"))


@needs_compiler
def test_a_library_for_which_there_is_no_memory_is_kept(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> None:
        raise OSError("good.so: failed to map segment from shared object")

    write(sources, "good", GOOD)
    assert build.library("good") is not None
    build.library.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(build.ctypes, "CDLL", refused)
        assert build.library("good") is None and "map segment" in str(build.why_not("good"))
    (kept,) = (sources / "cache").iterdir()
    assert kept.suffix == ".so"


@needs_compiler
@pytest.mark.parametrize("content", [b"", b"no library"])
def test_a_damaged_library_is_built_again(sources: Path, content: bytes) -> None:
    write(sources, "good", GOOD)
    assert build.library("good") is not None
    (kept,) = (sources / "cache").iterdir()
    # a new file: what is loaded already stays as it is
    kept.unlink()
    kept.write_bytes(content)
    kept.chmod(0o700)
    lives = []
    for _ in range(2):
        build.library.cache_clear()
        lives.append(build.library("good"))
    assert lives[1] is not None and lives[1].twice(4) == 8


@needs_compiler
def test_a_flipped_or_truncated_library_is_never_loaded_but_built_again(
    sources: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(sources, "good", GOOD)
    build.library("good")
    (kept,) = (sources / "cache").iterdir()
    whole = kept.read_bytes()
    damaged = [whole[:length] for length in (31, 32, 4096, len(whole) // 2, len(whole) - 1)]
    for place in range(0, len(whole), len(whole) // 7):  # header, code, tables, digest
        damaged.append(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
    for content in damaged:
        kept.write_bytes(content)
        caplog.clear()
        build.library.cache_clear()
        made = build.library("good")
        assert made is not None and made.twice(21) == 42
        assert "library good" in caplog.text and kept.read_bytes() == whole


@needs_compiler
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_library_in_use_survives_what_happens_to_its_file(
    sources: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_memory:
        monkeypatch.setattr(build.sys, "platform", "a system without memfd")
    write(sources, "good", GOOD)
    build.library("good")
    build.library.cache_clear()
    made = build.library("good")
    (kept,) = (sources / "cache").iterdir()
    os.truncate(kept, 0)  # the pages of a mapped file would be gone: SIGBUS
    assert made is not None and made.twice(21) == 42


@needs_compiler
def test_libraries_do_not_take_each_others_place(sources: Path) -> None:
    write(sources, "good", GOOD)
    write(sources, "other", GOOD.replace("2 * x", "3 * x"))
    made, other = build.library("good"), build.library("other")
    assert made is not None and other is not None and (made.twice(2), other.twice(2)) == (4, 6)


@needs_compiler
def test_an_empty_cc_is_the_usual_compiler(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sources, "good", GOOD)
    monkeypatch.setenv("CC", "")
    assert build.library("good") is not None


@needs_compiler
def test_only_the_flags_that_work_are_kept(sources: Path) -> None:
    write(
        sources,
        "picky",
        "EXPORT int self_test(void) {\n#ifdef PLAIN\nreturn 0;\n#else\nreturn 1;\n#endif\n}\n"
        "EXPORT int plain(void) { return 7; }\n",
    )
    build.library.cache_clear()
    assert build.library("picky") is None
    made = build.library("picky", "-DPLAIN")
    assert made is not None and made.plain() == 7


@needs_compiler
def test_a_compile_error_is_told(sources: Path) -> None:
    write(sources, "wrong", "EXPORT int self_test(void) { return nonsense; }\n")
    assert build.library("wrong") is None
    (line,) = str(build.why_not("wrong")).splitlines()
    assert "nonsense" in line and "could not compile wrong:" in line
    write(sources, "good", GOOD)
    assert build.library("good", "-lno-such-library") is None and "no-such-library" in str(build.why_not("good"))


@needs_compiler
def test_the_reason_is_that_of_the_best_flags(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TARGETS", (("-DBEST",), ()))
    write(sources, "wrong", "#ifdef BEST\n#error the best\n#else\n#error a lesser\n#endif\n")
    assert build.library("wrong", "-DOTHER") is None
    assert "the best" in str(build.why_not("wrong")) and "wrong with -DOTHER" in str(build.why_not("wrong"))
    build.library.cache_clear()
    (failed,) = (sources / "cache").iterdir()
    assert build.library("wrong", "-DOTHER") is None and f"remove {failed}" in str(build.why_not("wrong"))


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="this flag is for x86-64")
def test_a_processor_without_bfloat16_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_reasons", {})
    assert build.library("gemm", "-mno-avx512bf16") is None
    (line,) = str(build.why_not("gemm")).splitlines()
    assert "this processor has n" in line and "bfloat16" in line


def test_a_system_without_cpuinfo_names_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "open", nowhere)
    assert platform.machine().encode() in variants.processor_features()


def test_no_compiler(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build.library("good") is None
    assert "no-such-compiler" in str(build.why_not("good"))


def test_turned_off(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", "0")
    assert build.library("good") is None
    assert "DRAGOMAN_NATIVE" in str(build.why_not("good"))


@needs_compiler
def test_a_cache_that_cannot_be_written(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sources, "good", GOOD)
    (sources / "file").write_text("")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(sources / "file" / "below"))
    assert build.library("good") is None
    assert "DRAGOMAN_CACHE" in str(build.why_not("good"))


@needs_compiler
def test_the_wait_is_explained_once(sources: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(sources, "good", GOOD)
    build.library("good")
    assert "library good" in caplog.text
    caplog.clear()
    build.library.cache_clear()
    build.library("good")
    assert caplog.text == ""
