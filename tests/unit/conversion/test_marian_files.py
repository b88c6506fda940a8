"""Models in Marian's own formats give what Marian's equations give: greedy translations and scores."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import leave
from dragoman.config import Recipe
from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.errors import ConversionError
from dragoman.files import verify_manifest
from dragoman.search.types import Search
from dragoman.text import load_tokenizer
from dragoman.text.imported.tokenizer import ImportedTokenizer
from dragoman.translation.translator import Translator
from marian_model import PRE_NORM, SSRU, D, MarianModel, write_bin, write_marian, yaml_of
from opus_model import lines
from raising import raises

KINDS: dict[str, dict[str, Any]] = {
    "npz": {},
    "npz of Opus-MT": {"opus": True},
    "int8, ssru": {"kind": "int8", **SSRU},
    "bin, ssru, pre-norm, two vocabularies": {"kind": "bin", "two": True, "tied_embeddings_all": False, **SSRU,
                                              **PRE_NORM, "transformer-decoder-dim-ffn": 12},
    "pre-norm, learned positions, tied layers": {"learned": 40, "transformer-tied-layers": [1, 2, 1], **PRE_NORM},
    "target tied, no bias": {"two": True, "tied_embeddings": True, "tied_embeddings_all": False,
                             "output_omit_bias": True, "transformer-ffn-activation": "relu"},
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[MarianModel, Path]:
    place = tmp_path_factory.mktemp("marian")
    model = write_marian(place / "there", **KINDS[request.param])
    read_source_model(model.path.parent, ImportOptions()).write(place / "here")
    return model, place / "here"


def ids_there(here: Path, side: int, names: list[str]) -> list[int]:
    """For each id here, the one in Marian's vocabulary; -1 for padding and BOS."""
    tokenizer = load_tokenizer(here, ("source", "target")[side])
    assert isinstance(tokenizer, ImportedTokenizer)
    known = {name: i for i, name in enumerate(names)}
    known |= {f"<row {i}>": i for i, name in enumerate(names) if name == "<pad>"}
    return [-1, -1, 0, 1, *(known[name] for name in tokenizer.names[4:])]


def test_greedy_and_scores_are_those_of_the_equations(both: tuple[MarianModel, Path]) -> None:
    model, here = both
    verify_manifest(here)
    of_source, of_target = (ids_there(here, side, names) for side, names in enumerate(model.names))
    draw = random.Random(1)
    sources = [[draw.randrange(4, len(of_source)) for _ in range(n)] for n in (5, 1, 9)]
    expected = [model.greedy([of_source[i] for i in source], 8) for source in sources]
    engine = NativeEngine.load(here, 1, False)
    assert engine is not None
    for found in (engine.search(sources, Search(beam=1, max_length=8)),
                  TorchEngine.load(here).search(sources, Search(beam=1, max_length=8))):  # fmt: skip
        for (best,), (ids, score) in zip(found, expected, strict=True):
            assert [of_target[i] for i in best.ids] == ids
            assert best.log_probability == pytest.approx(score, abs=2e-4)
    assert any(ids for ids, _ in expected) and len({score for _, score in expected}) == len(sources)
    target = [draw.randrange(2, len(of_target)) for _ in range(7)]
    rows = model.log_probabilities([of_source[i] for i in sources[2]], [of_target[i] for i in target])
    wanted = [rows[t, of_target[i]] for t, i in enumerate([*target, 2])]
    (found_scores,) = engine.log_probabilities([(sources[2], target)])
    np.testing.assert_allclose(found_scores, wanted, atol=1e-4)


def test_text_is_split_and_joined_by_its_own_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sentencepiece import SentencePieceProcessor

    model = write_marian(tmp_path / "firefox", kind="int8", **SSRU)
    code, _, err = leave(capsys, "import", str(model.path), "--out", str(tmp_path / "en-de"))
    assert code == 0, err
    spm = SentencePieceProcessor(model_file=str(tmp_path / "firefox/vocab.ende.spm"))
    translator = Translator.load(tmp_path / "en-de", precision="float32")
    written = {text: spm.decode(model.greedy(spm.encode(text), 9)[0]) for text in lines(0)[:3]}
    assert len({*written.values()}) > 1
    for text, translation in written.items():
        assert translator.translate(text, beam=1, max_length=9).text == translation
    recipe = Recipe.load(tmp_path / "en-de/recipe.toml").model
    assert (recipe.autoregression, recipe.tie, recipe.d_model, recipe.norm_epsilon) == ("ssru", "all", D, 1e-6)
    assert "model.ende.intgemm.alphas.bin" in (tmp_path / "en-de/card.md").read_text()


