"""A Transformer on one page: with two layers, it learns to write digit strings backwards.

It is trained on random strings and tested on others. The attention of its decoder is then printed: to write a string
backwards, it must go through the source from right to left.

    python examples/reverse_digits.py
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.models import AttentionMaps

PAD, BOS, EOS, ZERO = 0, 1, 2, 4  # ids 0 to 3 are special in every Dragoman vocabulary; digits follow
VOCABULARY = ZERO + 10
RECIPE = ModelRecipe(d_model=64, n_heads=4, d_ff=128, encoder_layers=2, decoder_layers=2, dropout=0.0, norm_order="pre")


def strings(seed: int, held_out: bool) -> Iterator[str]:
    """Endless random strings of 1 to 10 digits; one in eight is held out for testing, by the sum of its digits."""
    rng = random.Random(seed)
    while True:
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 10)))
        if (sum(map(int, digits)) % 8 == 3) == held_out:
            yield digits


def tensor(rows: list[list[int]]) -> Tensor:
    """Rows of ids, padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def ids(text: str) -> list[int]:
    return [ZERO + int(digit) for digit in text]


def train(
    recipe: ModelRecipe = RECIPE, steps: int = 500, batch: int = 64, seed: int = 1, peak: float = 3e-3
) -> Transformer:
    """Teacher forcing with Adam and a short warm-up (section 5)."""
    torch.manual_seed(seed)
    model = Transformer(recipe, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    stream, begun = strings(seed, held_out=False), time.perf_counter()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = peak * min(step / 50, 1 - step / (steps + 1))
        texts = [next(stream) for _ in range(batch)]
        source = tensor([[*ids(text), EOS] for text in texts])
        target = tensor([[BOS, *ids(text[::-1]), EOS] for text in texts])
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            rate = step / (time.perf_counter() - begun)
            print(f"step {step:4d}/{steps}  loss {loss.item():.4f}  {rate:.0f} steps/s", flush=True)
    return model.eval()


@torch.inference_mode()
def write(model: Transformer, texts: list[str], longest: int = 12) -> list[str]:
    """Greedy decoding, a step at a time: always the likeliest next token."""
    state = model.start(model.encode(tensor([[*ids(text), EOS] for text in texts])))
    token = torch.full((len(texts),), BOS)
    rows = []
    for _ in range(longest):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        rows.append(token)
    outputs = torch.stack(rows, 1).tolist()
    return ["".join(str(i - ZERO) for i in (row[: row.index(EOS)] if EOS in row else row)) for row in outputs]


@torch.inference_mode()
def attention(model: Transformer, text: str) -> AttentionMaps:
    """What every head of every layer looked at while the string was written backwards."""
    maps = AttentionMaps()
    model(tensor([[*ids(text), EOS]]), tensor([[BOS, *ids(text[::-1])]]), maps=maps)
    return maps


def look(model: Transformer, text: str) -> str:
    """The last layer's attention from what is written to the source, the mean of its heads, drawn in characters."""
    weights = attention(model, text).cross[-1][0].mean(0)
    shades = " ░▒▓█"
    lines = [f"  writes \\ sees  {'  '.join(text)}"]
    for written, row in zip(text[::-1], weights[:-1], strict=True):
        cells = "  ".join(shades[min(int(w * 5), 4)] for w in row[:-1].tolist())
        lines.append(f"              {written}  {cells}")
    return "\n".join(lines)


def draw(model: Transformer, text: str, file: str) -> None:
    """Every head of the last layer, from what is written to the source, as a picture."""
    from matplotlib import pyplot

    heads = attention(model, text).cross[-1][0]
    figure, axes = pyplot.subplots(1, len(heads), figsize=(3 * len(heads), 3.2), layout="constrained")
    for number, (axis, head) in enumerate(zip(axes, heads, strict=True), 1):
        axis.imshow(head, cmap="Blues", vmin=0, vmax=1)
        axis.set_title(f"head {number}")
        axis.set_xticks(range(len(text) + 1), [*text, "end"])
        axis.set_yticks(range(len(text) + 1), [*text[::-1], "end"])
        axis.set_xlabel("source")
    axes[0].set_ylabel("written")
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--picture", metavar="FILE", help="also draw the attention of each head (needs matplotlib)")
    options = parser.parse_args()
    begun = time.perf_counter()
    model = train(steps=options.steps)
    print(f"trained {model.parameter_count():,} weights in {time.perf_counter() - begun:.0f} s\n")
    stream = strings(seed=2, held_out=True)
    unseen = [next(stream) for _ in range(1000)]
    answers = write(model, unseen)
    exact = sum(answer == text[::-1] for text, answer in zip(unseen, answers, strict=True))
    for text, answer in list(zip(unseen, answers, strict=True))[:5]:
        print(f"  {text:>10} -> {answer}")
    print(f"\n{exact / 10:.1f} % of {len(unseen)} unseen strings written backwards without a mistake\n")
    print(look(model, "31415926"))
    if options.picture:
        draw(model, "31415926", options.picture)


if __name__ == "__main__":
    main()
