"""How often an imported Opus-MT model translates as Hugging Face does with it: a small one, trained here for a moment.

    python benchmarks/imported.py DATA [--steps 1000] [--lines 400] [--kind unigram|bpe]

DATA holds train.en, train.de and the test set of Multi30k (packed or not), as for benchmarks/multi30k.py. There is no
published model in reach of this script; what it trains has the same files: two sentencepiece models with nmt_nfkc, one
vocab.json for both, config.json and model.safetensors. Both sides translate the same lines, on the CPU.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from corpus_arguments import find_file

from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.evaluation.test_sets import read_lines
from dragoman.translation.translator import Translator

LONGEST = 80


def write_text_side(place: Path, sides: dict[str, list[str]], kind: str) -> Any:
    """Two sentencepiece models and a vocabulary of the tokens of both."""
    tokens: set[str] = set()
    for name, size in (("source", 3000), ("target", 4000)):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sides[name]), model_prefix=str(place / name), vocab_size=size, model_type=kind,
            normalization_rule_name="nmt_nfkc", minloglevel=2, pad_id=-1, bos_id=-1, eos_id=0, unk_id=1,
        )  # fmt: skip
        (place / f"{name}.model").rename(place / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(place / f"{name}.spm"))
        tokens |= {model.id_to_piece(i) for i in range(2, len(model))}
    names = ["</s>", "<unk>", *sorted(tokens), "<pad>"]
    (place / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    return transformers.MarianTokenizer(**{key: str(place / file) for key, file in files.items()})


def trained(tokenizer: Any, sides: dict[str, list[str]], steps: int) -> Any:
    pad = tokenizer.pad_token_id
    sizes = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 3), ("ffn_dim", 512))}
    config = transformers.MarianConfig(
        vocab_size=pad + 1, d_model=192, encoder_attention_heads=4, decoder_attention_heads=4, pad_token_id=pad,
        activation_function="swish", max_position_embeddings=512, scale_embedding=True, eos_token_id=0,
        decoder_start_token_id=pad, bad_words_ids=[[pad]], **sizes,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).train()
    optimizer = torch.optim.Adam(model.parameters(), 7e-4)
    pairs, draw = list(zip(sides["source"], sides["target"], strict=True)), random.Random(1)
    for step in range(steps):
        some = draw.sample(pairs, 32)
        batch = tokenizer(
            [a for a, _ in some], text_target=[b for _, b in some], padding=True, truncation=True, max_length=60,
            return_tensors="pt",
        )  # fmt: skip
        batch["labels"][batch["labels"] == pad] = -100
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.2f}", flush=True)
    with torch.no_grad():
        model.final_logits_bias.normal_(0, 0.2)  # trained ones are not zero
    model.generation_config.bad_words_ids = [[pad]]
    return model.eval()


def generated(model: Any, tokenizer: Any, lines: list[str], **settings: Any) -> list[str]:
    found = []
    for start in range(0, len(lines), 32):
        batch = tokenizer(lines[start : start + 32], return_tensors="pt", padding=True)
        with torch.no_grad():
            rows = model.generate(**batch, max_new_tokens=LONGEST, **settings)
        found += tokenizer.batch_decode(rows, skip_special_tokens=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--kind", choices=["unigram", "bpe"], default="unigram")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    sides = {
        name: read_lines(find_file(given.data, f"train.{code}")) for name, code in (("source", "en"), ("target", "de"))
    }
    lines = read_lines(find_file(given.data, "test_2016_flickr.en"))[: given.lines]
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        tokenizer = write_text_side(place, sides, given.kind)
        model = trained(tokenizer, sides, given.steps)
        model.save_pretrained(place / "opus")
        tokenizer.save_pretrained(place / "opus")
        read_source_model(place / "opus", ImportOptions()).write(place / "model")
        print("\n| search | engine | the same translation |\n|---|---|---|")
        for name, theirs, ours in (
            ("greedy", {"num_beams": 1}, {"beam": 1}),
            (
                "beam 4, by bare probability",
                {"num_beams": 4, "length_penalty": 0.0},
                {"beam": 4, "length_penalty": 0.0},
            ),
            ("beam 4, the usual settings of each", {"num_beams": 4}, {"beam": 4}),
        ):
            expected = generated(model, tokenizer, lines, **theirs)
            for engine, precision in (("torch", "float32"), ("native", "float32"), ("native", "int8")):
                translator = Translator.load(place / "model", device="cpu", engine=engine, precision=precision)
                found = translator.translate(lines, max_length=LONGEST - 1, extra_length=LONGEST, **ours)
                same = sum(one.text == other for one, other in zip(found, expected, strict=True))
                print(f"| {name} | {engine}, {precision} | {same} of {len(lines)} |", flush=True)
        print(f"\nfor example: {expected[0]!r}")


if __name__ == "__main__":
    main()