UNSUPPORTED: dict[str, dict[str, Any]] = {
    "s2s": {"type": "s2s"},
    "average attention": {"transformer-decoder-autoreg": "average-attention"},
    "gru": {"dec-cell": "gru"},
    "norm in cell": {**SSRU, "layer-normalization": True},
    "gelu": {"transformer-ffn-activation": "gelu"},
    "highway": {"transformer-postprocess": "dhn"},
    "pre-norm without a last norm": {**PRE_NORM, "transformer-postprocess-top": ""},
    "embedding norm": {"transformer-postprocess-emb": "nd"},
    "ffn depth": {"transformer-decoder-ffn-depth": 3},
    "factors": {"lemma-dim-emb": 8},
    "right to left": {"right-left": True},
    "classes": {"input-types": ["class", "sequence"]},
    "alibi": {"transformer-attention-mask": "alibi"},
}


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> MarianModel:
    return write_marian(tmp_path_factory.mktemp("firefox") / "model", kind="int8", **SSRU)


def rewritten(model: MarianModel, place: Path, **changes: Any) -> Path:
    """The same arrays with other settings."""
    place.mkdir()
    (place / "vocab.ende.spm").write_bytes((model.path.parent / "vocab.ende.spm").read_bytes())
    write_bin(place / "model.bin", model.arrays, yaml_of({**model.config, **changes}), int8=False)
    return place / "model.bin"


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_expressed_is_named(name: str, firefox: MarianModel, tmp_path: Path) -> None:
    changes = UNSUPPORTED[name]
    with raises(ConversionError, "unsupported_setting", [*changes][-1]):
        read_source_model(rewritten(firefox, tmp_path / "model", **changes), ImportOptions())


def test_settings_that_make_no_sense(firefox: MarianModel, tmp_path: Path) -> None:
    draw, path = random.Random(5), rewritten(firefox, tmp_path / "model")
    odd: list[Any] = [None, "x", -1, 0, [], {}, 10**9, 2**40, True, 1.5, "", [1], {"a": 1}, float("nan"), 8]
    refused = 0
    for _ in range(20):
        changed = {**firefox.config, draw.choice([*firefox.config]): draw.choice(odd)}
        write_bin(path, firefox.arrays, yaml_of(changed), int8=False)
        refused += not answered(path)
    assert refused > 6


@pytest.mark.parametrize(("name", "code"), [("dim-emb", "weights_mismatch"), ("dec-depth", "invalid_setting"),
                                            ("enc-depth", "unsupported_setting"), ("dim-vocabs", "invalid_setting"),
                                            ("transformer-dim-ffn", "unsupported_setting")])  # fmt: skip
def test_huge_sizes_allocate_nothing(name: str, code: str, firefox: MarianModel, tmp_path: Path) -> None:
    path = rewritten(firefox, tmp_path / "model", **{name: 10**9})
    with raises(ConversionError, code):
        read_source_model(path, ImportOptions())


def answered(path: Path) -> bool:
    """Whether a model is accepted; otherwise a clear error is raised."""
    try:
        read_source_model(path, ImportOptions())
    except ConversionError as error:
        assert "model" in str(error) and len(str(error)) > 30
        return False
    return True


@pytest.mark.parametrize("kind", ["npz", "int8"])
def test_damaged_bytes(kind: str, tmp_path: Path) -> None:
    model = write_marian(tmp_path / "model", kind=kind, **SSRU)
    whole, draw, refused = model.path.read_bytes(), random.Random(3), 0
    for number in range(24):
        data = bytearray(whole)
        match number % 4:
            case 0:
                data = data[: draw.randrange(len(data))]
            case 1:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 2:
                data[draw.randrange(600)] = draw.randrange(256)
            case 3:
                at = 8 * draw.randrange(1, 200)
                data[at : at + 8] = struct.pack("<q", draw.choice((-1, 2**31, 2**40, 2**63 - 1)))
        model.path.write_bytes(data)
        refused += not answered(model.path)
    assert refused > 6


def npy(kind: str, shape: str, data: bytes) -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


