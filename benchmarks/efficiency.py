"""Translating on a CPU as the WMT efficiency task reports it, beside Firefox's engine (fxtranslate) and others.

    pip install fxtranslate                                # in any environment
    python benchmarks/efficiency.py --python PATH          # the interpreter of that environment; this one by default

Milliseconds for one sentence, words per second on one core and on two, and megabytes, for models of Firefox's shapes
with random weights, a vocabulary of 32,000 and 8 heads. The search is greedy.

fxtranslate reads a file in the format of Firefox's models (int8, SSRU decoder), which is imported here. The output bias
of one token is so large that both repeat this token until fxtranslate's limit of length; ours is given the same limit,
and the texts must be the same before times count. There is no shortlist: both compute the logits of all tokens.
CTranslate2 and Hugging Face have no SSRU; they run the same sizes with the decoder of the paper, on sources and outputs
with as many tokens. So does ours once more. Each runs in processes of its own, pinned to a core each; on two cores each
of two processes gets half of the sentences. Each has the fastest of its settings (batch size). They run in turns, and
medians are taken. Words are those of the sources. Sizes are those of the files that each loads; Hugging Face's are in
float32. Memory is the largest resident size of a process, with Python.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from translate_cpu import best_setting
from translate_peers import OURS, PEERS, ctranslate2, settings_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

SHAPES = {  # encoder and decoder layers, d_model, d_ff
    "tiny": (6, 2, 256, 1536),
    "base-memory": (6, 4, 384, 1536),
}
VOCABULARY = 32_000
WORDS = (5, 20, 60)  # of a source
BULK_WORDS, BULK = 20, {"Hugging Face": 128}  # words of a source; sentences, 256 by default
TURNS = 5
FIREFOX, IMPORTED = "fxtranslate", "ours int8, the same file"
CONTENDERS = (IMPORTED, FIREFOX, OURS[0], PEERS[0], PEERS[2])
FIREFOX_CHILD = """
import json, sys, time
from pathlib import Path
from fxtranslate import Translator
vocabulary = Path(sys.argv[2]).read_bytes()
translator = Translator(model=Path(sys.argv[1]).read_bytes(), src_vocab=vocabulary, trg_vocab=vocabulary)
print(json.dumps(translator.backend()), flush=True)
for line in sys.stdin:
    texts = json.loads(line)["texts"]
    begun = time.perf_counter()
    found = [translator.translate(text) for text in texts]
    took = time.perf_counter() - begun
    held = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print(json.dumps({"seconds": took, "first": found[0], "mib": int(held) / 1024}), flush=True)
"""


def words(count: int, seed: int) -> str:
    """Random words of random syllables."""
    draw = random.Random(seed)
    return " ".join(
        "".join(draw.choice("bcdfghjklmnpqrstvwxz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
        for _ in range(count)
    )


def write_vocabulary(path: Path) -> None:
    """A sentencepiece model."""
    from sentencepiece import SentencePieceTrainer

    written = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([words(20, i) for i in range(14000)]), model_writer=written, minloglevel=2,
        vocab_size=VOCABULARY, model_type="unigram", pad_id=-1, bos_id=-1, eos_id=0, unk_id=1, num_threads=2,
        num_sub_iterations=1,
    )  # fmt: skip
    path.write_bytes(written.getvalue())


def write_firefox_model(directory: Path, shape: str, vocabulary: Path) -> Path:
    """The model file of a shape, next to its vocabulary."""
    import numpy as np
    from sentencepiece import SentencePieceProcessor

    from marian_model import SSRU, USUAL, random_arrays, write_bin, yaml_of

    encoder, decoder, d_model, d_ff = SHAPES[shape]
    config = {
        **USUAL, **SSRU, "enc-depth": encoder, "dec-depth": decoder, "dim-emb": d_model, "transformer-heads": 8,
        "transformer-dim-ffn": d_ff, "dim-vocabs": [VOCABULARY, VOCABULARY],
    }  # fmt: skip
    arrays = {name: np.float32(0.2) * array for name, array in random_arrays(config, (VOCABULARY, VOCABULARY)).items()}
    spm = SentencePieceProcessor(model_file=str(vocabulary))
    chosen = next(i for i in range(VOCABULARY) if spm.id_to_piece(i).startswith("▁") and len(spm.id_to_piece(i)) > 4)
    arrays["decoder_ff_logit_out_b"][0, chosen] = 1000.0
    directory.mkdir()
    (directory / "vocab.spm").write_bytes(vocabulary.read_bytes())
    write_bin(directory / "model.bin", arrays, yaml_of(config), int8=True)
    return directory / "model.bin"


def write_plain_model(place: Path, shape: str, imported: Path) -> Path:
    """A model of a shape with the paper's decoder, random weights and the tokenizer of an imported one."""
    from dragoman.config import ModelRecipe, Recipe
    from dragoman.modeldir.info import ModelInfo
    from dragoman.modeldir.layout import load_tokenizers
    from dragoman.modeldir.save import save_model
    from dragoman.models.loading import as_arrays, build_model

    encoder, decoder, d_model, d_ff = SHAPES[shape]
    recipe = ModelRecipe(encoder_layers=encoder, decoder_layers=decoder, d_model=d_model, d_ff=d_ff, n_heads=8)
    tokenizers = load_tokenizers(imported)
    size = tokenizers[0].vocabulary_size
    weights = as_arrays(build_model(recipe, size, 0).state_dict())
    save_model(
        place, recipe=Recipe(model=recipe), info=ModelInfo(size), weights=weights, tokenizers=tokenizers, card=""
    )
    return place


