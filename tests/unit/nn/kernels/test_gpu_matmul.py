from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from dragoman.native.algorithm_file import AlgorithmFile
from dragoman.native.cublas import CublasLt, MatmulProblem
from dragoman.nn.kernels import gpu_matmul
from dragoman.nn.kernels.gpu_matmul import fastest, matmul, tuning

sys.path.append(str(Path(__file__).parents[2] / "native"))
from host_cublas import number, on_the_host

PROBLEM = MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16")
OTHER = MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16", relu=True)


class Library:
    """Has four algorithms, of which the third is fastest and the fourth cannot run."""

    def __init__(self) -> None:
        self.all = [bytes([number]) * 64 for number in range(4)]
        self.asked = 0

    def algorithms(self, problem: MatmulProblem, limit: int, device: int) -> list[bytes]:
        self.asked += 1
        return self.all[:limit]

    def supports(self, problem: MatmulProblem, algorithm: bytes, device: int) -> bool:
        return algorithm in self.all

    def run(self, algorithm: bytes) -> bool:
        return algorithm[0] != 3


class Remembered(dict[tuple[str, str], bytes | None]):
    """An `AlgorithmFile` in memory."""

    def get(self, machine: str, problem: str) -> bytes | None:  # type: ignore[override]
        return super().get((machine, problem))

    def add(
        self, machine: str, problem: str, algorithm: bytes | None, accepts: Callable[[bytes], bool]
    ) -> bytes | None:
        self[machine, problem] = algorithm
        return algorithm


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matmul, "_chosen", {})


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> Remembered:
    """An empty cache, and clocks that say which algorithm is fastest."""
    monkeypatch.setattr(gpu_matmul, "_machine", lambda device: f"GPU {device}")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(gpu_matmul, "_milliseconds", lambda run, found: [1.0 - 0.1 * each[0] for each in found])
    return Remembered()


def choose(library: Library, problem: MatmulProblem = PROBLEM, device: int = 0) -> bytes | None:
    return gpu_matmul._algorithm(library, problem, device, library.run)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "chosen"), [([1.0], 0), ([1.0, 0.99, 0.985], 0), ([1.0, 0.9, 0.7, 0.8], 2), ([0.5, 0.6], 0)]
)
def test_another_algorithm_than_the_guess_must_be_worth_it(times: list[float], chosen: int) -> None:
    assert fastest(times) == chosen


def test_the_fastest_algorithm_is_found_once_and_kept_for_later_runs(cached: Remembered) -> None:
    library = Library()
    assert choose(library) is None and not library.asked
    with tuning(cached):
        assert choose(library) == library.all[2]
    assert choose(library) == library.all[2]
    assert library.asked == 1
    gpu_matmul._chosen.clear()  # as a new process finds it
    with tuning(cached):
        assert choose(library) == library.all[2]
        assert library.asked == 1
        assert choose(library, OTHER) == library.all[2]
    assert library.asked == 2


def test_what_other_runs_found_does_not_change_the_sums_of_one_that_tunes_nothing(cached: Remembered) -> None:
    library = Library()
    cached["GPU 0", str(PROBLEM)] = library.all[1]
    assert choose(library) is None


def test_of_runs_that_begin_together_all_take_what_the_first_found(cached: Remembered, tmp_path: Path) -> None:
    library, first, second = Library(), *(AlgorithmFile(tmp_path / "products.json") for _ in range(2))
    first.add("GPU 0", str(PROBLEM), library.all[1])
    with tuning(second):
        assert choose(library) == library.all[1]
    assert choose(library) == library.all[1] and library.asked == 1


def test_each_gpu_is_tuned(cached: Remembered) -> None:
    library = Library()
    with tuning(cached):
        for device in (0, 1):
            assert choose(library, device=device) == library.all[2]
    for device in (0, 1):
        assert choose(library, device=device) == library.all[2]
    assert library.asked == 2


def test_nothing_is_tuned_while_a_graph_is_recorded(cached: Remembered, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with tuning(cached):
        assert choose(library) is None
    assert not library.asked


def test_an_algorithm_that_the_library_has_no_more_is_sought_again(cached: Remembered) -> None:
    library = Library()
    with tuning(cached):
        choose(library)
        gpu_matmul._chosen.clear()
        library.all = library.all[:2] + library.all[3:]
        assert choose(library) == library.all[1]
    assert cached["GPU 0", str(PROBLEM)] == library.all[1]


def test_where_no_algorithm_runs_pytorch_is_asked_from_then_on(cached: Remembered) -> None:
    library = Library()
    library.run = lambda algorithm: False  # type: ignore[method-assign]
    with tuning(cached):
        for _ in range(2):
            assert choose(library) is None
    assert library.asked == 1


def test_tuning_ends_with_its_block() -> None:
    with pytest.raises(ZeroDivisionError), tuning(Remembered()):
        assert gpu_matmul._tuning
        raise ZeroDivisionError
    assert not gpu_matmul._tuning


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    first, second = tuning(Remembered()), tuning(Remembered())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gpu_matmul._tuning
    second.__exit__(None, None, None)
    assert not gpu_matmul._tuning


def test_problems_that_differ_are_remembered_apart() -> None:
    problems = [PROBLEM, OTHER, MatmulProblem(512, 1024, 512, (True, False), (512, 1024, 512), "bfloat16")]
    problems += [MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 600), "bfloat16")]
    problems += [MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 512), "float16")]
    assert len({str(problem) for problem in problems}) == len(problems)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_what_is_not_for_the_library_is_pytorchs(kind: torch.dtype, device: torch.device) -> None:
    left, right, bias = (torch.randn(*size, dtype=kind, device=device) for size in ((6, 5), (7, 5), (7,)))
    out = torch.empty(6, 7, dtype=kind, device=device)
    with tuning(Remembered()):
        assert torch.equal(matmul(left, right.T), left @ right.T)
        assert matmul(left, right.T, out) is out and torch.equal(out, left @ right.T)
        torch.testing.assert_close(matmul(left, right.T, bias=bias), (left @ right.T + bias).relu())


