"""Compile the training step with `torch.compile`, with graph passes for our own operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from dragoman.nn.kernels import cpu_bf16, gathered_attention, linear_relu, listed_attention, residual_norm
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.nn.kernels import packed_attention as packed
from dragoman.training.loss import fused_cross_entropy as fused_loss

MAX_COMPILED_RUNS = 256  # compilations per process; the default limit is 8
OPERATORS = (  # where ours are registered
    *(cpu_bf16, fused_loss, gathered_attention, linear_relu, listed_attention, packed, products, residual_norm),
)
LAZY_MESSAGES = "2.13"  # the first version that formats these messages lazily


class FuseResidualAdd(CustomGraphPass):
    """Add gradients inside the backward kernel of the norm, which reads them anyway."""

    def __call__(self, graph: Graph) -> None:
        """`residual_norm_backward(a + b, None, ...)` becomes `residual_norm_backward(a, b, ...)`."""
        target = torch.ops.dragoman.residual_norm_backward.default
        for node in graph.find_nodes(op="call_function", target=target):
            added, other, *rest = node.args
            if other is None and _plain_sum(added):
                node.args = (*added.args, *rest)
                if "eager_input_vals" in node.meta:  # from which the compiler derives the operator's input layouts
                    (_, _, *values), named = node.meta["eager_input_vals"]
                    node.meta["eager_input_vals"] = ((*(arg.meta["val"] for arg in added.args), *values), named)
                graph.erase_node(added)

    def uuid(self) -> Any:
        """The version of this pass, for the compiler's cache."""
        return _version()


class FastMatmul(CustomGraphPass):
    """Use the fastest matmul that was found, for half precision on a GPU."""

    def __call__(self, graph: Graph) -> None:
        """`mm(a, b)` becomes `tuned_matmul(a, b)`."""
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default):
            product = node.meta["val"]
            if product.device.type == "cuda" and product.dtype in products.HALF_DTYPES:
                node.target = torch.ops.dragoman.tuned_matmul.default

    def uuid(self) -> Any:
        """The version of this pass, for the compiler's cache."""
        return _version()


def _version() -> bytes:
    """A hash of the passes and our operators: cached code depends on both."""
    return get_hash_for_files((__file__, *(str(module.__file__) for module in OPERATORS)))


def _plain_sum(node: Any) -> bool:
    """Whether this is a + b, of two tensors as dense as their sum, which nothing else uses."""
    if not isinstance(node, Node) or node.target is not torch.ops.aten.add.Tensor:
        return False
    if node.kwargs or len(node.users) != 1 or not all(isinstance(arg, Node) for arg in node.args):
        return False
    parts, whole = [arg.meta["val"] for arg in node.all_input_nodes], node.meta["val"]
    alike = (part.shape == whole.shape and part.dtype == whole.dtype and part.is_contiguous() for part in parts)
    return len(parts) == 2 and all(alike)


# One instance of each: the compiler treats another instance as another configuration.
FUSE_RESIDUAL_ADD, FAST_MATMUL = FuseResidualAdd(), FastMatmul()


def compiled(task: nn.Module) -> Callable[..., Any]:
    """The task, compiled for one shape at its first call, with residual connections and norms by our kernel."""
    _register(torch.ops.dragoman.projected_loss.default)
    residual_norm.compiler_ready = True
    options: dict[str, Any] = {"post_grad_custom_pre_pass": FUSE_RESIDUAL_ADD}
    if products.cublas_lt() is not None:
        _register(torch.ops.dragoman.tuned_matmul.default)
        options["post_grad_custom_post_pass"] = FAST_MATMUL  # after additions were fused into matmuls
    compiled_task = torch.compile(task, dynamic=False, fullgraph=True, options=options)

    def called(*args: Any) -> Any:
        with torch._dynamo.config.patch(recompile_limit=MAX_COMPILED_RUNS):
            return compiled_task(*args)

    return called


def _register(operator: Any) -> None:
    """Register an operator with the compiler.

    For an unregistered one, PyTorch 2.11 formats the history of its arguments for a message that is never shown. With
    residual connections around operators like ours, every layer doubles that work.
    """
    if torch.__version__ >= LAZY_MESSAGES:
        return
    from torch._inductor import lowering
    from torch._library.utils import get_layout_constraint_tag

    if operator not in lowering.lowerings:
        constraint = lowering.tag_to_layout_constraint(get_layout_constraint_tag(operator, with_default=True))
        lowering.make_fallback(operator, layout_constraint=constraint)  # type: ignore[no-untyped-call]