def write_models(work: Path, shape: str) -> dict[str, Path]:
    """The model of each contender."""
    from dragoman.api import import_model
    from dragoman.modeldir.quantized_model import quantize_model

    file = write_firefox_model(work / shape, shape, work / "vocab.spm")
    imported = import_model(file, out=work / f"{shape}-imported").path
    plain = write_plain_model(work / f"{shape}-plain", shape, imported)
    ctranslate2(plain, work, quantize=True)  # converts it
    int8 = {
        name: quantize_model(model, work / f"{model.name}-int8").path
        for name, model in ((IMPORTED, imported), (OURS[0], plain))
    }
    return dict.fromkeys(CONTENDERS, plain) | {FIREFOX: file} | int8


def searches(name: str, model: Path) -> Callable[[dict[str, Any]], str]:
    """A function that translates the texts, or as many tokens, of a request, and returns the first translation."""
    if name == IMPORTED:
        from dragoman import Translator

        translator = Translator.load(model, engine="native", threads=1)

        def translate(request: dict[str, Any]) -> str:
            limits = {"max_length": request["output"], "extra_length": 1000}
            return translator.translate(request["texts"], beam=1, split="never", **limits)[0].text

        return translate
    choices, chosen = settings_for(name, model.parent, model), {}

    def run(request: dict[str, Any]) -> str:
        draw, length = random.Random(request["tokens"]), request["output"]
        rows = [[draw.randrange(4, VOCABULARY) for _ in range(request["tokens"])] for _ in request["texts"]]
        if len(rows) not in chosen:
            chosen[len(rows)] = best_setting(choices, rows[:64], 1, cpu_time=False)
        chosen[len(rows)](rows, 1, length)
        return ""

    return run


def child(name: str, model: Path) -> None:
    """Answer requests of the parent process."""
    translate = searches(name, model)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        begun = time.perf_counter()
        first = translate(request)
        took = time.perf_counter() - begun
        held = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
        print(json.dumps({"seconds": took, "first": first, "mib": held}), flush=True)


