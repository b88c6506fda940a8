"""An imported Opus-MT directory says what Hugging Face says with it: tokens, logits, greedy and beam translations."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.models.loading import load_model
from dragoman.text import BOS, EOS, PAD, load_tokenizer
from dragoman.text.imported.tokenizer import ImportedTokenizer
from dragoman.translation.translator import Translator
from opus_model import LANGUAGES, UNUSUAL, lines, write_opus

transformers = pytest.importorskip("transformers", reason="a dev extra")

KINDS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "bpe, languages": {"kind": "bpe", "languages": LANGUAGES},
    "separate vocabularies": {"separate": True},
    "pytorch_model.bin, relu, not scaled": {"binary": True, "activation_function": "relu", "scale_embedding": False},
    "starts with the EOS token, nothing tied": {"decoder_start_token_id": 0, "tie_word_embeddings": False},
}
TEXTS = [*lines(0)[100:140], *UNUSUAL]
BOUND = {"max_new_tokens": 30}


class Both:
    """One directory, opened there and here."""

    def __init__(self, place: Path, settings: dict[str, Any]) -> None:
        there, self.here = write_opus(place / "opus", **settings), place / "model"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tokenizer = transformers.MarianTokenizer.from_pretrained(there)
            self.model = transformers.MarianMTModel.from_pretrained(there).eval()
        self.model.generation_config.bad_words_ids = [[self.model.config.pad_token_id]]
        read_source_model(there, ImportOptions()).write(self.here)
        self.sides = [load_tokenizer(self.here, name) for name in ("source", "target")]
        self.to = "zho_Hans" if "languages" in settings else None
        names = ["vocab.json", *(["target_vocab.json"] if settings.get("separate") else [])]
        tables = [json.loads((there / name).read_text(encoding="utf-8")) for name in names]
        self.ids = [self.of_side(side, tables[i if len(tables) > 1 else 0]) for i, side in enumerate(self.sides)]

    def of_side(self, tokenizer: Any, table: dict[str, int]) -> list[int]:
        """For each id here, the one there."""
        assert isinstance(tokenizer, ImportedTokenizer)
        names = [f">>{name[2:-1]}<<" if i >= tokenizer.first_target else name for i, name in enumerate(tokenizer.names)]
        names[BOS] = "<pad>"
        return [table[name] for name in names]

    def source(self, text: str) -> list[int]:
        head = [self.sides[0].target_id(self.to)] if self.to else []
        return [*head, *self.sides[0].encode(text)]

    def asked(self, texts: list[str]) -> Any:
        return self.tokenizer(
            [f">>{self.to}<< {t}" if self.to else t for t in texts], return_tensors="pt", padding=True
        )

    def generated(self, texts: list[str], **settings: Any) -> list[str]:
        with torch.no_grad():
            rows = self.model.generate(**self.asked(texts), **BOUND, **settings)
        return [text.strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def searched(self, texts: list[str], **settings: Any) -> list[tuple[str, float]]:
        """Translations with their log-probabilities."""
        with torch.no_grad():
            found = self.model.generate(
                **self.asked(texts), **BOUND, **settings, return_dict_in_generate=True, output_scores=True
            )
        written = self.tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        return [(text.strip(), sure) for text, sure in zip(written, found.sequences_scores.tolist(), strict=True)]


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("imported"), KINDS[request.param])


def test_the_tokens_are_the_same(both: Both) -> None:
    for text in TEXTS:
        assert [both.ids[0][i] for i in [*both.source(text), EOS]] == both.asked([text]).input_ids[0].tolist(), text
        ours, theirs = both.sides[1].encode(text), both.tokenizer(text_target=text).input_ids
        assert [both.ids[1][i] for i in [*ours, EOS]] == theirs, text
        assert both.sides[1].decode(ours) == both.tokenizer.decode(theirs, skip_special_tokens=True), text


def test_the_logits_are_the_same(both: Both) -> None:
    model, _ = load_model(both.here, PAD)
    for text in TEXTS[::7]:
        source, target = both.source(text), both.sides[1].encode(text)[:20]
        start = both.model.config.decoder_start_token_id
        with torch.no_grad():
            there = torch.tensor([[start, *(both.ids[1][i] for i in target)]])
            expected = both.model(**both.asked([text]), decoder_input_ids=there).logits[0][:, both.ids[1]]
            found = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))[0]
        whole = expected.clone()
        whole[:, BOS] = -torch.inf  # there it is the padding's, or the EOS token's, and counted once
        probabilities = found.log_softmax(-1)
        assert probabilities[:, BOS].max() < -25
        kept = [i for i in range(found.shape[1]) if i != BOS]
        torch.testing.assert_close(found[:, kept], expected[:, kept], atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(probabilities[:, kept], whole.log_softmax(-1)[:, kept], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("engine", ["torch", "native", "ctranslate2"])
def test_greedy_translations_are_the_same(both: Both, engine: str) -> None:
    """Nothing may be said twice, where the engine can be asked that: models by chance repeat themselves."""
    translator = loaded(both, engine)
    n = 0 if engine == "ctranslate2" else 2
    found = translator.translate(TEXTS, beam=1, max_length=29, extra_length=100, no_repeat=n, to=both.to)
    expected = both.generated(TEXTS, num_beams=1, no_repeat_ngram_size=n)
    assert [one.text.strip() for one in found] == expected
    assert len({*expected}) > (len(TEXTS) / 3 if n else 1)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_beam_translations_are_the_same_by_bare_probability(both: Both, engine: str) -> None:
    """Length is weighed in another way there, and slots of a beam are kept in another way: most are the same."""
    translator = loaded(both, engine)
    asked: dict[str, Any] = {"length_penalty": 0.0, "max_length": 29, "extra_length": 100, "no_repeat": 2}
    found = translator.translate(TEXTS, beam=5, to=both.to, **asked)
    expected = both.searched(TEXTS, num_beams=5, length_penalty=0.0, no_repeat_ngram_size=2)
    same = [(ours, sure) for ours, (text, sure) in zip(found, expected, strict=True) if ours.text == text]
    assert len(same) >= 0.75 * len(TEXTS)
    for ours, sure in same:
        assert ours.truncated or ours.log_probability == pytest.approx(sure, abs=1e-3)


def loaded(both: Both, engine: str) -> Translator:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    try:
        translator = Translator.load(both.here, engine=engine, precision="float32", threads=1)
        assert translator.running.engine == engine
    except Exception as error:
        if "C compiler" in str(error):
            pytest.skip(str(error))
        raise
    return translator
