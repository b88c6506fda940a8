"""Imported fairseq checkpoints against the same model in PyTorch's modules; and errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_files import HEADS, WORDS, D, dictionaries, tensors, write_fairseq
from plain_transformer import Plain

from command_line import leave
from dragoman.config import Recipe
from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.errors import ConversionError
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.models.loading import load_model
from dragoman.text import BOS, EOS, PAD, load_tokenizer
from dragoman.translation.translator import Translator
from raising import raises

PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}
KINDS: dict[str, dict[str, Any]] = {
    "two dictionaries, nothing shared": {},
    "one dictionary, all shared, pre-norm": {"joined": True, "form": "parts", **PRE},
    "learned positions, tied softmax, gelu": {
        "share_decoder_input_output_embed": True,
        "activation_fn": "gelu",
        **LEARNED,
    },
    "before 0.9, not scaled": {"form": "old", "no_scale_embedding": True, "activation_fn": "swish"},
    "no positions": {"no_token_positional_embeddings": True},
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def codes(settings: dict[str, Any], found: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the positions 0, 1, ..., which fairseq counts from 2: written out one by one."""
    if settings.get("no_token_positional_embeddings"):
        return torch.zeros(50, D), torch.zeros(50, D)
    if settings.get("encoder_learned_pos"):
        return found["encoder.embed_positions.weight"][2:], found["decoder.embed_positions.weight"][2:]
    half = D // 2
    table = torch.zeros(50, D)
    for place in range(50):
        for i in range(half):
            angle = (place + 2) * math.exp(-i * math.log(10000) / (half - 1))
            table[place, i], table[place, half + i] = math.sin(angle), math.cos(angle)
    return table, table


@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_are_fairseqs(kind: str, tmp_path: Path) -> None:
    settings = KINDS[kind]
    checkpoint = write_fairseq(tmp_path / "fairseq", **settings)
    read_source_model(checkpoint, ImportOptions()).write(tmp_path / "model")
    names = [[*SPECIAL, *side] for side in dictionaries(settings.get("joined", False))]
    asked = {**settings, "share_all_embeddings": settings.get("joined", False), "max_source_positions": 50}
    found = tensors((len(names[0]), len(names[1])), {**asked, "max_target_positions": 60})
    scale = 1.0 if settings.get("no_scale_embedding") else D**0.5
    plain = Plain(found, HEADS, scale, settings.get("activation_fn", "relu"), "encoder_normalize_before" in settings)
    model, _ = load_model(tmp_path / "model", PAD)
    sides = [load_tokenizer(tmp_path / "model", name) for name in ("source", "target")]
    ours = [[*side.tokens(range(side.vocabulary_size))] for side in sides]
    rows = [  # fairseq's id of each of ours; our BOS is fairseq's EOS, and fairseq's BOS is a plain token
        [2 if i == BOS else 0 if i == 4 else table.index(side.names[i]) for i in range(len(shown))]
        for side, table, shown in zip(sides, names, ours, strict=True)
    ]
    draw = torch.Generator().manual_seed(1)
    for length in (1, 5, 13):
        source, target = (torch.randint(5, len(side), (length,), generator=draw).tolist() for side in rows)
        there = [torch.tensor([table[i] for i in ids]) for table, ids in zip(rows, (source, target), strict=True)]
        given = torch.cat([there[0], torch.tensor([2])]), torch.cat([torch.tensor([2]), there[1]])
        expected = plain.logits(*given, codes(settings, found), "decoder.output_projection.weight")[:, rows[1]]
        with torch.no_grad():
            logits = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))[0]
        kept = [i for i in range(logits.shape[1]) if i != BOS]
        torch.testing.assert_close(logits[:, kept], expected[:, kept], atol=1e-4, rtol=1e-4)
        assert (logits[:, BOS] < expected[:, BOS] - 29).all()


def test_the_settings_and_the_vocabulary(tmp_path: Path) -> None:
    checkpoint = write_fairseq(tmp_path / "fairseq", joined=True)
    read_source_model(checkpoint.parent, ImportOptions()).write(tmp_path / "model")  # the directory has one checkpoint
    recipe = Recipe.load(tmp_path / "model" / "recipe.toml")
    assert (recipe.model.positions, recipe.model.max_positions, recipe.model.tie) == ("learned", 60, "all")
    assert (recipe.model.dropout, recipe.data.max_tokens) == (0.3, 49)
    assert read_info(tmp_path / "model") == ModelInfo(len(dictionaries(True)[0]) + 4 + 1, ("en",), ("de",))
    assert (tmp_path / "model" / "card.md").read_text().startswith("# en to de\n")