class Contender:
    """Two processes that translate, each on a core of its own."""

    def __init__(self, name: str, model: Path, vocabulary: Path, python: str) -> None:
        self.name, self.mib = name, 0.0
        own = [sys.executable, "-W", "ignore", __file__, "--child", name, "--model", str(model)]
        command = [python, "-c", FIREFOX_CHILD, str(model), str(vocabulary)] if name == FIREFOX else own
        variables = {key: value for key, value in os.environ.items() if name != FIREFOX or key != "PYTHONPATH"}
        self.processes = [
            subprocess.Popen(
                ["taskset", "-c", str(core), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**variables, "OMP_NUM_THREADS": "1"},
            )
            for core in sorted(os.sched_getaffinity(0))[:2]
        ]  # fmt: skip
        greetings = [json.loads(process.stdout.readline()) for process in self.processes]
        self.backend = greetings[0]

    def ask(self, requests: list[dict[str, Any]]) -> tuple[float, str]:
        """The seconds of the slowest process, one for each request, and the first translation."""
        time.sleep(0.1)  # threads of whoever ran before may still spin
        for process, request in zip(self.processes, requests, strict=False):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        found = [json.loads(process.stdout.readline()) for process in self.processes[: len(requests)]]
        self.mib = max(self.mib, found[0]["mib"])
        return max(one["seconds"] for one in found), found[0]["first"]

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.stdin.close()
            process.wait()


def megabytes(name: str, model: Path) -> float:
    """The size of a model file, or of all files of a directory; CTranslate2 has converted its own."""
    model = model.with_name(f"{model.name}-ctranslate2-int8") if name == PEERS[0] else model
    files = [model] if model.is_file() else [path for path in model.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files) / 1e6


def compare(shape: str, work: Path, python: str) -> list[str]:
    """A row of the table for each contender."""
    from dragoman import Translator

    models = write_models(work, shape)
    encode = Translator.load(models[IMPORTED], engine="native").source.encode_many
    contenders = {name: Contender(name, models[name], work / "vocab.spm", python) for name in CONTENDERS}
    print(f"{shape}: fxtranslate computes with {contenders[FIREFOX].backend}", flush=True)

    def request(count: int, sentences: int, seed: int) -> dict[str, Any]:
        texts = [words(count, seed + i) for i in range(sentences)]
        limit = len(contenders[FIREFOX].ask([{"texts": texts[:1]}])[1].split())
        return {"texts": texts, "tokens": len(encode(texts[:1])[0]), "output": limit}

    times: dict[str, dict[Any, list[float]]] = {name: {} for name in CONTENDERS}
    singles = {count: request(count, 1, 99) for count in WORDS}
    for turn in range(TURNS + 1):
        for count, one in singles.items():
            expected = contenders[FIREFOX].ask([one])[1]
            for name, contender in contenders.items():
                took, found = contender.ask([one])
                if found != (expected if name in (FIREFOX, IMPORTED) else ""):
                    raise SystemExit(f"{shape}: {name} gives {len(found.split())} words, not {len(expected.split())}")
                if turn:  # the first is a warm-up
                    times[name].setdefault(count, []).append(took)
    for turn in range(TURNS // 2 + 1):
        for name, contender in contenders.items():
            sentences = BULK.get(name, 256)
            whole = request(BULK_WORDS, sentences, 1000)
            half = {**whole, "texts": whole["texts"][: sentences // 2]}
            for cores, requests in ((1, [whole]), (2, [half, half])):
                took = contender.ask(requests)[0]
                if turn:
                    times[name].setdefault(f"{cores} cores", []).append(sentences * BULK_WORDS / took)
    rows = []
    for name, contender in contenders.items():
        contender.close()
        ms = [f"{1000 * statistics.median(times[name][count]):.1f}" for count in WORDS]
        speeds = [f"{statistics.median(times[name][f'{cores} cores']):,.0f}" for cores in (1, 2)]
        sizes = [f"{megabytes(name, models[name]):.0f}", f"{contender.mib:.0f}"]
        rows.append(f"| {shape}: {name} | {' | '.join([*ms, *speeds, *sizes])} |")
        print(rows[-1], flush=True)
    lengths = ", ".join(f"{one['tokens']} to {one['output']}" for one in singles.values())
    print(f"{shape}: tokens of one sentence and of its translation: {lengths}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has fxtranslate")
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.model)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_vocabulary(work / "vocab.spm")
        rows = [row for shape in options.shapes for row in compare(shape, work, options.python)]
    print(f"\n{datetime.date.today()}, {platform.processor() or platform.machine()}\n")
    heads = [f"ms, {count} words" for count in WORDS]
    heads += [f"words/s, {cores}" for cores in ("one core", "two cores")] + ["model MB", "memory MiB"]
    print("\n".join([f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", *rows]))


if __name__ == "__main__":
    main()
