"""Imported JoeyNMT models against the same model in PyTorch's modules; and errors."""

from __future__ import annotations

import copy
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_transformer import Plain
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

from command_line import leave
from dragoman.config import Recipe
from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.conversion.subword_model import restrict_vocabulary
from dragoman.errors import ConversionError
from dragoman.modeldir.info import read_info
from dragoman.models.loading import load_model
from dragoman.nn import sinusoid
from dragoman.text import BOS, EOS, PAD, load_tokenizer
from dragoman.translation.translator import Translator
from raising import raises

yaml = pytest.importorskip("yaml", reason="an extra")

D, HEADS, INNER, LAYERS = 20, 5, (33, 27), (1, 3)
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
CODES = "#version: 0.2\nl o\nlo w</w>\nlo w\nlow e\nlowe r</w>\ne r</w>\nn e\nne w</w>\n"
TOKENS = [["low", "lo@@", "w@@", "er", "new", "a", "low@@"], ["neu", "alt", "t@@", "ief", "er"]]
NAMES = {  # of fairseq, which the reference knows, for JoeyNMT's
    r"src_src_att\.(.)_layer": r"self_attn.\1_proj", r"src_src_att\.output_layer": "self_attn.out_proj",
    r"trg_trg_att\.(.)_layer": r"self_attn.\1_proj", r"trg_trg_att\.output_layer": "self_attn.out_proj",
    r"src_trg_att\.(.)_layer": r"encoder_attn.\1_proj", r"src_trg_att\.output_layer": "encoder_attn.out_proj",
    r"feed_forward\.pwff_layer\.0": "fc1", r"feed_forward\.pwff_layer\.3": "fc2",
    r"(\d)\.feed_forward\.layer_norm": r"\1.final_layer_norm", r"(\d)\.layer_norm": r"\1.self_attn_layer_norm",
    "x_layer_norm": "self_attn_layer_norm", "dec_layer_norm": "encoder_attn_layer_norm",
    r"src_embed\.lut": "encoder.embed_tokens", r"trg_embed\.lut": "decoder.embed_tokens",
}  # fmt: skip


def tensors(sizes: tuple[int, int], pre: bool, tied: bool, softmax: bool) -> dict[str, Tensor]:
    """Under JoeyNMT's names."""
    draw = torch.Generator().manual_seed(4)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw) * 0.02  # small, so that what norms add to the variance can be seen

    found = {"src_embed.lut.weight": some(sizes[0], D), "trg_embed.lut.weight": some(sizes[1], D)}
    if tied:
        found["trg_embed.lut.weight"] = found["src_embed.lut.weight"]
    for side, layers, inner in zip(("encoder", "decoder"), LAYERS, INNER, strict=True):
        found[f"{side}.pe.pe"] = torch.zeros(1, 9, D)
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            uses = ("src_src_att",) if side == "encoder" else ("trg_trg_att", "src_trg_att")
            norms = ("layer_norm",) if side == "encoder" else ("x_layer_norm", "dec_layer_norm")
            matrices = {f"{use}.{part}_layer": (D, D) for use in uses for part in ("k", "v", "q", "output")}
            matrices |= {"feed_forward.pwff_layer.0": (inner, D), "feed_forward.pwff_layer.3": (D, inner)}
            for name, shape in matrices.items():
                found |= {f"{layer}.{name}.weight": 10 * some(*shape), f"{layer}.{name}.bias": some(shape[0])}
            for name in (*norms, "feed_forward.layer_norm"):
                found |= {f"{layer}.{name}.weight": 1 + some(D), f"{layer}.{name}.bias": some(D)}
        if pre:
            found |= {f"{side}.layer_norm.weight": 1 + some(D), f"{side}.layer_norm.bias": some(D)}
    found["decoder.output_layer.weight"] = found["trg_embed.lut.weight"] if softmax else some(sizes[1], D)
    return found