HOSTILE = {
    "pickle": ("unsafe_pickle", {"Wemb.npy": npy("|O", "(1,)", b"cos\nsystem\n(S'ls'\ntR.")}),
    "more than it has": ("file_damaged", {"Wemb.npy": npy("<f4", "(99999999999, 99999999999)", bytes(64))}),
    "header": ("file_damaged", {"Wemb.npy": npy("<f4", "(" * 3000, bytes(4))}),
    "type": ("file_damaged", {"Wemb.npy": npy("<f3", "(1,)", bytes(3))}),
    "not NumPy": ("file_damaged", {"Wemb.npy": b"PK"}),
    "bomb": ("file_damaged", {"Wemb.npy": npy("<f4", "(4000000,)", bytes(16_000_000))}),
    "no settings": ("not_a_model", {"Wemb.npy": npy("<f4", "(1, 1)", bytes(4))}),
    "no YAML": ("file_damaged", {"special:model.yml.npy": npy("|i1", "(3,)", b"{[}")}),
    "not a mapping": ("file_damaged", {"special:model.yml.npy": npy("|i1", "(3,)", b"abc")}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives(name: str, tmp_path: Path) -> None:
    code, entries = HOSTILE[name]
    (tmp_path / "vocab.spm").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    with raises(ConversionError, code, "model.npz"):
        read_source_model(tmp_path, ImportOptions())


def test_files_that_are_missing_or_ambiguous(firefox: MarianModel, tmp_path: Path) -> None:
    path = rewritten(firefox, tmp_path / "model")
    (path.parent / "vocab.ende.spm").rename(tmp_path / "vocab.ende.spm")
    with raises(ConversionError, "file_missing", "vocab"):
        read_source_model(path, ImportOptions())
    assert (
        read_source_model(path, ImportOptions(vocabulary=tmp_path)).source.vocabulary_size == len(firefox.names[0]) + 2
    )
    (path.parent / "other.bin").write_bytes(path.read_bytes())
    with raises(ConversionError, "several_checkpoints", "other.bin"):
        read_source_model(path.parent, ImportOptions(vocabulary=tmp_path))
    (path.parent / "decoder.yml").write_text("models: [/elsewhere/model.bin]\nvocabs: [a.spm, a.spm, b.spm]\n")
    with raises(ConversionError, "unsupported_setting", "3 vocabularies"):
        read_source_model(path.parent, ImportOptions(vocabulary=tmp_path))
    (path.parent / "decoder.yml").write_text("models: [a.bin, b.bin]\n")
    with raises(ConversionError, "unsupported_setting", "ensemble"):
        read_source_model(path.parent, ImportOptions(vocabulary=tmp_path))
    (path.parent / "decoder.yml").write_text("models: [model.bin]\nvocabs: [factors.fsv, factors.fsv]\n")
    with raises(ConversionError, "unsupported_setting", "factor"):
        read_source_model(path.parent, ImportOptions())


def test_the_numbers_of_types_of_marian_itself(firefox: MarianModel, tmp_path: Path) -> None:
    """Bergamot's Marian numbers its int8 type 0x4101, Marian itself 0x10001; the layout is the same."""
    place = tmp_path / "model"
    place.mkdir()
    (place / "vocab.ende.spm").write_bytes((firefox.path.parent / "vocab.ende.spm").read_bytes())
    whole = firefox.path.read_bytes()
    other = whole.replace(struct.pack("<Q", 0x4101), struct.pack("<Q", 0x10001))
    (place / "model.bin").write_bytes(other)
    expected, found = (read_source_model(path, ImportOptions()).weights for path in (firefox.path, place / "model.bin"))
    assert other != whole and all(found[name].equal(tensor) for name, tensor in expected.items())


def test_matrices_for_one_processor_and_encrypted_files_are_named(firefox: MarianModel, tmp_path: Path) -> None:
    path = rewritten(firefox, tmp_path / "model")
    whole = path.read_bytes()
    path.write_bytes(whole[:24] + struct.pack("<Q", 0x11001) + whole[32:])
    with raises(ConversionError, "unsupported_setting", "0x11001"):
        read_source_model(path, ImportOptions())
    path.write_bytes(struct.pack("<Q", 2) + whole[8:])
    with raises(ConversionError, "unsupported_setting", "encrypted"):
        read_source_model(path, ImportOptions())
