"""Translating on a GPU: our engine beside Hugging Face generate, ids to ids with the encoder, in one run.

    python benchmarks/translate_gpu.py --ours 20 --theirs 5

The model is the paper's base (6 + 6 layers, 37,000 tokens) with random weights, in bfloat16; Hugging Face's is a
MarianMTModel of the same sizes. 30 source tokens and 30 output tokens, EOS tokens included, are forced on both: 30
steps of the decoder. Medians; ours and theirs take turns in each cell.
"""

from __future__ import annotations

import argparse
import datetime
import math
import random
import statistics
import time
from collections.abc import Callable

import torch
import transformers

import dragoman
from dragoman import Transformer
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.search.types import Search

VOCABULARY, SOURCE, OUTPUT = 37_000, 30, 30
CELLS = [(1, 1), (64, 1), (512, 1), (1, 4), (64, 4), (512, 4)]
TARGETS = {(1, 1): 12, (64, 1): 12, (512, 1): 8, (1, 4): 8, (64, 4): 6, (512, 4): 4}
Ids = list[list[int]]


def timed(call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def hugging_face() -> transformers.MarianMTModel:
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu",
        max_position_embeddings=512, scale_embedding=True, pad_token_id=0, eos_token_id=2, decoder_start_token_id=1,
        forced_eos_token_id=2,
    )  # fmt: skip
    return transformers.MarianMTModel(config).to("cuda", torch.bfloat16).eval()


def generate(model: transformers.MarianMTModel, sources: Ids, beam: int, tokens: int, **more: object) -> Ids:
    """From lists to lists, as ours."""
    width = max(map(len, sources)) + 1
    rows = torch.tensor([[*s, 2, *[0] * (width - 1 - len(s))] for s in sources], device="cuda")
    with torch.inference_mode():
        out = model.generate(
            input_ids=rows, attention_mask=(rows != 0).long(), num_beams=beam, do_sample=False, min_new_tokens=tokens,
            max_new_tokens=tokens, **({"length_penalty": 0.6} if beam > 1 else {}), **more,
        )  # fmt: skip
    return out.tolist()


def some(n: int, tokens: int, seed: int = 0) -> Ids:
    draw = random.Random(seed)
    return [[draw.randrange(4, VOCABULARY) for _ in range(tokens)] for _ in range(n)]


def ragged(n: int) -> Ids:
    """Log-normal lengths around 28 tokens, shortest first."""
    draw = random.Random(1)
    lengths = sorted(min(120, max(3, round(math.exp(draw.gauss(math.log(24), 0.55))))) for _ in range(n))
    return [[draw.randrange(4, VOCABULARY) for _ in range(length)] for length in lengths]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", type=int, default=20, help="calls a cell")
    parser.add_argument("--theirs", type=int, default=5, help="calls a cell, for each setting of theirs")
    parser.add_argument("--static", action="store_true", help="also try Hugging Face's static cache, not compiled")
    parser.add_argument("--compiled", action="store_true", help="also with torch.compile, for one sentence, greedy")
    parser.add_argument("--ragged", type=int, default=2048, help="sentences of unequal lengths; 0 for none")
    options = parser.parse_args()
    torch.manual_seed(0)
    engine = CudaEngine(Transformer("base", VOCABULARY).eval().cuda())
    peer = hugging_face()
    settings: dict[str, dict[str, object]] = {"dynamic": {}}
    if options.static:
        settings["static"] = {"cache_implementation": "static", "disable_compile": True}

    print(f"{datetime.date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, transformers")
    print(f"{transformers.__version__}, dragoman {dragoman.__version__}; kernels: {type(engine.kernels).__name__}\n")
    print("| sentences | beam | first call, ms | ours, ms | Hugging Face, ms (cache) | ratio | target |")
    print("|---|---|---|---|---|---|---|")
    for n, beam in CELLS:
        sources = some(n, SOURCE - 1)
        search = Search(beam=beam, min_length=OUTPUT - 1, max_length=OUTPUT - 1)
        first = timed(lambda sources=sources, search=search: engine.search(sources, search))
        mine, theirs = [], {name: [] for name in settings}
        for i in range(max(options.theirs + 1, 2)):  # the first round warms up
            for name, more in settings.items():
                took = timed(lambda s=sources, b=beam, m=more: generate(peer, s, b, OUTPUT, **m))
                theirs[name] += [took] if i else []
            for _ in range(-(-options.ours // max(1, options.theirs))):
                mine += [timed(lambda sources=sources, search=search: engine.search(sources, search))] if i else []
        ours = statistics.median(mine)
        name, best = min(((k, statistics.median(v)) for k, v in theirs.items() if v), key=lambda pair: pair[1])
        ratio, target = f"{best / ours:.1f}x", f"{TARGETS[n, beam]}x"
        print(f"| {n} | {beam} | {first:.0f} | {ours:.2f} | {best:.0f} ({name}) | {ratio} | {target} |", flush=True)

    if options.ragged:
        sources = ragged(options.ragged)
        print(f"\n{options.ragged} sentences of 3 to 120 tokens, as many tokens out as in; sentences a second\n")
        print("| beam | ours, 512 a call | Hugging Face, 128 a call | 512 a call | ratio to the better |")
        print("|---|---|---|---|---|")
        for beam in (1, 4):
            search = Search(beam=beam, extra_length=0)

            def ours_all(search: Search = search) -> None:
                for start in range(0, len(sources), engine.batch):
                    engine.search(sources[start : start + engine.batch], search)

            def theirs_all(batch: int, beam: int = beam) -> None:
                for start in range(0, len(sources), batch):
                    part = sources[start : start + batch]
                    generate(peer, part, beam, len(part[-1]) + 1)

            ours_all()
            mine = statistics.median(timed(ours_all) for _ in range(3))
            their = [min(timed(lambda b=batch: theirs_all(b)) for _ in range(2)) for batch in (128, 512)]
            rate = [len(sources) / ms * 1e3 for ms in (mine, *their)]
            print(
                f"| {beam} | {rate[0]:.0f} | {rate[1]:.0f} | {rate[2]:.0f} | {rate[0] / max(rate[1:]):.1f}x |",
                flush=True,
            )

    if options.compiled:
        sources = some(1, SOURCE - 1)
        call = lambda: generate(peer, sources, 1, OUTPUT, cache_implementation="static")  # noqa: E731
        first = timed(call)
        second, rest = timed(call), statistics.median(timed(call) for _ in range(5))
        print(
            f"\nHugging Face, static cache and torch.compile, one sentence, greedy: first call {first:.0f} ms, second"
        )
        print(f"{second:.0f} ms, then {rest:.1f} ms", flush=True)
    print(f"\npeak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