def write_joey(directory: Path, *, order: str = "pre", tied: bool = False, softmax: bool = True, scale: bool = True,
               change: Any = None) -> Path:  # fmt: skip
    """A directory with all its files; `change` is done to its settings."""
    directory.mkdir(parents=True)
    tokens = [[*TOKENS[0], *TOKENS[1][:-1]]] * 2 if tied else TOKENS
    for name, side in zip(("src", "trg"), tokens, strict=True):
        (directory / f"{name}_vocab.txt").write_text("\n".join([*SPECIAL, *side]) + "\n", encoding="utf-8")
    (directory / "codes.txt").write_text(CODES)
    side = {"type": "transformer", "hidden_size": D, "num_heads": HEADS, "dropout": 0.2, "layer_norm": order,
            "embeddings": {"embedding_dim": D, "scale": scale}, "activation": "gelu"}  # fmt: skip
    text = {"level": "bpe", "tokenizer_type": "subword-nmt", "tokenizer_cfg": {"codes": "somewhere/codes.txt"}}
    config = {
        "name": "small", "data": {"src": {"lang": "en", **text}, "trg": {"lang": "de", **text}},
        "model": {
            "tied_embeddings": tied, "tied_softmax": softmax,
            "encoder": {**copy.deepcopy(side), "num_layers": LAYERS[0], "ff_size": INNER[0]},
            "decoder": {**copy.deepcopy(side), "num_layers": LAYERS[1], "ff_size": INNER[1]},
        },
    }  # fmt: skip
    if change is not None:
        change(config)
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    sizes = (len(tokens[0]) + 4, len(tokens[1]) + 4)
    saved = {
        "model_state": tensors(sizes, order == "pre", tied, softmax),
        "optimizer_state": {},
        "stats_state": {"a": 1},
    }
    torch.save(saved, directory / "300.ckpt")
    (directory / "best.ckpt").symlink_to("300.ckpt")
    return directory


def as_fairseq(name: str) -> str:
    for theirs, other in NAMES.items():
        name, done = re.subn(theirs, other, name)
        if done:
            break
    return name


@pytest.mark.parametrize(
    "settings",
    [{}, {"order": "post", "tied": True}, {"order": "post", "softmax": False}, {"scale": False}],
    ids=["pre-norm", "post-norm, all tied", "nothing tied", "not scaled"],
)
def test_the_logits_are_joeynmts(settings: dict[str, Any], tmp_path: Path) -> None:
    place = write_joey(tmp_path / "joey", **settings)
    read_source_model(place, ImportOptions()).write(tmp_path / "model")
    found = torch.load(place / "best.ckpt")["model_state"]
    named = {as_fairseq(name): tensor for name, tensor in found.items()}
    scale = D**0.5 if settings.get("scale", True) else 1.0
    plain = Plain(named, HEADS, scale, "gelu", settings.get("order", "pre") == "pre", epsilon=1e-6)
    model, recipe = load_model(tmp_path / "model", PAD)
    assert recipe.model.norm_epsilon == 1e-6
    sides = [load_tokenizer(tmp_path / "model", name) for name in ("source", "target")]
    rows = [[1, 2, 3, 0, *range(4, side.vocabulary_size)] for side in sides]
    codes = sinusoid(torch.arange(50), D)
    draw = torch.Generator().manual_seed(1)
    for length in (1, 4, 12):
        source, target = (torch.randint(4, len(side), (length,), generator=draw).tolist() for side in rows)
        given = torch.tensor([*source, 3]), torch.tensor([2, *target])  # their ids from 4 on are ours
        expected = plain.logits(*given, (codes, codes), "decoder.output_layer.weight")[:, rows[1]]
        with torch.no_grad():
            logits = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))[0]
        torch.testing.assert_close(logits, expected, atol=2e-6, rtol=1e-4)


def test_text_is_cut_into_known_tokens_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_joey(tmp_path / "joey")
    code, out, err = leave(capsys, "import", str(place), "--out", str(tmp_path / "model"))
    assert code == 0 and "spaces" not in out, err
    model = Translator.load(tmp_path / "model")
    tokens = model.source.tokens(model.source.encode("low lower new"))
    assert tokens == ["▁low", "▁low", "<unk>", "▁<unk>", "▁new"]  # "lower" is no token: low@@ e@@ r, as it was merged
    assert model.source.decode(model.source.encode("low new")) == "low new"
    assert (tmp_path / "model" / "card.md").read_text().startswith("# en to de\n")
    assert read_info(tmp_path / "model").language_pair == ("en", "de")
    recipe = Recipe.load(tmp_path / "model" / "recipe.toml")
    assert (recipe.model.tie, recipe.model.output_bias, recipe.model.d_ff) == ("target", False, INNER[0])
    (place / "codes.txt").unlink()
    with raises(ConversionError, "file_missing", "codes.txt", "`tokenizer`"):
        read_source_model(place, ImportOptions())


