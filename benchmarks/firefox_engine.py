"""Firefox's engine (fxtranslate) beside ours on models of Firefox's shapes: milliseconds per sentence, one thread.

    pip install fxtranslate                                 # in any environment
    python benchmarks/firefox_engine.py --python PATH       # the interpreter of that environment; this one by default

Weights are random, in the format of Firefox's models (int8, SSRU decoders), with a vocabulary of 32,000 and 8 heads.
The same file is read by fxtranslate and imported here; the search is greedy. The output bias of one token is so large
that both repeat this token until fxtranslate's limit of length; ours is given the same limit, and the texts must be the
same before times count. Without a shortlist, both compute the logits of all tokens. The engines run in turns; medians
are taken.
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
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

SHAPES = {  # encoder and decoder layers, d_model, d_ff
    "tiny": (6, 2, 256, 1536),
    "base-memory": (6, 4, 384, 1536),
}
VOCABULARY = 32_000
WORDS = (5, 20, 60)  # of a source
TURNS = 9
CHILD = """
import json, sys, time
from pathlib import Path
from fxtranslate import Translator
vocabulary = Path(sys.argv[2]).read_bytes()
translator = Translator(model=Path(sys.argv[1]).read_bytes(), src_vocab=vocabulary, trg_vocab=vocabulary)
print(json.dumps(translator.backend()), flush=True)
for line in sys.stdin:
    text = json.loads(line)
    begun = time.perf_counter()
    found = translator.translate(text)
    print(json.dumps([time.perf_counter() - begun, found]), flush=True)
"""


def words(count: int, seed: int) -> list[str]:
    """Words by chance, of syllables."""
    draw = random.Random(seed)
    return ["".join(draw.choice("bcdfghjklmnpqrstvwxz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
            for _ in range(count)]  # fmt: skip


def write_vocabulary(path: Path) -> int:
    """A sentencepiece model; returns its size, a multiple of 8."""
    from sentencepiece import SentencePieceTrainer

    written = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(words(20, i)) for i in range(14000)]), model_writer=written, minloglevel=2,
        vocab_size=VOCABULARY, model_type="unigram", pad_id=-1, bos_id=-1, eos_id=0, unk_id=1, num_threads=2,
        num_sub_iterations=1,
    )  # fmt: skip
    path.write_bytes(written.getvalue())
    return VOCABULARY


def write_model(directory: Path, shape: str, vocabulary: Path) -> Path:
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


def compare(shape: str, vocabulary: Path, work: Path, python: str) -> list[str]:
    """A row of the table for each length of the source."""
    from dragoman import Translator
    from dragoman.api import import_model

    file = write_model(work / shape, shape, vocabulary)
    import_model(file, out=work / f"{shape}-imported")
    ours = Translator.load(work / f"{shape}-imported", engine="native", threads=1)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    child = subprocess.Popen(
        [python, "-c", CHILD, str(file), str(vocabulary)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    backend = json.loads(child.stdout.readline())
    rows = []
    for count in WORDS:
        text, times = " ".join(words(count, 99)), {"theirs": list[float](), "ours": list[float]()}
        for turn in range(TURNS + 1):
            child.stdin.write(json.dumps(text) + "\n")
            child.stdin.flush()
            took, expected = json.loads(child.stdout.readline())
            limit = len(expected.split())
            begun = time.perf_counter()
            found = ours.translate(text, beam=1, max_length=limit, extra_length=1000, split="never")
            mine = time.perf_counter() - begun
            if found.text != expected:
                raise SystemExit(
                    f"{shape}: they do not agree: {len(found.text.split())} and {limit} words; nothing is timed"
                )
            if turn:  # the first is a warm-up
                times["theirs"].append(took)
                times["ours"].append(mine)
        theirs, mine = (1000 * statistics.median(times[name]) for name in ("theirs", "ours"))
        tokens = len(found.source_tokens)
        rows.append(f"| {shape}, {tokens} tokens in, {limit} out | {mine:.1f} | {theirs:.1f} ({theirs / mine:.1f}x) |")
        print(rows[-1], backend, flush=True)
    child.stdin.close()
    child.wait()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has fxtranslate")
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_vocabulary(work / "vocab.spm")
        rows = [row for shape in options.shapes for row in compare(shape, work / "vocab.spm", work, options.python)]
    print(f"\n{datetime.date.today()}, {platform.processor() or platform.machine()}, one thread\n")
    print("\n".join(["| ms per sentence, greedy | native int8 | fxtranslate |", "|---|---|---|", *rows]))


if __name__ == "__main__":
    main()
