"""Encoding, sampling and learning speed of our tokenizers beside sentencepiece and `tokenizers`, on the same text.

    python benchmarks/tokenization.py train.en.xz train.de.xz --megabytes 50 --vocabulary 8000 --threads 2

Each peer is used as its documentation shows: its own normalizer, its own batch call with the same number of threads.
Every repetition starts with a freshly loaded tokenizer, so our cache of words is empty each time. The fastest counts.
With --sampling tokens are drawn too, as each does it while training: ours from ids, the others from text.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import importlib.metadata
import io
import lzma
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Texts = list[str]
Encode = Callable[[Texts], Any]


def read(paths: list[Path], megabytes: float) -> Texts:
    """The same share of each file, from its beginning."""
    lines: Texts = []
    for path in paths:
        left = megabytes * 1e6 / len(paths)
        opened: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)(path, "rb")
        with opened as file:
            for line in file:
                lines.append(line.rstrip(b"\r\n").decode("utf-8"))
                left -= len(line)
                if left <= 0:
                    break
    return lines


def size(lines: Texts) -> float:
    return sum(len(line.encode()) for line in lines) / 1e6


def ours(kind: str) -> Callable[[Texts, argparse.Namespace], Callable[[], Encode]]:
    def make(lines: Texts, options: argparse.Namespace) -> Callable[[], Encode]:
        from dragoman.text import load_tokenizer
        from dragoman.text.learn import learn

        where = Path(tempfile.mkdtemp())
        learn(kind, lines, options.vocabulary).save(where, "shared")

        def load() -> Encode:
            tokenizer = load_tokenizer(where, "shared")
            if options.sampling:
                return resampling(tokenizer, options)
            return lambda texts: tokenizer.encode_many(texts, threads=options.threads)

        return load

    return make


def resampling(tokenizer: Any, options: argparse.Namespace) -> Encode:
    """From ids, which are made before the clock starts, in threads, as the loader does it."""
    import numpy as np

    if not tokenizer.resamples_in_threads:
        raise SystemExit("there is no C compiler here, so there is nothing to compare")
    blocks = []
    for start in range(0, len(options.lines), 1024):
        rows = tokenizer.encode_many(options.lines[start : start + 1024], threads=options.threads)
        lengths = np.array([*map(len, rows)])
        seeds = np.arange(start, start + len(rows)).astype(np.uint64)
        blocks.append((np.array([i for row in rows for i in row], np.uint16), lengths, options.sampling, seeds))

    def drawn(block: Any) -> list[list[int]]:
        ids, lengths = tokenizer.resample(*block)
        return np.split(ids, np.cumsum(lengths)[:-1])

    def all_drawn(_: Texts) -> Any:
        with ThreadPoolExecutor(options.threads) as pool:
            return [row for rows in pool.map(drawn, blocks) for row in rows]

    return all_drawn


def sentencepiece(kind: str) -> Callable[[Texts, argparse.Namespace], Callable[[], Encode]]:
    def make(lines: Texts, options: argparse.Namespace) -> Callable[[], Encode]:
        import sentencepiece as library

        model = io.BytesIO()
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=options.vocabulary,
            byte_fallback=True, num_threads=options.threads, minloglevel=2,
        )  # fmt: skip

        def load() -> Encode:
            processor = library.SentencePieceProcessor(model_proto=model.getvalue())
            drawn = {"enable_sampling": True, "alpha": options.sampling, "nbest_size": -1} if options.sampling else {}
            return lambda texts: processor.encode(texts, num_threads=options.threads, **drawn)

        return load

    return make


def tokenizers(kind: str) -> Callable[[Texts, argparse.Namespace], Callable[[], Encode]]:
    def make(lines: Texts, options: argparse.Namespace) -> Callable[[], Encode]:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        model = {"bpe": models.BPE, "unigram": models.Unigram, "wordpiece": models.WordPiece}[kind]
        trainer = {
            "bpe": trainers.BpeTrainer,
            "unigram": trainers.UnigramTrainer,
            "wordpiece": trainers.WordPieceTrainer,
        }[kind]
        made = Tokenizer(model() if kind == "unigram" else model(unk_token="<unk>"))
        made.normalizer = normalizers.NFC()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if kind == "wordpiece" else pre_tokenizers.Metaspace()
        settings = {"unk_token": "<unk>"} if kind == "unigram" else {}
        made.train_from_iterator(
            lines,
            trainer(vocab_size=options.vocabulary, special_tokens=["<unk>"], show_progress=False, **settings),
        )
        saved = made.to_str()

        def load() -> Encode:
            tokenizer = Tokenizer.from_str(saved)
            if options.sampling:
                tokenizer.model.dropout = options.sampling
            batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
            return lambda texts: [encoding.ids for encoding in batch(texts, add_special_tokens=False)]

        return load

    return make


CONTENDERS = {
    ("bpe", "dragoman"): ours("bpe"),
    ("bpe", "sentencepiece"): sentencepiece("bpe"),
    ("bpe", "tokenizers"): tokenizers("bpe"),
    ("unigram", "dragoman"): ours("unigram"),
    ("unigram", "sentencepiece"): sentencepiece("unigram"),
    ("unigram", "tokenizers"): tokenizers("unigram"),
    ("wordpiece", "dragoman"): ours("wordpiece"),
    ("wordpiece", "tokenizers"): tokenizers("wordpiece"),
}
CAN_SAMPLE = [(kind, by) for kind, by in CONTENDERS if by != "tokenizers" or kind == "bpe"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="text, also .xz or .gz")
    parser.add_argument("--megabytes", type=float, default=3.0)
    parser.add_argument("--learn-megabytes", type=float, default=None, help="learn from less than is encoded")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sampling", type=float, default=0.0, help="draw tokens with this alpha instead of encoding")
    options = parser.parse_args()
    os.environ |= {"RAYON_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "true"}

    lines = options.lines = read(options.files, options.megabytes)
    learned_from = read(options.files, options.learn_megabytes) if options.learn_megabytes else lines
    megabytes = size(lines)
    learning: dict[tuple[str, str], float] = {}
    encoding: dict[tuple[str, str], float] = {}
    tokens: dict[tuple[str, str], float] = {}
    loaders = {}
    contenders = CAN_SAMPLE if options.sampling else list(CONTENDERS)
    for name in contenders:
        started = time.perf_counter()
        loaders[name] = CONTENDERS[name](learned_from, options)
        learning[name] = time.perf_counter() - started
    for _ in range(options.repeat):  # in turn, so that a busy moment does not fall on one of them alone
        for name, load in loaders.items():
            encode = load()
            started = time.perf_counter()
            rows = encode(lines)
            encoding[name] = min(encoding.get(name, float("inf")), time.perf_counter() - started)
            tokens[name] = sum(map(len, rows)) / len(lines)
            del rows

    versions = {name: importlib.metadata.version(name) for name in ("dragoman", "sentencepiece", "tokenizers")}
    print(f"{datetime.date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores, {versions}")
    print(
        f"{megabytes:.1f} MB encoded, learned from {size(learned_from):.1f} MB, vocabulary {options.vocabulary}, ",
        end="",
    )
    print(f"{options.threads} threads, best of {options.repeat}\n")
    what = f"sample {options.sampling}" if options.sampling else "encode"
    print(f"| kind | by | learn, s | {what}, MB/s | tokens/line | ours against it |")
    print("|---|---|---|---|---|---|")
    for kind, by in contenders:
        ratio = encoding[kind, by] / encoding[kind, "dragoman"]
        print(
            f"| {kind} | {by} | {learning[kind, by]:.1f} | {megabytes / encoding[kind, by]:.1f} "
            f"| {tokens[kind, by]:.1f} | {'' if by == 'dragoman' else f'{ratio:.2f}x'} |"
        )


if __name__ == "__main__":
    main()