def test_text_is_cut_by_codes_or_comes_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = write_fairseq(tmp_path / "fairseq")
    given = ("import", str(checkpoint), "--tokenizer", str(checkpoint.with_name("codes")))
    code, out, err = leave(capsys, *given, "--out", str(tmp_path / "cut"))
    assert code == 0 and "spaces" not in out, err
    cut = Translator.load(tmp_path / "cut")
    text = " ".join(WORDS[:4]) + " Turm"
    tokens = cut.source.encode(text)
    assert cut.source.tokens(tokens) == [*["▁the", "▁low", "er", "▁ne", "wer", "▁low", "e", "s", "t"], *["▁<unk>"] * 4]
    assert cut.source.decode(tokens) == f"{' '.join(WORDS[:4])} <unk> <unk> <unk> <unk>"
    code, out, err = leave(capsys, "import", str(checkpoint), "--out", str(tmp_path / "spaces"))
    assert code == 0 and "spaces" in out, err
    spaces = Translator.load(tmp_path / "spaces")
    written = " ".join(spaces.source.names[i] for i in tokens)
    assert spaces.source.encode(written) == tokens
    ours, theirs = (t.translate(x, beam=1, max_length=9) for t, x in ((cut, text), (spaces, written)))
    assert ours.text == theirs.text and ours.log_probability == theirs.log_probability


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "another architecture": (
        {"arch": "transformer_align"},
        ("unsupported_model", "arch='transformer_align'"),
    ),
    "adaptive softmax": (
        {"adaptive_softmax_cutoff": "10,20"},
        ("unsupported_setting", "adaptive_softmax_cutoff='10,20'"),
    ),
    "norm of embeddings": ({"layernorm_embedding": True}, ("unsupported_setting", "layernorm_embedding=True")),
    "relative positions": (
        {"max_relative_length": 8},
        ("unsupported_setting", "max_relative_length=8"),
    ),
    "sides differ": ({"encoder_normalize_before": True}, ("unsupported_setting",)),
    "widths differ": (
        {"decoder_embed_dim": 48},
        ("unsupported_setting", "encoder_embed_dim=24", "decoder_embed_dim=48"),
    ),
    "a projection": ({"decoder_output_dim": 12}, ("unsupported_setting", "decoder_output_dim=12")),
    "pruned": ({"encoder_layers_to_keep": "0,1"}, ("unsupported_setting", "encoder_layers_to_keep='0,1'")),
    "activation": ({"activation_fn": "gelu_fast"}, ("unsupported_setting", "activation_fn='gelu_fast'")),
    "fewer layers": ({"encoder_layers": 2}, ("weights_mismatch",)),
    "wrong sizes": (
        {"encoder_ffn_embed_dim": 32},
        ("weights_mismatch", "fc1.weight"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, expected = WRONG[wrong]
    checkpoint = write_fairseq(tmp_path / "fairseq", **{**changes})
    with raises(ConversionError, *expected):
        read_source_model(checkpoint, ImportOptions())
    code, out, err = leave(capsys, "import", str(checkpoint), "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "") and err.startswith("dragoman: ")
    assert [path.name for path in tmp_path.iterdir()] == ["fairseq"]


def test_dictionaries_that_are_missing_elsewhere_or_wrong(tmp_path: Path) -> None:
    checkpoint = write_fairseq(tmp_path / "fairseq")
    dictionary, place = checkpoint.with_name("dict.de.txt"), tmp_path / "data-bin"
    place.mkdir()
    for name in ("dict.de.txt", "dict.en.txt"):
        checkpoint.with_name(name).rename(place / name)
    with raises(ConversionError, "file_missing", "dict.en.txt", "`vocabulary`"):
        read_source_model(checkpoint, ImportOptions())
    assert (
        read_source_model(checkpoint, ImportOptions(vocabulary=place)).source.vocabulary_size
        == len(dictionaries(False)[0]) + 5
    )
    whole = (place / dictionary.name).read_text(encoding="utf-8")
    for damaged, expected in (
        (whole + "der 3\n", ("duplicate_token", "'der'")),
        (whole + "onlyaword\n", ("file_damaged", "15", "'onlyaword'")),
        (whole + "more 3\n", ("weights_mismatch",)),
    ):
        (place / dictionary.name).write_text(damaged, encoding="utf-8")
        with raises(ConversionError, *expected):
            read_source_model(checkpoint, ImportOptions(vocabulary=place))


def test_other_tasks_and_files_that_say_nothing(tmp_path: Path) -> None:
    checkpoint = write_fairseq(tmp_path / "fairseq")
    saved = torch.load(checkpoint, weights_only=False)
    torch.save({**saved, "cfg": {**saved["cfg"], "task": {"_name": "multilingual_translation"}}}, checkpoint)
    with raises(ConversionError, "unsupported_model", "task='multilingual_translation'", "'translation'"):
        read_source_model(checkpoint, ImportOptions())
    torch.save({**saved, "cfg": None}, checkpoint)
    with raises(ConversionError, "file_damaged"):
        read_source_model(checkpoint, ImportOptions())
    torch.save({**saved, "model": [1]}, checkpoint)
    with raises(ConversionError, "file_damaged", "'model'"):
        read_source_model(checkpoint, ImportOptions())
