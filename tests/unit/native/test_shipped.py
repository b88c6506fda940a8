"""The library of a wheel: every variant under its own prefix, and the best one that works is chosen."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.native import build, shipped, variants
from dragoman.native.variants import Variant

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
PACKAGING = Path(__file__).parents[3] / "packaging"
GOOD = """
int toy_best_self_test(void) { return BEST_TEST; }
int toy_best_answer(void) { return 1; }
int toy_portable_self_test(void) { return 0; }
int toy_portable_answer(void) { return 2; }
int processor_portable_supports(const char *name) { return name[0] != 'x'; }
"""
TOY = (Variant("xnot_here"), Variant("best", tiles=True), Variant("portable"))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the shipped library is looked for; three variants of the library `toy` are known."""
    monkeypatch.setattr(shipped, "LIBRARY", tmp_path / "dragoman_native.so")
    monkeypatch.setitem(variants.BEST_FIRST, ("toy", variants.machine()), TOY)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    for name in ("DRAGOMAN_NATIVE", variants.FORCE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(build, "_reasons", {})
    return tmp_path / "dragoman_native.so"


def write(library: Path, best_test: str = "0") -> None:
    source = library.with_suffix(".c")
    source.write_text(GOOD.replace("BEST_TEST", best_test))
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    build.library.cache_clear()
    shipped._key.cache_clear()


def answer(tiles: bool = True) -> int | None:
    build.library.cache_clear()
    code = build.library("toy", tiles=tiles)
    return None if code is None else code.answer()


@needs_compiler
def test_the_best_variant_that_the_processor_supports_is_taken(toy: Path) -> None:
    write(toy)
    assert (answer(), answer(tiles=False)) == (1, 2)


@needs_compiler
@pytest.mark.parametrize("best_test", ["1", "(__builtin_trap(), 0)"])
def test_a_variant_that_fails_or_dies_in_its_own_test_gives_way_to_the_next(
    toy: Path, best_test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(toy, best_test)
    assert answer() == 2
    monkeypatch.setattr(shipped, "_passes_self_test", lambda _: pytest.fail("tested twice"))
    assert answer() == 2  # the result is kept
    assert sorted(path.name.split("-")[1] for path in (toy.parent / "cache").iterdir()) == ["best", "portable"]


@needs_compiler
def test_another_file_is_tested_again(toy: Path) -> None:
    write(toy, "1")
    assert answer() == 2
    write(toy, "0 ")
    assert answer() == 1


@needs_compiler
def test_without_a_usable_cache_or_a_child_process_it_still_works(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(toy)
    (toy.parent / "file").write_text("")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(toy.parent / "file/below"))
    assert answer() == 1
    monkeypatch.setattr(sys, "executable", "")
    assert answer() == 1


@needs_compiler
def test_a_variant_can_be_forced(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(toy)
    monkeypatch.setattr(variants, "known_instructions", lambda: [variant.name for variant in TOY])
    for name, expected in (("portable", 2), ("best", 1), ("xnot_here", None), ("nonsense", None)):
        monkeypatch.setenv(variants.FORCE, name)
        assert answer() == expected
        assert expected or name in str(build.why_not("toy"))


@needs_compiler
def test_it_is_never_compiled_here_and_can_be_turned_off(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(toy)
    monkeypatch.setattr(build, "_find_or_build", lambda *_: pytest.fail("compiled"))
    assert answer() == 1
    monkeypatch.setenv("DRAGOMAN_NATIVE", "0")
    assert answer() is None


def test_a_file_that_is_no_library_is_explained(toy: Path) -> None:
    toy.write_bytes(b"no library")
    assert answer() is None
    assert toy.name in str(build.why_not("toy"))


@needs_compiler
def test_structures_are_compared_in_a_shipped_library_too(toy: Path) -> None:
    fields = [("rows", ctypes.c_int)]
    layout = "#include <stddef.h>\ntypedef struct { const char *name; size_t offset, size; } Layout;\n"
    rows = '{"Grid", 0, 4}, {"Grid.rows", 0, 4}, {NULL, 0, 0}'
    toy.with_suffix(".c").write_text(
        layout + GOOD.replace("BEST_TEST", "0") + f"const Layout toy_best_structure_layouts[] = {{{rows}}};\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", str(toy.with_suffix(".c")), "-o", str(toy)], check=True)
    shipped._key.cache_clear()
    for given, found in ((fields, True), ([("rows", ctypes.c_double)], False)):
        build.library.cache_clear()
        grid = type("Grid", (ctypes.Structure,), {"_fields_": given})
        assert (build.library("toy", structures=(grid,)) is not None) == found


def packaging() -> ModuleType:
    path = PACKAGING / "shared_library.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["processor", "subword_sampling", "word_alignment", "translate", "gemm"])
def test_every_function_that_files_share_gets_the_prefix_of_its_variant(name: str) -> None:
    """What is missed would be defined twice when variants are linked together."""
    local = r"static|ALWAYS|WITH_\w+|typedef|struct|enum|union|__attribute__\(\(constructor"
    definition = re.compile(rf"^(?!{local})[A-Za-z][\w\s*]*?(\w+)\([^;{{}}]*\) \{{", re.MULTILINE)
    sources = [source.read_text(encoding="utf-8") for source in (build.HERE / name).rglob("*.c")]
    defined = {each for source in sources for each in definition.findall(source)}
    assert defined and defined <= set(packaging().shared_names(build.HERE / name))
