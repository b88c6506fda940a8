"""CUDA graph steps against eager steps. Without a GPU, streams and graphs are mocked and the step runs directly."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman import Transformer
from dragoman.config import ModelRecipe, TrainRecipe
from dragoman.data.batch import Batch, FlatSentences, make_batch
from dragoman.data.batching import PackedShape
from dragoman.native.algorithm_file import AlgorithmFile
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.nn.kernels import triton_available
from dragoman.nn.kernels.cpu_bf16 import torch_bfloat16_works
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.sharding import Replica
from dragoman.training.loss.cross_entropy import LossSum, TranslationLoss
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps import cuda_graph, eager
from dragoman.training.steps.eager import derive_seed
from no_gpu import stand_in

VOCABULARY, PAD = 61, 0


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, device: torch.device, tmp_path: Path) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(products, "MIN_MULTIPLICATIONS", 1)  # so that these small products are tuned as well
    monkeypatch.setattr(cuda_graph, "AlgorithmFile", lambda: AlgorithmFile(tmp_path / "products.json"))
    monkeypatch.setattr(products, "_chosen", {})
    if device.type != "cuda":
        stand_in(monkeypatch.setattr)


class Scaled(nn.Module):
    """The task with its loss times a number that a test can change."""

    def __init__(self, task: TranslationLoss, device: torch.device) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("factor", torch.ones((), device=device))

    def forward(self, batch: Batch) -> LossSum:
        loss = self.task(batch)
        factor: Tensor = self.factor
        return LossSum(loss.smoothed * factor, loss.plain)


def batch(seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, (2, 5))
    sides = [FlatSentences(rng.integers(4, VOCABULARY, int(n.sum())), n) for n in lengths]
    return make_batch(np.arange(5), *sides, PackedShape(64, 64, 7, 12), seed)


def setting(device: torch.device) -> tuple[nn.Module, Optimizer, TrainRecipe]:
    torch.manual_seed(3)
    shape = ModelRecipe(d_model=32, n_heads=2, d_ff=48, encoder_layers=1, decoder_layers=2, dropout=0.0)
    recipe = TrainRecipe(compile=True, clip=0.5, precision="float32", ema=0.9, epsilon=1e-4)  # no step follows noise
    model = Transformer(shape, VOCABULARY).to(device).train()
    return Scaled(TranslationLoss(model, 0.1, PAD), device), Optimizer(model, recipe), recipe


def test_steps_are_those_of_the_plain_way_and_come_back_in_order(device: torch.device) -> None:
    task, optimizer, recipe = setting(device)
    for number in range(1, 6):
        here = batch(number).to(device)
        (task(here).smoothed / here.target_tokens).backward()
        nn.utils.clip_grad_norm_(task.parameters(), recipe.clip)
        optimizer.step(0.01 * number)
        optimizer.clear_gradients()
    expected = [p.detach().clone() for p in task.parameters()]

    task, optimizer, recipe = setting(device)
    queue = cuda_graph.CudaGraphSteps(task, optimizer, recipe, nullcontext, Ranks(device=device))
    outcomes = []
    for number in range(1, 6):
        here = batch(number)
        queue.submit([here], number, here.target_tokens, here.source_tokens, 0.01 * number)
        outcomes += queue.completed(wait=number == 5)
    assert [o.step for o in outcomes] == [1, 2, 3, 4, 5]
    assert all(o.finite and o.norm > 0 for o in outcomes)
    for ours, theirs in zip(task.parameters(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


def in_bfloat16(device: torch.device) -> torch.autocast:
    if device.type == "cpu" and not torch_bfloat16_works():
        pytest.skip("this CPU has no bfloat16 products")
    return torch.autocast(device.type, torch.bfloat16)


@pytest.mark.parametrize("batches", [1, 2])
def test_steps_in_half_precision_are_those_of_autocast(device: torch.device, batches: int) -> None:
    def autocast() -> torch.autocast:
        return in_bfloat16(device)

    pairs = [(batch(number), batch(number + 10))[:batches] for number in range(1, 4)]
    counts = [sum(here.target_tokens for here in pair) for pair in pairs]
    task, optimizer, recipe = setting(device)
    for pair, count in zip(pairs, counts, strict=True):
        for here in pair:
            with autocast():
                loss = task(here.to(device)).smoothed
            (loss / count).backward()
        nn.utils.clip_grad_norm_(task.parameters(), recipe.clip)
        optimizer.step(0.01)
        optimizer.clear_gradients()
    expected = [p.detach().clone() for p in task.parameters()]

    task, optimizer, recipe = setting(device)
    start = [p.detach().clone() for p in task.parameters()]
    queue = cuda_graph.CudaGraphSteps(task, optimizer, recipe, autocast, Ranks(device=device))
    assert queue.bf16.named
    for number, (pair, count) in enumerate(zip(pairs, counts, strict=True), 1):
        queue.submit(list(pair), number, count, count, 0.01)
    assert all(o.finite for o in queue.completed(wait=True))
    assert (queue.adam is not None) == (batches == 1 and triton_available(device.type))
    moved = [ours.detach() - before for ours, before in zip(task.parameters(), start, strict=True)]
    wanted = [theirs - before for theirs, before in zip(expected, start, strict=True)]
    rough = triton_available(device.type)  # compiled or interpreted, other places are rounded
    if rough:  # bfloat16 by itself makes 0.08, a lost batch 0.75
        moved, wanted = ([torch.cat([part.flatten() for part in parts])] for parts in (moved, wanted))
    for ours, theirs in zip(moved, wanted, strict=True):
        assert float((ours - theirs).norm()) < (0.3 if rough else 0.02) * float(theirs.norm())


def queue_of(device: torch.device) -> tuple[nn.Module, Optimizer, cuda_graph.CudaGraphSteps]:
    task, optimizer, recipe = setting(device)
    autocast, alone = lambda: in_bfloat16(device), Ranks(device=device)
    return task, optimizer, cuda_graph.CudaGraphSteps(task, optimizer, recipe, autocast, alone)


def go(queue: cuda_graph.CudaGraphSteps, numbers: range) -> None:
    for number in numbers:
        here = batch(number)
        queue.submit([here], number, here.target_tokens, here.source_tokens, 0.01)
        assert all(o.finite for o in queue.completed(wait=number == numbers[-1]))
    if queue.device.type == "cuda":
        torch.cuda.synchronize()


def flat(task: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in task.parameters()]).clone()


def test_adam_by_the_kernel_is_pytorchs_in_every_replay(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    if not triton_available(device.type):
        pytest.skip("no Triton for this device")
    found, start = [], flat(setting(device)[0])
    for by_kernel in (True, False):
        if not by_kernel:
            monkeypatch.setattr(cuda_graph, "supports_bf16_adam", lambda *_: False)
        task, optimizer, queue = queue_of(device)
        for numbers in (range(1, 2), range(2, 3), range(3, 9)):  # as it is compiled, recorded, replayed
            go(queue, numbers)
            assert (queue.adam is not None) == by_kernel
            for name, value in optimizer.state().items():
                assert not name.endswith("/step") or float(value) == numbers[-1], name
            if by_kernel and device.type == "cuda":  # the interpreter cuts bfloat16 off
                for whole, half in zip(queue.bf16.master, queue.bf16.copies, strict=True):
                    assert torch.equal(half, whole.detach().bfloat16())
        found.append(flat(task) - start)
        moments = optimizer.state()["encoder.0.feed_forward.inner.weight/exp_avg_sq"]
        found.append(moments.sqrt().flatten())
    for ours, theirs in ((found[0], found[2]), (found[1], found[3])):
        assert float((ours - theirs).norm()) < 0.1 * float(theirs.norm())


def test_a_run_that_is_stopped_and_one_whose_weights_are_lent_go_on_as_if_nothing_were(device: torch.device) -> None:
    start = flat(setting(device)[0])
    task, optimizer, queue = queue_of(device)
    go(queue, range(1, 5))
    weights = {name: p.detach().clone() for name, p in task.named_parameters()}
    state = {name: tensor.detach().clone() for name, tensor in optimizer.state().items()}
    copies = {name: half.detach().clone() for name, half in queue.bf16.named.items()}
    with Replica(task, Ranks(device=device), sharded=False).with_replaced(task, {n: w * 2 for n, w in weights.items()}):
        assert not torch.equal(flat(task), torch.cat([w.flatten() for w in weights.values()]))
    go(queue, range(5, 9))

    again, other, resumed = queue_of(device)
    again.load_state_dict(weights, strict=False)
    other.restore(state)
    resumed = cuda_graph.CudaGraphSteps(again, other, resumed.recipe, lambda: in_bfloat16(device), Ranks(device=device))
    rough = triton_available(device.type) and device.type == "cpu"  # the interpreter cuts bfloat16 off, PyTorch rounds
    for name, half in resumed.bf16.named.items():
        assert rough or torch.equal(half, copies[name]) or queue.adam is None, name
    go(resumed, range(5, 9))
    ours, theirs = flat(again) - start, flat(task) - start
    if device.type == "cpu" and not rough:
        assert torch.equal(ours, theirs)
    # On a GPU embeddings' gradients are summed in any order, and what is rounded then may fall to the other side.
    assert float((ours - theirs).norm()) < 0.05 * float(theirs.norm())
    assert {n: float(v) for n, v in other.state().items() if n.endswith("/step")} == {
        n: 8.0 for n in state if n.endswith("/step")
    }


def test_a_step_that_is_not_finite_changes_nothing(device: torch.device) -> None:
    task, optimizer, recipe = setting(device)
    ema = {p.detach().clone(): p for p in task.parameters()}
    queue = cuda_graph.CudaGraphSteps(task, optimizer, recipe, nullcontext, Ranks(device=device), ema)
    found, kept = [], []
    for number, factor in enumerate((1.0, 1.0, float("inf"), float("nan"), 1.0), 1):
        task.factor.fill_(factor)
        here = batch(number)
        queue.submit([here], number, here.target_tokens, here.source_tokens, 0.01)
        found += queue.completed(wait=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        state = {**dict(task.named_parameters()), **optimizer.state(), **{str(i): e for i, e in enumerate(ema)}}
        kept.append({name: tensor.detach().clone() for name, tensor in state.items()})
    assert [o.finite for o in found] == [True, True, False, False, True]
    for name, before in kept[1].items():
        assert torch.equal(before, kept[2][name]), name
        assert torch.equal(before, kept[3][name]), name
    weight = "task.model.encoder.0.feed_forward.inner.weight"
    assert not torch.equal(kept[3][weight], kept[4][weight])
    assert all(torch.isfinite(tensor).all() for tensor in kept[4].values())


def test_what_is_read_back_holds_no_graph(device: torch.device) -> None:
    class Differentiable(nn.Module):
        """The task with a plain loss that requires a gradient, as one output of an operator of ours does."""

        def __init__(self, task: nn.Module) -> None:
            super().__init__()
            self.task = task

        def forward(self, here: Batch) -> LossSum:
            loss = self.task(here)
            return LossSum(loss.smoothed, loss.smoothed * 2)

    task, optimizer, recipe = setting(device)
    queue = cuda_graph.CudaGraphSteps(Differentiable(task), optimizer, recipe, nullcontext, Ranks(device=device))
    for number in range(1, 4):
        here = batch(number)
        queue.submit([here], number, here.target_tokens, here.source_tokens, 0.01)
        queue.completed(wait=True)
    assert not queue.outputs.requires_grad
    assert not any(slot.outputs.requires_grad for slot in queue.slots)


def test_each_process_drops_other_things(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    if device.type == "cuda":
        pytest.skip("to compile three models takes long, and seeds are the same")
    here, seeds = batch(1), []
    monkeypatch.setattr(torch.cuda, "manual_seed", seeds.append)
    for rank in range(3):
        task, optimizer, recipe = setting(device)
        queue = cuda_graph.CudaGraphSteps(task, optimizer, recipe, nullcontext, Ranks(rank=rank))
        for step in (1, 2):
            queue.submit([here], step, here.target_tokens, here.source_tokens, 0.01)
    assert len(set(seeds)) == 6
    assert seeds[:2] == [derive_seed(recipe.seed, step, 0, 0) for step in (1, 2)]


def test_sums_over_processes_are_recorded_with_the_step(device: torch.device, tmp_path: Path) -> None:
    """Of one process, because there may be one GPU: what is summed is what there is."""
    if device.type == "cpu":
        pytest.skip("nothing is recorded without a GPU")
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        found = []
        for world in (1, 2):
            task, optimizer, recipe = setting(device)
            ranks = Ranks(world=world, device=device)
            queue = cuda_graph.CudaGraphSteps(task, optimizer, recipe, lambda: in_bfloat16(device), ranks)
            outcomes = []
            for step in range(1, 6):
                here = batch(step)
                queue.submit([here], step, here.target_tokens, here.source_tokens, 0.01)
                outcomes += queue.completed(wait=step == 5)
            assert [o.step for o in outcomes] == [1, 2, 3, 4, 5]
            found.append([torch.tensor([[o.smoothed, o.plain, o.norm] for o in outcomes]), *task.parameters()])
    finally:
        dist.destroy_process_group()
    for alone, summed in zip(*found, strict=True):
        torch.testing.assert_close(summed, alone)


def test_only_packed_compiled_runs_on_gpus_are_queued() -> None:
    one, packed = Ranks(device=torch.device("cuda")), batch(1)
    recipe = TrainRecipe(compile=True)
    plain, recurrent = torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.GRU(2, 3))
    assert eager.supports_cuda_graph(recipe, one, packed, plain)
    assert not eager.supports_cuda_graph(recipe, one, packed, recurrent)
    assert not eager.supports_cuda_graph(TrainRecipe(), one, packed, plain)
    assert not eager.supports_cuda_graph(TrainRecipe(compile=True, optimizer="muon"), one, packed, plain)
    assert not eager.supports_cuda_graph(recipe, Ranks(), packed, plain)
    assert eager.supports_cuda_graph(recipe, Ranks(world=2, device=torch.device("cuda")), packed, plain)


def test_compiled_code_is_kept_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "DRAGOMAN_CACHE"):
        monkeypatch.setenv(name, "")  # so that what the function sets is undone after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cuda_graph.set_compile_cache() == tmp_path / "dragoman/inductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    assert str(cuda_graph.set_compile_cache()) == "/elsewhere"


def test_compiled_code_is_not_kept_where_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    home = cuda_graph.set_compile_cache().parent
    assert tmp_path not in home.parents and home.stat().st_mode & 0o777 == 0o700
