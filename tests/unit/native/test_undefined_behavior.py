"""The C engine under UBSan, the compiler's check for undefined behavior, with weights of all kinds."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.native import build

SANITIZE = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")
EXPONENTIAL = """
#include "kernels/vectors.h"
#include <stdio.h>
int main(void) {
    float x[16];
    for (int i = 0; i < 16; i++) x[i] = -1e7f * i;
    volatile Bytes bytes = bytes_of(x, 1.26f); /* sums near 0, whose bits are far from those of whole numbers */
    (void)bytes;
    for (float v; scanf("%f", &v) == 1;) printf("%.9g\\n", (double)exp_of(splat(v))[LANES - 1]);
}
"""


def compiled(folder: Path, name: str, *words: str) -> Path:
    """What the C compiler makes with the sanitizer."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built = folder / name
    done = subprocess.run(
        ["cc", *words, *SANITIZE, "-o", str(built), "-lm"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no sanitizer here: {done.stderr[:200]}")
    return built


@pytest.mark.parametrize("target", build.TARGETS, ids=lambda flags: " ".join(flags) or "plain")
def test_the_exponential_is_defined_everywhere(tmp_path: Path, target: tuple[str, ...]) -> None:
    (tmp_path / "exponential.c").write_text(EXPONENTIAL)
    folder = build.HERE / "translate"
    words = [*target, "-std=gnu11", f"-I{folder}", str(tmp_path / "exponential.c")]
    program = compiled(tmp_path, "exponential", *words)
    usual = [*range(-87, 89), 0.25, -0.75, 87.75]  # exact in float32
    absurd = [88.5, 89, 100, 1e3, 1e6, 1.7e7, 1e10, 1e30, 3e38, math.inf, -math.inf, math.nan]
    given = " ".join(map(str, [*usual, *absurd]))
    done = subprocess.run([str(program)], input=given, capture_output=True, text=True, check=False)
    if done.returncode == -4:  # SIGILL
        pytest.skip("this processor announces instructions that it does not have")
    assert done.returncode == 0, done.stderr
    found = [float(word) for word in done.stdout.split()]
    assert len(found) == len(usual) + len(absurd)
    assert found[: len(usual)] == pytest.approx([math.exp(x) for x in usual], rel=3e-7)


@pytest.mark.slow
def test_no_weights_are_undefined_behavior(tmp_path: Path) -> None:
    sources = map(str, (build.HERE / "translate").rglob("*.c"))
    library = compiled(tmp_path, "translate.so", *build.COMMON, *build.TARGETS[-1], *sources)
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, str(here / "absurd_models.py"), str(library), str(tmp_path)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "runtime error" not in done.stderr