class OnGpu(Tensor):
    """A tensor of the host that says to be on a GPU."""

    is_cuda = True  # type: ignore[assignment]


@pytest.fixture
def lt(cached: Remembered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CublasLt:
    """The library by the host, for products of any size."""
    made = on_the_host(tmp_path)
    monkeypatch.setattr(gpu_matmul, "cublas_lt", lambda: made)
    monkeypatch.setattr(gpu_matmul, "MIN_MULTIPLICATIONS", 1)
    monkeypatch.setattr(gpu_matmul, "_workspaces", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0x1234))
    return made


def on_gpu(rows: int, columns: int, turned: bool = False, kind: torch.dtype = torch.bfloat16) -> Tensor:
    """A random matrix inside a larger one, at an address that the library can read well."""
    memory = torch.randn(64, 4096).to(kind)
    begin = -memory.data_ptr() % gpu_matmul.MATRIX_ALIGNMENT // memory.element_size()
    lying = memory.flatten()[begin:].as_strided((columns, rows) if turned else (rows, columns), (256, 1))
    return (lying.T if turned else lying).as_subclass(OnGpu)


M, K, N = 6, 11, 9


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_by_the_library(turned: tuple[bool, bool], lt: CublasLt) -> None:
    left, right, bias = on_gpu(M, K, turned[0]), on_gpu(K, N, turned[1]), on_gpu(1, N)[0]
    want = left.double() @ right.double()
    for add in (None, bias):
        out = on_gpu(M, N)
        with tuning(Remembered()):
            assert matmul(left, right, out, add) is out
        exact = want if add is None else (want + bias.double()).relu()
        torch.testing.assert_close(out.double(), exact, atol=1e-2, rtol=1e-2)
    assert number(lt, "made").value == 2 * 4  # three algorithms can be put, and the one that is taken comes last
    (place,) = gpu_matmul._workspaces
    assert place == (None, 0x1234)


def test_what_the_library_is_not_asked_for(lt: CublasLt) -> None:
    left, right, out, bias = on_gpu(M, K), on_gpu(K, N), on_gpu(M, N), on_gpu(1, N)[0]
    assert gpu_matmul._problem(left, right, out, bias) is not None
    line = on_gpu(K, 1).as_strided((1, K), (1, 1)).as_subclass(OnGpu)
    others: dict[str, tuple[Tensor, Tensor, Tensor, Tensor | None]] = {
        "inner sizes": (left, on_gpu(K + 1, N), out, bias),
        "rows of the result": (left, right, on_gpu(M + 1, N), bias),
        "columns of the result": (left, right, on_gpu(M, N - 1), bias),
        "length of the bias": (left, right, out, on_gpu(1, N + 1)[0]),
        "a bias for all": (left, right, out, on_gpu(1, 1)[0]),
        "a bias in a column": (left, right, out, on_gpu(N, 2)[:, 0]),
        "where the bias begins": (left, right, out, on_gpu(1, N + 1)[0, 1:]),
        "kind of the bias": (left, right, out, bias.float()),
        "kind of the result": (left, right, on_gpu(M, N, kind=torch.float16), bias),
        "all kinds": (*(on_gpu(*x.shape, kind=torch.float32) for x in (left, right, out)), None),
        "the bias on the host": (left, right, out, bias.as_subclass(Tensor)),
        "the bias on another device": (left, right, out, bias.to("meta")),
        "a result in columns": (left, right, on_gpu(M, N, True), bias),
        "where the left begins": (on_gpu(M, K + 1)[:, 1:], right, out, bias),
        "no line without holes": (on_gpu(M, K).as_strided((M, K), (2, 256)), right, out, bias),
        "every second column": (on_gpu(M, 2 * K)[:, ::2], right, out, bias),
        "one row for all": (on_gpu(1, K).expand(M, K), right, out, bias),
        "one column for all": (left, on_gpu(K, 1).expand(K, N), out, bias),
        "a row that was a column": (line, right, on_gpu(1, N), None),
    }
    assert [name for name, given in others.items() if gpu_matmul._problem(*given) is not None] == []
    assert gpu_matmul._problem(on_gpu(1, K), right, on_gpu(1, N), None) is not None