def test_a_restricted_sentencepiece_model_makes_known_tokens_alone() -> None:
    lines = ["the old box stands in the old hall", "the new boxes stand in new halls"] * 9
    written = BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, vocab_size=50, minloglevel=2,
                               hard_vocab_limit=False)  # fmt: skip
    whole, some = SentencePieceProcessor(), SentencePieceProcessor()
    whole.LoadFromSerializedProto(written.getvalue())
    tokens = [whole.id_to_piece(i) for i in range(len(whole))]
    long = [token for token in tokens[3:] if len(token) > 1]
    vocabulary = {*tokens} - {*long[::2]}
    some.LoadFromSerializedProto(restrict_vocabulary(written.getvalue(), vocabulary))
    assert len(some) == len(whole) and [some.id_to_piece(i) for i in range(len(some))] == tokens
    changed = 0
    for line in lines[:2]:
        before, after = (processor.encode(line, out_type=str) for processor in (whole, some))
        assert all(token in vocabulary or len(token) == 1 for token in after) and some.decode(after) == line
        changed += before != after
    assert changed
    everything = SentencePieceProcessor()
    everything.LoadFromSerializedProto(restrict_vocabulary(written.getvalue(), {*tokens}))
    assert everything.encode(lines, out_type=str) == whole.encode(lines, out_type=str)
    with raises(ConversionError, "file_damaged"):
        restrict_vocabulary(written.getvalue()[:-1], vocabulary)


def at(*path: str, value: Any) -> Any:
    def change(config: dict[str, Any]) -> None:
        for key in path[:-1]:
            config = config.setdefault(key, {})
        config[path[-1]] = value

    return change


WRONG: dict[str, tuple[Any, tuple[str, ...]]] = {
    "recurrent": (at("model", "encoder", "type", value="recurrent"), ("unsupported_model", "'recurrent'")),
    "heads differ": (
        at("model", "decoder", "num_heads", value=4),
        ("unsupported_setting", "num_heads=5", "num_heads=4"),
    ),
    "norms differ": (
        at("model", "decoder", "layer_norm", value="post"),
        ("unsupported_setting", "'pre'", "decoder's", "'post'"),
    ),
    "weighed": (at("model", "encoder", "alpha", value=1.2), ("unsupported_setting", "alpha=1.2")),
    "activation": (at("model", "encoder", "activation", value="mish"), ("unsupported_setting", "activation='mish'")),
    "lower case": (at("data", "src", "lowercase", value=True), ("unsupported_setting", "lowercase=True")),
    "normalized": (at("data", "trg", "normalize", value=True), ("unsupported_setting", "normalize=True")),
    "moses": (
        at("data", "src", "tokenizer_cfg", "pretokenizer", value="moses"),
        ("unsupported_setting", "pretokenizer='moses'"),
    ),
    "characters": (at("data", "src", "level", value="char"), ("unsupported_setting", "'char'")),
    "language tags": (
        at("data", "special_symbols", value={"lang_tags": ["<de>"]}),
        ("unsupported_setting", "lang_tags="),
    ),
    "other tokens": (at("data", "special_symbols", value={"pad_id": 5}), ("vocabulary_mismatch", "'<pad>'", "5")),
    "no model": (at("model", value=None), ("file_damaged", "'model'")),
    "wrong sizes": (at("model", "encoder", "ff_size", value=40), ("weights_mismatch",)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, expected = WRONG[wrong]
    place = write_joey(tmp_path / "joey", change=change)
    with raises(ConversionError, *expected):
        read_source_model(place, ImportOptions())
    code, out, err = leave(capsys, "import", str(place), "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "") and err.startswith("dragoman: ")
    assert [path.name for path in tmp_path.iterdir()] == ["joey"]


def test_without_yaml_the_pip_line_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_joey(tmp_path / "joey")
    monkeypatch.setitem(sys.modules, "yaml", None)
    code, _, err = leave(capsys, "import", str(place), "--out", str(tmp_path / "out"))
    assert code == 2 and "pip install 'dragoman[joeynmt]'" in err


def test_files_that_are_missing_or_damaged(tmp_path: Path) -> None:
    place = write_joey(tmp_path / "joey")
    (place / "best.ckpt").unlink()
    assert read_source_model(place, ImportOptions()).files[0].name == "300.ckpt"
    (place / "400.ckpt").write_bytes((place / "300.ckpt").read_bytes())
    with raises(ConversionError, "several_checkpoints", "300.ckpt", "400.ckpt"):
        read_source_model(place, ImportOptions())
    (place / "400.ckpt").unlink()
    torch.save({"model_state": [1]}, place / "300.ckpt")
    with raises(ConversionError, "file_damaged", "'model_state'"):
        read_source_model(place, ImportOptions())
    (place / "config.yaml").write_text("a: [")
    with raises(ConversionError, "file_damaged", "config.yaml"):
        read_source_model(place, ImportOptions())
    (place / "config.yaml").write_text("- 1")
    with raises(ConversionError, "file_damaged"):
        read_source_model(place, ImportOptions())
