"""One seed a test, one thread (many small products are slower on two), and GPU tests only where there is a GPU."""

from __future__ import annotations

import gc
import signal
from importlib.util import find_spec

import pytest
import torch

# The core runs where its extras are not installed; their tests are left out there.
EXTRAS = {
    "fastapi": ["unit/serve", "unit/cli/test_serve.py", "integration/test_serve_page.py"],
    "sentencex": ["unit/text/languages/test_language_codes.py"],
}
collect_ignore = [path for package, paths in EXTRAS.items() if find_spec(package) is None for path in paths]

# A shell that runs this in the background has these ignored, which children would inherit, and tests send them.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (getattr(signal, "SIGHUP", None), signal.SIG_DFL)):
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# `torch.manual_seed` keeps the seed for devices that are not initialized, each with a formatted stack: milliseconds
# below pytest, for every test and every step of training. A machine without these devices needs none of it.
for backend in (torch.cuda, torch.xpu, torch.mtia):
    if not backend.is_available():
        backend.manual_seed_all = lambda seed: None

gc.disable()  # while modules are imported and tests collected: none of that is garbage


def pytest_collection_finish() -> None:
    gc.freeze()  # or each full collection during the tests would walk all of it
    gc.enable()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # its recurrent layers would round float32 where others do not


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU, and the GPU where there is one."""
    return torch.device(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
