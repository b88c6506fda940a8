from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import dragoman
from dragoman.nn import LayerNorm, PostNorm
from dragoman.nn.kernels.residual_norm import residual_norm, residual_norm_backward
from dragoman.training.steps import compilation as compiling

N, D = 5, 7
DRAWN = torch.tensor([0.31, 0.77])


def given() -> list[Tensor]:
    """Two gradients, what the forward pass kept, and a weight."""
    torch.manual_seed(2)
    x, y, a, b = (torch.randn(N, D, dtype=torch.float64) for _ in range(4))
    weight, bias = (torch.randn(D, dtype=torch.float64) for _ in range(2))
    return [a, b, *residual_norm(x, y, weight, bias, DRAWN, 0.3, 1e-5)[1:], weight, DRAWN]


def changed(function: Callable[..., tuple[Tensor, ...]], *args: Tensor) -> tuple[GraphModule, int]:
    """The function as a graph after the pass, whose results did not change, and the additions left in it."""
    graph = make_fx(function)(*args)
    expected = graph(*args)
    compiling.FuseResidualAdd()(graph.graph)
    graph.graph.lint()
    graph.recompile()
    for found, wanted in zip(graph(*args), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    return graph, len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor))


def test_two_gradients_are_added_by_the_kernel() -> None:
    def function(a: Tensor, b: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        return residual_norm_backward(a + b, None, *kept, 0.3)  # type: ignore[no-any-return]

    graph, additions = changed(function, *given())
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.dragoman.residual_norm_backward.default)
    assert additions == 0
    assert list(node.args[:2]) == graph.graph.find_nodes(op="placeholder")[:2]


def test_the_compiler_is_told_how_both_gradients_lie() -> None:
    def function(a: Tensor, b: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        return residual_norm_backward(a + (b.t() * 2).contiguous(), None, *kept, 0.3)  # type: ignore[no-any-return]

    a, b, *kept = given()
    graph, additions = changed(function, a, b.t().contiguous(), *kept)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.dragoman.residual_norm_backward.default)
    args, named = node.meta["eager_input_vals"]  # without it, `other` may be laid out column by column
    assert additions == 0 and not named and len(args) == len(node.args)
    assert [(value.shape, value.stride()) for value in args[:2]] == [((N, D), (D, 1))] * 2