@pytest.mark.parametrize(("smallest", "asked"), [(M * K * N, True), (M * K * N + 1, False)])
def test_small_products_are_pytorchs(smallest: int, asked: bool, lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matmul, "MIN_MULTIPLICATIONS", smallest)
    assert (gpu_matmul._problem(on_gpu(M, K), on_gpu(K, N), on_gpu(M, N), None) is not None) == asked


def test_sizes_that_do_not_fit_are_pytorchs_error(lt: CublasLt) -> None:
    with tuning(Remembered()), pytest.raises(RuntimeError, match="cannot be multiplied"):
        matmul(on_gpu(M, K + 1), on_gpu(K, N), on_gpu(M, N))
    assert not number(lt, "made").value


def test_another_gpu_than_the_current_one_is_pytorchs(lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, out = on_gpu(M, K), on_gpu(K, N), on_gpu(M, N)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with tuning(Remembered()):
        assert torch.equal(matmul(left, right, out), torch.mm(left, right))
    assert not number(lt, "made").value


def test_the_library_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_PRODUCTS", "0")
    gpu_matmul.cublas_lt.cache_clear()
    assert gpu_matmul.cublas_lt() is None
    gpu_matmul.cublas_lt.cache_clear()


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """On a GPU, a file of algorithms that is empty."""
    return tmp_path / "products.json"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_layouts(turned: tuple[bool, bool], kind: torch.dtype, fresh: Path) -> None:
    m, k, n = 1024, 512, 768
    left, right, bias = (torch.randn(*size, device="cuda").to(kind) for size in ((m, k), (k, n), (n,)))
    want = left.float() @ right.float()
    left, right = (x.T.contiguous().T if turn else x for x, turn in zip((left, right), turned, strict=True))
    with tuning(AlgorithmFile(fresh)):
        plain, cut = matmul(left, right), matmul(left, right, bias=bias)
    bound = 1e-2 if kind == torch.bfloat16 else 1e-3
    assert float((plain.float() - want).norm() / want.norm()) < bound
    want = (want + bias.float()).relu()
    assert float((cut.float() - want).norm() / want.norm()) < bound
    (kept,) = json.loads(fresh.read_text()).values()
    assert len(kept) == 2 and all(len(algorithm) == 128 for algorithm in kept.values())
    assert torch.equal(matmul(left, right), plain) and torch.equal(matmul(left, right, bias=bias), cut)
    gpu_matmul._chosen.clear()  # as a later run finds it
    before = fresh.stat().st_mtime_ns
    with tuning(AlgorithmFile(fresh)):
        assert torch.equal(matmul(left, right), plain) and torch.equal(matmul(left, right, bias=bias), cut)
    assert fresh.stat().st_mtime_ns == before


@pytest.mark.gpu
def test_every_algorithm_that_is_timed_makes_the_product(fresh: Path) -> None:
    lt = gpu_matmul.cublas_lt()
    assert lt is not None
    left, right = (torch.randn(*size, device="cuda").bfloat16() for size in ((2048, 1024), (1024, 512)))
    out, want = torch.empty(2048, 512, device="cuda").bfloat16(), left.float() @ right.float()
    problem = gpu_matmul._problem(left, right, out, None)
    assert problem is not None
    algorithms = lt.algorithms(problem, 8, 0)
    assert len(algorithms) > 1
    for algorithm in algorithms:
        assert lt.supports(problem, algorithm, 0)
        out.fill_(torch.nan)
        assert gpu_matmul._run(lt, problem, algorithm, left, right, out, None)
        assert float((out.float() - want).norm() / want.norm()) < 1e-2
    assert not lt.supports(problem, b"\xff" * 64, 0) and not lt.supports(problem, b"short", 0)


@pytest.mark.gpu
def test_parts_of_larger_matrices_and_places_between(fresh: Path) -> None:
    whole = torch.randn(4096, 1024, device="cuda").bfloat16()
    right = torch.randn(512, 512, device="cuda").bfloat16()
    out = torch.zeros(4096, 512, device="cuda").bfloat16()
    with tuning(AlgorithmFile(fresh)):
        for left in (whole[1024:3072, 256:768], whole[1:2049, 3:515]):  # the second begins where it should not
            made = matmul(left, right, out[1024:3072])
            want = left.float() @ right.float()
            assert float((made.float() - want).norm() / want.norm()) < 1e-2
            assert not out[:1024].any() and not out[3072:].any()


@pytest.mark.gpu
def test_a_recorded_product_takes_the_algorithm_that_is_known(fresh: Path) -> None:
    left, right = (torch.randn(1024, 1024, device="cuda").bfloat16() for _ in range(2))
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), tuning(AlgorithmFile(fresh)):
        want = matmul(left, right)
    with torch.cuda.graph(graph, stream=stream):
        made = matmul(left, right)
        unknown = matmul(left[:512], right)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(made, want)
    assert float((unknown.float() - want[:512].float()).norm() / want[:512].float().norm()) < 1e-2
    (kept,) = json.loads(fresh.read_text()).values()
    assert len(kept) == 1
