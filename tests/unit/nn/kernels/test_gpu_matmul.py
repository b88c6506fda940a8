from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from dragoman.native.cublas import CublasLt, Form
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.nn.kernels.gpu_matmul import Ways, fastest, multiply, trying

sys.path.append(str(Path(__file__).parents[2] / "native"))
from host_cublas import number, on_the_host

FORM = Form(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16")
OTHER = Form(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16", relu=True)

DEEP = ["[" * 100_000, '{"b": ' + "[" * 600 + "]" * 600 + "}", '{"a GPU": {"x": ' + "[" * 600 + "]" * 600 + "}}"]


class Library:
    """Knows four ways, of which the third is fastest and the fourth cannot be taken."""

    def __init__(self) -> None:
        self.all = [bytes([number]) * 64 for number in range(4)]
        self.asked = 0

    def ways(self, form: Form, most: int, device: int) -> list[bytes]:
        self.asked += 1
        return self.all[:most]

    def knows(self, form: Form, way: bytes, device: int) -> bool:
        return way in self.all

    def put(self, way: bytes) -> bool:
        return way[0] != 3


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ways are kept, with nothing known yet, and clocks that say which is fastest."""
    path = tmp_path / "cache" / "products.json"
    again(path, monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(products, "_seconds", lambda put, ways: [1.0 - 0.1 * way[0] for way in ways])
    return path


def again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process finds it."""
    ways = Ways(path, "a GPU")
    monkeypatch.setattr(products, "_ways", lambda device: ways)
    monkeypatch.setattr(products, "_tried", set())


@pytest.mark.parametrize(
    ("times", "chosen"), [([1.0], 0), ([1.0, 0.99, 0.985], 0), ([1.0, 0.9, 0.7, 0.8], 2), ([0.5, 0.6], 0)]
)
def test_another_way_than_the_guess_must_be_worth_it(times: list[float], chosen: int) -> None:
    assert fastest(times) == chosen


def test_the_fastest_way_is_found_once_and_kept_for_later_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    assert products._way(library, FORM, 0, library.put) is None and not library.asked  # type: ignore[arg-type]
    with trying():
        assert products._way(library, FORM, 0, library.put) == library.all[2]  # type: ignore[arg-type]
    assert products._way(library, FORM, 0, library.put) == library.all[2]  # type: ignore[arg-type]
    assert library.asked == 1
    again(place, monkeypatch)
    with trying():
        assert products._way(library, FORM, 0, library.put) == library.all[2]  # type: ignore[arg-type]
        assert library.asked == 1
        assert products._way(library, OTHER, 0, library.put) == library.all[2]  # type: ignore[arg-type]
    assert library.asked == 2


def test_what_other_runs_found_does_not_change_the_sums_of_one_that_tries_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    Ways(place, "a GPU").remember(FORM, library.all[1])
    again(place, monkeypatch)
    assert products._way(library, FORM, 0, library.put) is None  # type: ignore[arg-type]


def test_each_gpu_is_tried(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, ways = Library(), [Ways(place, name) for name in ("a GPU", "another GPU")]
    monkeypatch.setattr(products, "_ways", ways.__getitem__)
    with trying():
        for device in (0, 1):
            assert products._way(library, FORM, device, library.put) == library.all[2]  # type: ignore[arg-type]
    for device in (0, 1):
        assert products._way(library, FORM, device, library.put) == library.all[2]  # type: ignore[arg-type]
    assert library.asked == 2


def test_nothing_is_tried_while_a_graph_is_recorded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with trying():
        assert products._way(library, FORM, 0, library.put) is None  # type: ignore[arg-type]
    assert not library.asked


def test_a_way_that_the_library_has_no_more_is_sought_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    with trying():
        products._way(library, FORM, 0, library.put)  # type: ignore[arg-type]
        again(place, monkeypatch)
        library.all = library.all[:2] + library.all[3:]
        assert products._way(library, FORM, 0, library.put) == library.all[1]  # type: ignore[arg-type]
    assert json.loads(place.read_text())["a GPU"][str(FORM)] == library.all[1].hex()


def test_where_no_way_can_be_taken_pytorch_is_asked_from_then_on(place: Path) -> None:
    library = Library()
    with trying():
        for _ in range(2):
            assert products._way(library, FORM, 0, lambda way: False) is None  # type: ignore[arg-type]
    assert library.asked == 1
    assert json.loads(place.read_text()) == {"a GPU": {}}


def test_other_machines_and_other_runs_lose_nothing(place: Path) -> None:
    theirs = Ways(place, "another GPU")
    theirs.remember(FORM, b"\1" * 64)
    first, second = Ways(place, "a GPU"), Ways(place, "a GPU")
    first.remember(FORM, b"\2" * 64)
    second.remember(OTHER, b"\3" * 64)
    assert Ways(place, "another GPU").known == {str(FORM): b"\1" * 64}
    assert Ways(place, "a GPU").known == {str(FORM): b"\2" * 64, str(OTHER): b"\3" * 64}
    assert {file.name for file in place.parent.iterdir()} == {place.name, "products.lock"}


def test_of_runs_that_begin_together_all_take_what_the_first_found(place: Path) -> None:
    first, second, third = (Ways(place, "a GPU") for _ in range(3))
    assert first.remember(FORM, b"\1" * 64) == b"\1" * 64
    assert second.remember(FORM, b"\2" * 64) == second.known[str(FORM)] == b"\1" * 64
    assert Ways(place, "a GPU").known == {str(FORM): b"\1" * 64}
    assert third.remember(FORM, b"\3" * 64, lambda way: False) == b"\3" * 64  # the library does not take theirs
    assert Ways(place, "a GPU").known == {str(FORM): b"\3" * 64}
    first.remember(OTHER, b"\4" * 64)  # which has a way in mind that is no longer the one that is kept
    assert Ways(place, "a GPU").known == {str(FORM): b"\3" * 64, str(OTHER): b"\4" * 64}


def many(place: Path, first: int) -> None:
    ways = Ways(place, "a GPU")
    for m in range(first, first + 25):
        ways.remember(Form(m, 1, 1, (False, False), (m, 1, m), "bfloat16"), b"\1" * 64)


def test_processes_that_write_at_once_lose_nothing(place: Path) -> None:
    begun = [multiprocessing.get_context("fork").Process(target=many, args=(place, 100 * n)) for n in range(1, 5)]
    for process in begun:
        process.start()
    for process in begun:
        process.join()
    assert all(process.exitcode == 0 for process in begun)
    assert len(Ways(place, "a GPU").known) == 100


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a GPU": 3}', '{"a GPU": {"x": 3, "y": "zz"}}', "\0", '{"a GPU": {"x": "\\u00e9"}}', *DEEP],
    ids=range(10),
)
def test_a_damaged_file_is_as_good_as_none(place: Path, text: str) -> None:
    place.parent.mkdir()
    place.write_text(text, encoding="utf-8")
    ways = Ways(place, "a GPU")
    assert ways.known == {}
    ways.remember(FORM, b"\1" * 64)
    assert Ways(place, "a GPU").known == {str(FORM): b"\1" * 64}


def test_a_place_that_cannot_be_written_to_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ways = Ways(tmp_path / "file" / "products.json", "a GPU")
    ways.remember(FORM, b"\1" * 64)
    assert ways.known == {str(FORM): b"\1" * 64}


def test_trying_ends_with_its_block() -> None:
    with pytest.raises(ZeroDivisionError), trying():
        assert products._trying
        raise ZeroDivisionError
    assert not products._trying


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    first, second = trying(), trying()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert products._trying
    second.__exit__(None, None, None)
    assert not products._trying


def test_forms_that_differ_are_remembered_apart() -> None:
    forms = [FORM, OTHER, Form(512, 1024, 512, (True, False), (512, 1024, 512), "bfloat16")]
    forms += [Form(512, 1024, 512, (False, True), (512, 1024, 600), "bfloat16")]
    forms += [Form(512, 1024, 512, (False, True), (512, 1024, 512), "float16")]
    assert len({str(form) for form in forms}) == len(forms)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_what_is_not_for_the_library_is_pytorchs(kind: torch.dtype, device: torch.device) -> None:
    left, right, bias = (torch.randn(*size, dtype=kind, device=device) for size in ((6, 5), (7, 5), (7,)))
    out = torch.empty(6, 7, dtype=kind, device=device)
    with trying():
        assert torch.equal(multiply(left, right.T), left @ right.T)
        assert multiply(left, right.T, out) is out and torch.equal(out, left @ right.T)
        torch.testing.assert_close(multiply(left, right.T, bias=bias), (left @ right.T + bias).relu())


class OnGpu(Tensor):
    """A tensor of the host that says to be on a GPU."""

    is_cuda = True  # type: ignore[assignment]


@pytest.fixture
def lt(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CublasLt:
    """The library by the host, for products of any size."""
    made = on_the_host(tmp_path)
    monkeypatch.setattr(products, "library", lambda: made)
    monkeypatch.setattr(products, "SMALLEST", 1)
    monkeypatch.setattr(products, "_workspaces", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0x1234))
    return made


def on_gpu(rows: int, columns: int, turned: bool = False, kind: torch.dtype = torch.bfloat16) -> Tensor:
    """A random matrix inside a larger one, at an address that the library can read well."""
    memory = torch.randn(64, 4096).to(kind)
    begin = -memory.data_ptr() % products.ALIGNED // memory.element_size()
    lying = memory.flatten()[begin:].as_strided((columns, rows) if turned else (rows, columns), (256, 1))
    return (lying.T if turned else lying).as_subclass(OnGpu)


M, K, N = 6, 11, 9


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_by_the_library(turned: tuple[bool, bool], lt: CublasLt) -> None:
    left, right, bias = on_gpu(M, K, turned[0]), on_gpu(K, N, turned[1]), on_gpu(1, N)[0]
    want = left.double() @ right.double()
    for add in (None, bias):
        out = on_gpu(M, N)
        with trying():
            assert multiply(left, right, out, add) is out
        exact = want if add is None else (want + bias.double()).relu()
        torch.testing.assert_close(out.double(), exact, atol=1e-2, rtol=1e-2)
    assert number(lt, "made").value == 2 * 4  # three ways can be put, and the one that is taken comes last
    (place,) = products._workspaces
    assert place == (None, 0x1234)


def test_what_the_library_is_not_asked_for(lt: CublasLt) -> None:
    left, right, out, bias = on_gpu(M, K), on_gpu(K, N), on_gpu(M, N), on_gpu(1, N)[0]
    assert products._form(left, right, out, bias) is not None
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
    assert [name for name, given in others.items() if products._form(*given) is not None] == []
    assert products._form(on_gpu(1, K), right, on_gpu(1, N), None) is not None


@pytest.mark.parametrize(("smallest", "asked"), [(M * K * N, True), (M * K * N + 1, False)])
def test_small_products_are_pytorchs(smallest: int, asked: bool, lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALLEST", smallest)
    assert (products._form(on_gpu(M, K), on_gpu(K, N), on_gpu(M, N), None) is not None) == asked


def test_sizes_that_do_not_fit_are_pytorchs_error(lt: CublasLt) -> None:
    with trying(), pytest.raises(RuntimeError, match="cannot be multiplied"):
        multiply(on_gpu(M, K + 1), on_gpu(K, N), on_gpu(M, N))
    assert not number(lt, "made").value


def test_another_gpu_than_the_current_one_is_pytorchs(lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, out = on_gpu(M, K), on_gpu(K, N), on_gpu(M, N)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with trying():
        assert torch.equal(multiply(left, right, out), torch.mm(left, right))
    assert not number(lt, "made").value


def test_the_library_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_PRODUCTS", "0")
    products.library.cache_clear()
    assert products.library() is None
    products.library.cache_clear()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On a GPU, a file of ways that is empty."""
    path = tmp_path / "products.json"
    monkeypatch.setattr(products, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(products, "_tried", set())
    products._ways.cache_clear()
    yield path
    products._ways.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_ways_that_matrices_can_lie(turned: tuple[bool, bool], kind: torch.dtype, fresh: Path) -> None:
    m, k, n = 1024, 512, 768
    left, right, bias = (torch.randn(*size, device="cuda").to(kind) for size in ((m, k), (k, n), (n,)))
    want = left.float() @ right.float()
    left, right = (x.T.contiguous().T if turn else x for x, turn in zip((left, right), turned, strict=True))
    with trying():
        plain, cut = multiply(left, right), multiply(left, right, bias=bias)
    bound = 1e-2 if kind == torch.bfloat16 else 1e-3
    assert float((plain.float() - want).norm() / want.norm()) < bound
    want = (want + bias.float()).relu()
    assert float((cut.float() - want).norm() / want.norm()) < bound
    (kept,) = json.loads(fresh.read_text()).values()
    assert len(kept) == 2 and all(len(way) == 128 for way in kept.values())
    assert torch.equal(multiply(left, right), plain) and torch.equal(multiply(left, right, bias=bias), cut)
    products._ways.cache_clear()  # as a later run finds it
    products._tried.clear()
    before = fresh.stat().st_mtime_ns
    with trying():
        assert torch.equal(multiply(left, right), plain) and torch.equal(multiply(left, right, bias=bias), cut)
    assert fresh.stat().st_mtime_ns == before


@pytest.mark.gpu
def test_every_way_that_is_tried_makes_the_product(fresh: Path) -> None:
    lt = products.library()
    assert lt is not None
    left, right = (torch.randn(*size, device="cuda").bfloat16() for size in ((2048, 1024), (1024, 512)))
    out, want = torch.empty(2048, 512, device="cuda").bfloat16(), left.float() @ right.float()
    form = products._form(left, right, out, None)
    assert form is not None
    ways = lt.ways(form, 8, 0)
    assert len(ways) > 1
    for way in ways:
        assert lt.knows(form, way, 0)
        out.fill_(torch.nan)
        assert products._put(lt, form, way, left, right, out, None)
        assert float((out.float() - want).norm() / want.norm()) < 1e-2
    assert not lt.knows(form, b"\xff" * 64, 0) and not lt.knows(form, b"short", 0)


@pytest.mark.gpu
def test_parts_of_larger_matrices_and_places_between(fresh: Path) -> None:
    whole = torch.randn(4096, 1024, device="cuda").bfloat16()
    right = torch.randn(512, 512, device="cuda").bfloat16()
    out = torch.zeros(4096, 512, device="cuda").bfloat16()
    with trying():
        for left in (whole[1024:3072, 256:768], whole[1:2049, 3:515]):  # the second begins where it should not
            made = multiply(left, right, out[1024:3072])
            want = left.float() @ right.float()
            assert float((made.float() - want).norm() / want.norm()) < 1e-2
            assert not out[:1024].any() and not out[3072:].any()


@pytest.mark.gpu
def test_a_recorded_product_takes_the_way_that_is_known(fresh: Path) -> None:
    left, right = (torch.randn(1024, 1024, device="cuda").bfloat16() for _ in range(2))
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), trying():
        want = multiply(left, right)
    with torch.cuda.graph(graph, stream=stream):
        made = multiply(left, right)
        unknown = multiply(left[:512], right)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(made, want)
    assert float((unknown.float() - want[:512].float()).norm() / want[:512].float().norm()) < 1e-2
    (kept,) = json.loads(fresh.read_text()).values()
    assert len(kept) == 1