@pytest.mark.parametrize(
    "add",
    [
        lambda a, b: torch.add(a, b, alpha=2),
        lambda a, b: a + b[:1],
        lambda a, b: a + 1.5,
        lambda a, b: a + b.t().contiguous().t(),
        lambda a, b: a + a,
        lambda a, b: a + b.float(),
    ],
)
def test_other_additions_stay(add: Callable[[Tensor, Tensor], Tensor]) -> None:
    def function(a: Tensor, b: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        return residual_norm_backward(add(a, b), None, *kept, 0.3)  # type: ignore[no-any-return]

    assert changed(function, *given())[1] == 1


def test_a_sum_that_others_use_stays() -> None:
    def function(a: Tensor, b: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        total = a + b
        return total * 2, *residual_norm_backward(total, None, *kept, 0.3)

    assert changed(function, *given())[1] == 1


def test_layers_learn_the_same_where_the_compiler_takes_them_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    layers = nn.ModuleList(PostNorm(LayerNorm(D), 0.0) for _ in range(3)).train()
    inner = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
    weights, x, probe = [*layers.parameters(), *inner.parameters()], torch.randn(N, D), torch.randn(N, D)
    additions: list[int] = []

    def forward(x: Tensor) -> Tensor:
        for around, linear in zip(layers, inner, strict=True):
            x = around(x, linear)
        return x

    def backward(graph: GraphModule, _: object) -> Callable[..., object]:
        for _ in range(2):
            additions.append(len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)))
            compiling.FuseResidualAdd()(graph.graph)
        graph.recompile()
        return make_boxed_func(graph.forward)

    plain = [(out := forward(x)), *torch.autograd.grad(out, weights, probe)]
    monkeypatch.setattr("dragoman.nn.residual.fuses_residual_norm", lambda x, y: True)
    backend = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=backward)
    try:
        out = torch.compile(forward, backend=backend, fullgraph=True)(x)
        used = [out, *torch.autograd.grad(out, weights, probe)]
    finally:
        torch.compiler.reset()
    assert additions == [2, 0]  # the two norms before the last have two uses each
    for a, b in zip(used, plain, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_what_is_compiled_takes_the_pass_and_turns_the_operator_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.nn.kernels.residual_norm.compiler_ready", False)
    compiling.compiled(nn.Linear(2, 3))  # unknown options would be refused here
    assert compiling.residual_norm.compiler_ready
    assert compiling.FuseResidualAdd().uuid() == compiling.FuseResidualAdd().uuid()


@pytest.mark.parametrize("one", [compiling.FuseResidualAdd, compiling.FastMatmul])
def test_code_that_was_kept_is_made_anew_where_an_operator_is_another(
    one: type[CustomGraphPass], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    src = Path(dragoman.__file__).parent
    defining = {str(path) for path in src.rglob("*.py") if "torch.library.custom_op(" in path.read_text("utf-8")}
    assert {str(module.__file__) for module in compiling.OPERATORS} == defining
    before = one().uuid()
    for place, module in enumerate(compiling.OPERATORS):
        changed = tmp_path / f"{place}.py"
        changed.write_text(Path(str(module.__file__)).read_text("utf-8") + "\n")
        others = (*compiling.OPERATORS[:place], SimpleNamespace(__file__=changed), *compiling.OPERATORS[place + 1 :])
        monkeypatch.setattr(compiling, "OPERATORS", others)
        assert one().uuid() != before
        monkeypatch.undo()
    assert one().uuid() == before


def test_one_process_can_train_many_models(monkeypatch: pytest.MonkeyPatch) -> None:
    real, given_options = torch.compile, []

    def without_a_compiler(task: nn.Module, *, options: dict[str, object], **named: bool) -> object:
        given_options.append(options)
        return real(task, backend="eager", **named)

    monkeypatch.setattr("dragoman.nn.kernels.residual_norm.compiler_ready", False)
    monkeypatch.setattr(torch, "compile", without_a_compiler)
    try:
        for size in range(1, 12):  # the compiler would refuse the ninth
            task = nn.Sequential(nn.Linear(size, 3))
            x = torch.randn(2, size)
            torch.testing.assert_close(compiling.compiled(task)(x), task(x))
    finally:
        torch.compiler.reset()
    assert len(given_options) == 11
    assert all(options == given_options[0] for options in given_options)  # or equal models would be compiled twice


@pytest.mark.skipif(torch.__version__ >= compiling.LAZY_MESSAGES, reason="this version needs no registration")
def test_an_operator_is_registered_once() -> None:
    from torch._inductor.lowering import lowerings

    for _ in range(2):
        compiling._register(torch.ops.dragoman.projected_loss.default)
    assert torch.ops.dragoman.projected_loss.default in lowerings


def test_only_products_in_half_precision_on_a_gpu_are_made_in_the_fastest_way() -> None:
    graph = Graph()
    kinds = [("cuda", torch.bfloat16), ("cuda", torch.float16), ("cuda", torch.float32), ("cpu", torch.bfloat16)]
    with FakeTensorMode():
        for device, kind in kinds:
            made = graph.call_function(torch.ops.aten.mm.default, (graph.placeholder("a"), graph.placeholder("b")))
            made.meta["val"] = torch.empty(4, 4, device=device, dtype=kind)
    compiling.FastMatmul()(graph)
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    fast, plain = torch.ops.dragoman.tuned_matmul.default, torch.ops.aten.mm.default
    assert targets == [fast, fast, plain, plain]


@pytest.mark.parametrize("there", [False, True])
def test_products_are_left_to_the_compiler_where_there_is_no_library(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_options: list[dict[str, object]] = []
    monkeypatch.setattr("dragoman.nn.kernels.residual_norm.compiler_ready", False)
    monkeypatch.setattr(compiling.products, "cublas_lt", lambda: object() if there else None)
    monkeypatch.setattr(torch, "compile", lambda task, options, **_: given_options.append(options))
    compiling.compiled(nn.Linear(2, 3))
    wanted = {"post_grad_custom_pre_pass": compiling.FUSE_RESIDUAL_ADD}
    assert given_options == [{**wanted, "post_grad_custom_post_pass": compiling.FAST_MATMUL} if there else wanted]
