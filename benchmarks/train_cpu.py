"""Training on a CPU: target tokens a second and memory, ours beside others, the same batches, in one run.

    python benchmarks/train_cpu.py --sizes small base --rounds 3

Each contender runs in a process of its own, in turns, so that whatever else the machine does falls on all alike; the
median of the rounds is printed. The model is the same for all: post-norm, ReLU, tied embeddings, dropout 0.1, label
smoothing 0.1, Adam.
bfloat16 is tried in a child process first: on some virtual machines it ends in an illegal instruction.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIZES = {  # d_model, heads, d_ff, layers, vocabulary
    "small": (256, 4, 1024, 3, 8000),
    "base": (512, 8, 2048, 6, 37000),
}
PAD = 0
Batch = tuple[Tensor, Tensor, Tensor]
Step = Callable[[Batch], None]


def batches(count: int, tokens: int, vocabulary: int) -> list[Batch]:
    """Padded batches of about `tokens` target tokens, sentences of like length together, as all the peers make them."""
    g = torch.Generator().manual_seed(0)
    source = torch.exp(torch.randn(40_000, generator=g) * 0.55 + math.log(24))
    target = (source * (1 + 0.15 * torch.randn(40_000, generator=g))).clamp(3, 120).long()
    source = source.clamp(3, 120).long()
    order = torch.argsort(target * 1000 + source)
    groups, start = [], 0
    while start < len(order):
        width, end = 0, start
        while end < len(order):
            longer = max(width, int(target[order[end]]))
            if (end + 1 - start) * longer > tokens:
                break
            width, end = longer, end + 1
        groups.append(order[start:end])
        start = end
    made = []
    for i in torch.randperm(len(groups), generator=g)[:count].tolist():
        s, t = source[groups[i]], target[groups[i]]
        ids = [torch.randint(4, vocabulary, (len(s), int(n.max()) + 1), generator=g) for n in (s, t)]
        for x, n in zip(ids, (s, t), strict=True):
            x[torch.arange(x.shape[1]) > n[:, None]] = PAD
        made.append((ids[0], ids[1][:, :-1].contiguous(), ids[1][:, 1:].contiguous()))
    return made


def adam(parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)


def plain_step(model: nn.Module, forward: Callable[[Batch], Tensor], autocast) -> Step:
    """How such a loop is usually written."""
    optimiser = adam(model.parameters())

    def step(batch: Batch) -> None:
        with autocast():
            logits = forward(batch)
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch[2].flatten(), ignore_index=PAD, label_smoothing=0.1)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def ours(size: str, autocast) -> Step:
    from dragoman import Transformer
    from dragoman.config import ModelRecipe, TrainRecipe
    from dragoman.data.batch import Batch as OurBatch
    from dragoman.train.loss import TranslationLoss
    from dragoman.train.optimiser import Optimiser

    d, h, ff, layers, vocabulary = SIZES[size]
    recipe = ModelRecipe(d_model=d, n_heads=h, d_ff=ff, encoder_layers=layers, decoder_layers=layers, dropout=0.1)
    model = Transformer(recipe, vocabulary)
    task, optimiser = TranslationLoss(model, 0.1, PAD), Optimiser(model, TrainRecipe())

    def step(batch: Batch) -> None:
        source, target_in, target_out = batch
        lengths = [(x != PAD).sum(-1) for x in (source, target_out)]
        tokens = int(lengths[1].sum())
        made = OurBatch(
            "padded", source, lengths[0], target_in, target_out, lengths[1], lengths[0], len(source),
            int(lengths[0].sum()), tokens, 128, 0,
        )  # fmt: skip
        with autocast():
            loss = task(made)
        (loss.smoothed / tokens).backward()
        optimiser.step(1e-4)
        optimiser.forget_gradients()

    return step


def torch_transformer(size: str, autocast) -> Step:
    d, h, ff, layers, vocabulary = SIZES[size]

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, d)
            nn.init.normal_(self.embedding.weight, std=d**-0.5)
            self.transformer = nn.Transformer(d, h, layers, layers, ff, 0.1, batch_first=True)
            angle = torch.arange(256)[:, None] / 10000 ** (torch.arange(0, d, 2)[None] / d)
            self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).view(256, d))

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            x, y = (
                F.dropout(self.embedding(ids) * d**0.5 + self.positions[: ids.shape[1]], 0.1, self.training)
                for ids in (source, target)
            )
            later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
            hidden = self.transformer(
                x, y, tgt_mask=later, src_key_padding_mask=source == PAD, tgt_key_padding_mask=target == PAD,
                memory_key_padding_mask=source == PAD,
            )  # fmt: skip
            return hidden @ self.embedding.weight.T

    model = Plain().train()
    return plain_step(model, lambda batch: model(batch[0], batch[1]), autocast)


def marian(size: str, autocast) -> Step:
    from transformers import MarianConfig, MarianMTModel

    d, h, ff, layers, vocabulary = SIZES[size]
    config = MarianConfig(
        vocab_size=vocabulary, d_model=d, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=h,
        decoder_attention_heads=h, encoder_ffn_dim=ff, decoder_ffn_dim=ff, dropout=0.1, activation_function="relu",
        pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=1, max_position_embeddings=256, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel._from_config(config, attn_implementation="sdpa").train()

    def forward(batch: Batch) -> Tensor:
        mask = (batch[0] != PAD).long()
        return model(input_ids=batch[0], attention_mask=mask, decoder_input_ids=batch[1], use_cache=False).logits

    return plain_step(model, forward, autocast)


CONTENDERS = {"dragoman": ours, "torch.nn.Transformer": torch_transformer, "Hugging Face Marian": marian}


def measure(name: str, size: str, precision: str, steps: int, tokens: int) -> None:
    """Run in a child: print target tokens a second and the most memory held."""
    from contextlib import nullcontext

    torch.manual_seed(0)
    autocast = nullcontext if precision == "float32" else lambda: torch.autocast("cpu", torch.bfloat16)
    step = CONTENDERS[name](size, autocast)
    data = batches(steps + 2, tokens, SIZES[size][4])
    for batch in data[:2]:
        step(batch)
    begun = time.perf_counter()
    for batch in data[2:]:
        step(batch)
    seconds = time.perf_counter() - begun
    real = sum(int((b[2] != PAD).sum()) for b in data[2:])
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"rate": real / seconds, "gib": held}))


def works(precision: str) -> bool:
    """Whether a matrix product and its gradient survive, tried in a process that may die."""
    code = (
        "import torch; x = torch.randn(64, 64, requires_grad=True)\n"
        "with torch.autocast('cpu', torch.bfloat16): y = x @ x\n"
        "y.float().sum().backward()"
    )
    return precision == "float32" or subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child:
        measure(*options.child, options.steps, options.tokens)
        return
    print(f"torch {torch.__version__}, {options.threads} threads, {platform.processor() or platform.machine()}")
    print(f"{'model':6} {'precision':9} {'what':22} {'target tokens/s':>15} {'to the best peer':>16} {'GiB':>5}")
    for size in options.sizes:
        for precision in options.precisions:
            if not works(precision):
                print(f"{size:6} {precision:9} dies on this machine (illegal instruction)")
                continue
            found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
            for _ in range(options.rounds):
                for name in CONTENDERS:
                    child = [sys.executable, __file__, "--child", name, size, precision, "--steps", str(options.steps)]
                    more = ["--tokens", str(options.tokens), "--threads", str(options.threads)]
                    done = subprocess.run([*child, *more], capture_output=True, text=True, check=True)
                    found[name].append(json.loads(done.stdout.splitlines()[-1]))
            rate = {name: statistics.median(r["rate"] for r in rows) for name, rows in found.items()}
            best = max(r for name, r in rate.items() if name != "dragoman")
            for name, rows in found.items():
                held = max(r["gib"] for r in rows)
                print(f"{size:6} {precision:9} {name:22} {rate[name]:15,.0f} {rate[name] / best:15.2f}x {held:5.1f}")


if __name__ == "__main__":
    main()
