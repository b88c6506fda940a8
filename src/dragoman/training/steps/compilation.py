"""The training step through `torch.compile`, which is told of our operators what it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from dragoman.nn.kernels import cpu_bf16, linear_relu, residual_norm
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.nn.kernels import packed_attention as packed
from dragoman.training.loss import fused_cross_entropy as fused_loss

RUNS = 256  # of one process that may compile a step of their own; by itself the compiler refuses a ninth
OPERATORS = (cpu_bf16, fused_loss, linear_relu, packed, products, residual_norm)  # where ours are announced
LAZY = "2.13"  # the first version known to put messages into words only where somebody reads them


class AddedInside(CustomGraphPass):
    """Gradients that meet before a norm are added by its kernel, which reads them anyway."""

    def __call__(self, graph: Graph) -> None:
        """`residual_norm_backward(a + b, None, ...)` becomes `residual_norm_backward(a, b, ...)`."""
        target = torch.ops.dragoman.residual_norm_backward.default
        for node in graph.find_nodes(op="call_function", target=target):
            added, other, *rest = node.args
            if other is None and _plain_sum(added):
                node.args = (*added.args, *rest)
                if "eager_input_vals" in node.meta:  # by which the compiler lays out what it hands to the operator
                    (_, _, *values), named = node.meta["eager_input_vals"]
                    node.meta["eager_input_vals"] = ((*(arg.meta["val"] for arg in added.args), *values), named)
                graph.erase_node(added)

    def uuid(self) -> Any:
        """What this does, for the compiler's cache."""
        return _version()


class FastProducts(CustomGraphPass):
    """Products are made in the way that was found to be fastest, where they are in half precision on a GPU."""

    def __call__(self, graph: Graph) -> None:
        """`mm(a, b)` becomes `tuned_matmul(a, b)`."""
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default):
            made = node.meta["val"]
            if made.device.type == "cuda" and made.dtype in products.HALF_DTYPES:
                node.target = torch.ops.dragoman.tuned_matmul.default

    def uuid(self) -> Any:
        """What this does, for the compiler's cache."""
        return _version()


def _version() -> bytes:
    """Of the passes and of our operators: code that was kept has the sizes that they gave when it was made."""
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


# One of each, because the compiler takes another for another compiler.
ADDED_INSIDE, FAST_PRODUCTS = AddedInside(), FastProducts()


def compiled(task: nn.Module) -> Callable[..., Any]:
    """The task, compiled for one shape when it is first called, with residual connections and norms by our kernel."""
    _announce(torch.ops.dragoman.projected_loss.default)
    residual_norm.compiler_ready = True
    options: dict[str, Any] = {"post_grad_custom_pre_pass": ADDED_INSIDE}
    if products.cublas_lt() is not None:
        _announce(torch.ops.dragoman.tuned_matmul.default)
        options["post_grad_custom_post_pass"] = FAST_PRODUCTS  # after sums that follow a product went into it
    made = torch.compile(task, dynamic=False, fullgraph=True, options=options)

    def called(*args: Any) -> Any:
        with torch._dynamo.config.patch(recompile_limit=RUNS):
            return made(*args)

    return called


def _announce(operator: Any) -> None:
    """Have the compiler know an operator that it meets at the end of a model.

    Meeting an unknown one, PyTorch 2.11 puts what its arguments were made of into words, for a message that nobody
    reads. Where operators like ours follow each other with a residual connection around each, every layer doubles that.
    """
    if torch.__version__ >= LAZY:
        return
    from torch._inductor import lowering
    from torch._library.utils import get_layout_constraint_tag

    if operator not in lowering.lowerings:
        constraint = lowering.tag_to_layout_constraint(get_layout_constraint_tag(operator, with_default=True))
        lowering.make_fallback(operator, layout_constraint=constraint)  # type: ignore[no-untyped-call]
