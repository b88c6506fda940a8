"""The pictures and samples of tokenizers.md, from a folder with tatoeba_en-de, tatoeba_en-zh and python_docs_en-zh."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from dragoman.text import Tokenizer
from dragoman.text.learn import learn

KINDS = ("bpe", "unigram", "wordpiece")
COLORS = {"bpe": "#3b6fb6", "unigram": "#c8702a", "wordpiece": "#4c9a5b"}
ENGLISH = "The lighthouse keeper's unbelievable stories fascinated 25 sailors."
GERMAN = "Der Leuchtturmwärter erzählte unglaubliche Geschichten."
CHINESE = (
    "今天下午我们去图书馆还书，然后在门口喝了一杯热茶。",
    "请在运行脚本之前检查环境变量是否设置正确。",
    "这个函数返回一个新的列表，不会修改原来的对象。",
    "他虽然很累，但是仍然坚持把工作做完了。",
    "Python 3 的字符串默认使用 Unicode 编码。",
)


def read(path: Path, most: int | None = None) -> list[str]:
    """The lines of a packed file."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(most or 10**9), strict=False)]


def boxes(axes: Any, row: float, label: str, tokens: list[str], color: str) -> None:
    """One segmentation as a row of boxes, their widths the number of characters."""
    left = 0.0
    for number, token in enumerate(tokens):
        shade = 0.55 if number % 2 else 0.25
        axes.barh(row, len(token), left=left, height=0.8, color=color, alpha=shade, edgecolor="white")
        axes.text(left + len(token) / 2, row, token, ha="center", va="center", family="monospace", fontsize=8.5)
        left += len(token)
    axes.text(-0.6, row, f"{label} ({len(tokens)})", ha="right", va="center", fontsize=9)


def draw_segmentations(tokenizers: dict[str, Tokenizer], out: Path) -> None:
    """Two sentences of our own, cut by each kind."""
    figure, axes = pyplot.subplots(figsize=(13, 3.2))
    for block, text in enumerate((ENGLISH, GERMAN)):
        for number, kind in enumerate(KINDS):
            tokenizer = tokenizers[kind]
            boxes(axes, -(block * 3.6 + number), kind, tokenizer.tokens(tokenizer.encode(text)), COLORS[kind])
    axes.set_xlim(-0.5, len(ENGLISH) + 2)
    axes.axis("off")
    axes.set_title("The same sentences, the same vocabulary size (4,000): tokens, and how many", fontsize=10)
    figure.savefig(out / "tokenizers-segmentation.png", dpi=130, bbox_inches="tight")


def draw_vocabularies(lines: list[str], held_out: list[str], tokenizers: dict[str, Tokenizer], out: Path) -> None:
    """How finely text is cut by vocabulary size, and how evenly the tokens are used."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.8))
    sizes = (500, 1000, 2000, 4000, 8000)
    for kind in KINDS:
        means = []
        for size in sizes:
            tokenizer = tokenizers[kind] if size == 4000 else learn(kind, lines, size)
            means.append(sum(map(len, tokenizer.encode_many(held_out))) / len(held_out))
        left.plot(sizes, means, marker="o", color=COLORS[kind], label=kind)
        print(f"| {kind} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
        used = Counter(number for row in tokenizers[kind].encode_many(lines) for number in row)
        right.plot(sorted(used.values(), reverse=True), color=COLORS[kind], label=kind)
    left.set(xscale="log", xlabel="vocabulary size", ylabel="tokens per sentence (held out)", xticks=sizes)
    left.set_xticks(sizes, [f"{size:,}" for size in sizes])
    left.minorticks_off()
    right.set(yscale="log", xlabel="token, from the most to the least used", ylabel="times used (vocabulary 4,000)")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(out / "tokenizers-vocabulary.png", dpi=130)


def draw_tokenizers(folder: Path, out: Path) -> None:
    """Draw the pictures and print the samples."""
    sides = [read(folder / "tatoeba_en-de" / f"train.{language}.xz", 60_000) for language in ("en", "de")]
    lines = [line for pair in zip(*sides, strict=True) for line in pair]
    held_out = [line for side in ("en", "de") for line in read(folder / "tatoeba_en-de" / f"dev.{side}.xz")]
    tokenizers = {kind: learn(kind, lines, 4000) for kind in KINDS}
    draw_segmentations(tokenizers, out)
    draw_vocabularies(lines, held_out, tokenizers, out)
    for alpha in (0.0, 0.1, 0.3):
        for kind in KINDS:
            for seed in (1, 3):
                print(alpha, kind, " ".join(tokenizers[kind].tokens(tokenizers[kind].sample(GERMAN, alpha, seed))))

    chinese = read(folder / "tatoeba_en-zh" / "train.zh.xz") + read(folder / "python_docs_en-zh" / "pydocs.en-zh.zh.xz")
    everyday = read(folder / "tatoeba_en-zh" / "train.zh.xz")
    for name, text, size in (("both", chinese, 8000), ("everyday alone", everyday, 6000)):
        for kind in KINDS:
            tokenizer = learn(kind, text, size)
            names = [token for token in tokenizer.tokens(range(260, tokenizer.vocabulary_size)) if len(token) > 1]
            han = [token for token in names if "\u4e00" <= token[0] <= "\u9fff"]
            lengths = Counter(map(len, han))
            print(f"== {name}, {kind}: {tokenizer.vocabulary_size}; Chinese by length {sorted(lengths.items())}")
            for sentence in CHINESE:
                print(" ".join(tokenizer.tokens(tokenizer.encode(sentence))))
