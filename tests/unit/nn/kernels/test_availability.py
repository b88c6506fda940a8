from __future__ import annotations

import pytest
import torch

from dragoman.nn import kernels


@pytest.mark.parametrize(("hip", "interpreted", "cuda", "cpu"), [
    (None, False, True, False),
    (None, True, True, True),
    ("7.0", False, False, False),
])  # fmt: skip
def test_on_nvidias_gpus_or_in_the_interpreter(
    hip: str | None, interpreted: bool, cuda: bool, cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "HAS_TRITON", True)
    monkeypatch.setattr(kernels, "INTERPRETED", interpreted)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert (kernels.triton_available("cuda"), kernels.triton_available("cpu")) == (cuda, cpu)
    monkeypatch.setattr(kernels, "HAS_TRITON", False)
    assert not kernels.triton_available("cuda") and not kernels.triton_available("cpu")
