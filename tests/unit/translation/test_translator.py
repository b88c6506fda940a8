"""The Translator on a model directory: order, batching, long text, flags, and errors."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.arrays import concatenate
from dragoman.engines.base import EngineRequest
from dragoman.engines.specs import TORCH
from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.terms import Entries, Terms
from dragoman.search.types import Hypothesis, Sampling, Search
from dragoman.text import normalize
from dragoman.text.trees.dependency import Tree, TreeAligner
from dragoman.translation.assembly import Assembly
from dragoman.translation.degeneracy import longest_loop, looping_rows, repetitive_rows
from dragoman.translation.options import SearchOptions, TranslationOptions, TranslationRequest, resolve_search
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import join_segments, split_tokens
from raising import raises
from small_model import model_at
from tiny_model import LINES, write_tiny_model

SHORT = {"max_length": 12}  # a model with weights by chance goes on and on


def made_up(n: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    words = " ".join(LINES).split()
    return [" ".join(draw.choices(words, k=draw.randrange(0, 9))) for _ in range(n)]


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("search", [Search(beam=3, n_best=2, **SHORT), Search(sampling=Sampling(seed=5), **SHORT)])
def test_a_translation_does_not_depend_on_its_company(directory: Path, engine: str, search: Search) -> None:
    translator = Translator.load(directory, device="cpu", engine=engine)
    found = translator.engines.get(engine)
    if found is None or found.capabilities.missing(EngineRequest(search)):
        pytest.skip(f"the engine {engine} cannot do this here")
    texts = made_up(120 if engine == "native" else 25)
    settings = {"search": search, "reproducible": engine == "torch"}
    alone = [translator.translate(text, **settings) for text in texts]
    for batch in (1, 7, 64) if engine == "native" else (7,):
        mixed = random.Random(batch).sample(range(len(texts)), len(texts))
        found = translator.translate([texts[i] for i in mixed], batch=batch, **settings)
        assert found == [alone[i] for i in mixed]


def test_without_the_promise_torch_is_the_same_but_for_rounding(translator: Translator) -> None:
    texts = made_up(60)
    alone = translator.translate(texts, reproducible=True, **SHORT)
    together = translator.translate(texts, batch=64, **SHORT)
    assert sum(a.text == b.text for a, b in zip(alone, together, strict=True)) >= 59
    assert sum(abs(a.score - b.score) < 1e-3 for a, b in zip(alone, together, strict=True)) >= 59


class Refusing:
    """An engine that must not be asked."""

    name, batch, capabilities = "refusing", 64, TORCH

    def search(self, *_: object) -> list[list[Hypothesis]]:
        raise AssertionError("the engine was asked")


def test_nothing_in_nothing_out(directory: Path) -> None:
    translator = Translator.load(directory, device="cpu", engine="torch")
    translator.engines.loaded["torch"] = Refusing()
    found = translator.translate(["", " \t ", "\u2028\ufeff"], n_best=3)
    assert [one.text for one in found] == ["", " \t ", "\u2028"]  # as in a file: white space stays
    assert [type(one.log_probability) for one in found] == [float] * 3
    assert not any(one.empty or one.flags or one.alternatives for one in found)
    assert translator.translate([]) == []


def test_long_text_is_translated_in_parts_and_nothing_is_lost(translator: Translator) -> None:
    text = "Good morning! How are you? " * 20 + "the old box, " * 40 + "hall" * 60 + " 我们去学校。" * 30
    found = translator.translate(text, beam=1, **SHORT)
    assert found.split
    ids = translator.source.to_ids(found.source_tokens)
    assert translator.source.decode(ids).replace(" ", "") == normalize(text).replace(" ", "")
    asked: list[int] = []
    engine = translator.engines.torch
    original = engine.search

    def watched(sources: list[list[int]], *more: object) -> list[list[Hypothesis]]:
        asked.extend(map(len, sources))
        return original(sources, *more)  # type: ignore[arg-type]

    engine.search = watched  # type: ignore[method-assign]
    try:
        translator.translate(text, beam=1, **SHORT)
        assert max(asked) <= translator.longest
        asked.clear()
        translator.translate(text, beam=1, split="never", **SHORT)
        assert asked == [len(translator.source.encode(text))]
        asked.clear()
        parts = translator.translate("How are you? I am fine.", split="sentences", **SHORT)
        assert len(asked) == 2
        assert parts.split
    finally:
        del engine.search
    assert not translator.translate("How are you, I am fine.", **SHORT).split
    assert translator.translate("How are you? I am fine.", **SHORT).split  # it does not say what it was trained on


def test_a_text_in_parts_is_its_parts(translator: Translator) -> None:
    sentences = ["Good morning!", "How are you?", "I am fine."]
    one_by_one = translator.translate(sentences, n_best=2, reproducible=True, **SHORT)
    whole = translator.translate(" ".join(sentences), n_best=2, split="sentences", reproducible=True, **SHORT)
    assert whole.text == " ".join(part.text for part in one_by_one)
    assert whole.alternatives[0].text == " ".join(part.alternatives[0].text for part in one_by_one)
    assert whole.log_probability == pytest.approx(sum(part.log_probability for part in one_by_one))
    lps = [Search().normalizer(len(part.tokens) + 1) for part in one_by_one]
    assert whole.score == pytest.approx(whole.log_probability / sum(lps))


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab ,.Äé我们。x\U0001f600", max_size=300), most=st.integers(2, 20))
def test_tokens_are_cut_and_none_is_lost(translator: Translator, text: str, most: int) -> None:
    ids = translator.source.encode(text)
    parts = split_tokens(ids, translator.source, most)
    assert [i for part in parts for i in part] == ids
    assert all(len(part) <= most for part in parts)
    assert all(len(part) > most // 2 for part in parts[:-1])


def test_cuts_are_where_they_hurt_least(translator: Translator) -> None:
    tokenizer = translator.source
    text = "the old box stands in the hall, the old box stands in the hall and the old box stands"
    parts = [tokenizer.decode(part) for part in split_tokens(tokenizer.encode(text), tokenizer, 14)]
    assert parts[0].endswith("hall,")
    assert " ".join(parts) == text  # no word was cut


@pytest.mark.parametrize(
    ("parts", "whole"),
    [(["a b.", "c"], "a b. c"), (["我们。", "你"], "我们。你"), (["我", "a"], "我 a"), (["", "a", ""], "a"), ([], "")],
)
def test_parts_are_joined_as_the_script_does(parts: list[str], whole: str) -> None:
    assert join_segments(parts) == whole


def test_scores_of_pairs_are_those_of_the_search(translator: Translator) -> None:
    pairs = [("the old box", "der alte Kasten"), ("seven halls", "sieben"), ("Good morning!", "im Flur, und niemand")]
    for (source, target), scored in zip(pairs, translator.score(pairs, length_penalty=0.9), strict=True):
        tokens = translator.target.encode(target)
        # after a prefix of the maximum length, only EOS can follow
        forced = translator.translate(source, prefix=target, max_length=len(tokens), length_penalty=0.9)
        assert scored.tokens == (*forced.tokens, "</s>")
        assert scored.log_probability == pytest.approx(forced.log_probability, abs=1e-3)
        assert scored.score == pytest.approx(forced.score, abs=1e-3)
        assert scored.log_probability == pytest.approx(sum(scored.token_log_probabilities))
    assert translator.score([("the old box", "")])[0].tokens == ("</s>",)


def test_prefixes_are_kept_and_may_differ(translator: Translator) -> None:
    texts = ["the old box", "Good morning! " * 20, "seven"]
    found = translator.translate(texts, prefix=["der alte", "Guten", ""], **SHORT)
    assert found[0].text.startswith("der alte")
    assert found[1].text.startswith("Guten")
    assert found[1].split
    assert found[1].text.count("Guten") < found[1].text.count(" ")  # the first part alone has it
    assert found[2] == translator.translate("seven", prefix="", **SHORT)
    assert all(one.text.startswith("ein") for one in translator.translate(texts, prefix="ein", **SHORT))
    for prefixes in (["a"], list("abcd"), []):
        with raises(SearchError, "count_mismatch", f"{len(prefixes)} prefix"):
            translator.stream(texts, prefix=prefixes, **SHORT)  # before the first is asked for
    with raises(SearchError, "count_mismatch", "2 prefixes for 1 text;"):
        translator.translate("seven", prefix=["a", "b"], **SHORT)
    with raises(SearchError, "count_mismatch", "1 prefix "):
        translator.translate(iter(texts), prefix=["a"], **SHORT)
    found = translator.stream(iter(texts), prefix=list("abcd"), **SHORT)
    assert [next(found).text[0] for _ in texts] == ["a", "b", "c"]
    with raises(SearchError, "count_mismatch", "4 prefixes", "3 texts"):
        next(found)


def test_alignment_and_attention_on_request(translator: Translator) -> None:
    text = "How are you? I am fine. 我们去学校。" * 3
    one = translator.translate(text, beam=2, n_best=2, alignment=True, attention=True, **SHORT)
    assert one.split
    for each in (one, *one.alternatives):
        assert each.attention.shape == (len(each.tokens), len(each.source_tokens))
        sums = each.attention.sum(1)
        assert (sums > 0).all()
        assert (sums <= 1 + 1e-5).all()
        assert each.alignment
        source_words = sum(token.startswith("▁") or token >= "\u2e80" for token in each.source_tokens)
        assert max(s for s, _ in each.alignment) < source_words
        assert {t for _, t in each.alignment} <= set(range(len(each.tokens)))
    plain = translator.translate(text, beam=2, **SHORT)
    assert plain.alignment is None
    assert plain.attention is None
    assert translator.translate("", alignment=True, attention=True).alignment == ()


def test_an_alignment_is_computed_when_it_is_read(translator: Translator) -> None:
    one, other = (translator.translate("How are you?", alignment=True, **SHORT) for _ in range(2))
    assert "alignment" not in vars(one)
    copy = pickle.loads(pickle.dumps(one))
    assert copy.alignment == one.alignment == vars(one)["alignment"]
    assert copy == one == other and "alignment" in vars(other)


def test_tokens_of_aligned_translations_are_computed_when_they_are_read(translator: Translator) -> None:
    found = translator.translate("the old box", alignment=True, **SHORT)
    assert not {"tokens", "source_tokens", "alignment"} & {*vars(found)}
    assert found.alignment_weights.shape == (len(found.tokens), len(found.source_tokens))


def test_two_threads_may_read_tokens_at_once() -> None:
    class Slow:
        calls = 0

        def tokens(self, _: list[int]) -> list[str]:
            self.calls += 1
            return [*made.tokens] if self.calls == 1 else ["▁a"]  # the second call ends before the first

    made = object.__new__(Translation)
    vars(made).update(_tokens=[5], _tokenizers=(None, Slow()))
    assert made.tokens == vars(Translation)["tokens"].__get__(made) == ("▁a",)


def test_attention_is_the_last_but_one_layers_mean(translator: Translator) -> None:
    from dragoman.models import AttentionMaps
    from dragoman.text.special_tokens import BOS, EOS

    one = translator.translate("the old box", attention=True, **SHORT)
    source, written = translator.source.to_ids(one.source_tokens), translator.target.to_ids(one.tokens)
    maps = AttentionMaps()
    with torch.no_grad():
        translator.engines.torch.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *written]]), maps=maps)
    expected = maps.cross[-2][0].mean(0)[: len(written), : len(source)]
    torch.testing.assert_close(torch.from_numpy(one.attention), expected)


def test_streams_are_read_a_few_windows_at_a_time(translator: Translator) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"box {taken % 7}"

    results = translator.stream(endless(), batch=2, beam=1, **SHORT)
    assert taken == 0
    next(results)
    assert 0 < taken <= 64  # two windows of 32
    for _ in range(70):
        next(results)
    assert taken <= 160  # two more than the third, which is being returned


def test_a_translator_can_be_sent_to_another_process(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory.parent)
    translator = Translator.load(directory.name, device="cpu", engine="torch", language="DE")
    monkeypatch.chdir("/")
    assert repr(translator) == f"Translator({str(directory.absolute())!r}, engine='torch', device='cpu')"
    other = pickle.loads(pickle.dumps(translator))
    assert (other.running, other.language) == (translator.running, "de")
    assert other.translate("the old box", **SHORT) == translator.translate("the old box", **SHORT)


def test_two_vocabularies(tmp_path: Path) -> None:
    translator = Translator.load(write_tiny_model(tmp_path / "two", shared=False), device="cpu", engine="torch")
    assert translator.source.vocabulary_size != translator.target.vocabulary_size
    assert translator.translate("the old box", alignment=True, **SHORT).tokens


def test_languages_are_codes(directory: Path) -> None:
    text = "Er kam am 3. Mai. Sie nicht."
    for code, parts in (("de", 2), ("DE", 2), ("de_AT", 2), ("en", 3), ("gsw", 2), ("deu", 2), ("eng", 3)):
        translator = Translator.load(directory, device="cpu", language=code)
        assert len(translator.segmenter.split_line(text, "sentences")) == parts, code
    with pytest.raises(SearchError, match="did you mean 'de'"):
        Translator.load(directory, language="german")


def test_learned_positions_set_a_limit(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "learned", "model.positions=learned", "model.max_positions=20")
    translator = Translator.load(model, device="cpu", engine="torch")
    found = translator.translate("the old box stands in the hall " * 5, beam=2)
    assert found.split
    assert translator.longest == 19
    assert translator.translate("the old box", beam=1, max_length=500, min_length=19).truncated
    long, engines = "the old box stands in the hall " * 5, ("native", "ctranslate2", "torch")
    for name in engines:
        translator = Translator.load(model, device="cpu", engine=name)
        if translator.engines.get(name) is not None:
            found = translator.stream(["seven", long, "seven"], split="never", beam=1)
            assert next(found) == translator.translate("seven", beam=1)  # what comes before it is answered
            with raises(SearchError, "text_too_long", "'the old ", "it has 55 tokens", "positions for 19"):
                next(found)
    with raises(SearchError, "text_too_long", "'seven': its prefix has 55 tokens", "19"):
        translator.translate("seven", prefix=long)
    with raises(SearchError, "out_of_range", "min_length=20", "19 tokens"):
        translator.translate("the old box", min_length=20)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(4, 6), max_size=40))
def test_loops_are_what_the_words_say(tokens: list[int]) -> None:
    """Every run of tokens that is one thing said four times or more, the last time perhaps in part."""
    runs = [
        end - start
        for start in range(len(tokens))
        for end in range(start + 8, len(tokens) + 1)
        for period in range(1, 9)
        if end - start >= 4 * period and all(tokens[i] == tokens[i - period] for i in range(start + period, end))
    ]
    assert longest_loop(tokens) == max(runs, default=0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(4, 6), max_size=40), max_size=6))
def test_loops_are_found_in_many_rows_at_once(rows: list[list[int]]) -> None:
    assert looping_rows(*concatenate(rows)) == {i for i, row in enumerate(rows) if longest_loop(row)}
    loops, sources = [*map(longest_loop, rows)], [*reversed(rows)]
    assert repetitive_rows(*concatenate(rows), sources) == {i for i, loop in enumerate(loops) if loop > loops[-1 - i]}


def test_flags() -> None:
    assert longest_loop([5, 6] * 4) == 8
    assert longest_loop([5, 6, 7, 8] * 3) == 0
    assert longest_loop([9, *[5] * 8, 4]) == 8
    assert longest_loop(list(range(5, 13)) * 4) == 32
    assert longest_loop([]) == 0


@pytest.mark.parametrize(
    ("options", "code", "mention"),
    [
        ({"split": "always"}, "unknown_choice", "split='always'"),
        ({"batch": 0}, "out_of_range", "batch"),
        ({"beam": 10**9}, "out_of_range", "beam must be at most 10,000; got 1,000,000,000"),
        ({"n_best": 10**9}, "out_of_range", "beam"),
        ({"min_length": 10**12}, "out_of_range", "min_length"),
        ({"extra_length": 2**31}, "out_of_range", "extra_length"),
        ({"no_repeat": 2**32 + 1}, "out_of_range", "no_repeat"),
        ({"length_penalty": float("nan")}, "out_of_range", "from -5 to 5; got nan. The paper uses 0.6"),
        ({"length_penalty": float("-inf")}, "out_of_range", "length_penalty"),
        ({"length_penalty": 1e9}, "out_of_range", "length_penalty"),
        ({"beam": 2, "n_best": 3}, "out_of_range", "n_best=3"),
    ],
)
def test_invalid_options(translator: Translator, options: dict[str, Any], code: str, mention: str) -> None:
    with raises(SearchError, code, mention):
        translator.translate("a", **options)


def test_an_unknown_option_is_a_type_error(translator: Translator) -> None:
    with pytest.raises(TypeError, match="bem"):
        translator.translate("a", bem=4)  # type: ignore[call-overload]


def test_the_options_stand_once() -> None:
    """The keywords of `stream` are those of `translate`, with the same types; those of a search are `Search`'s."""
    names = {kind.__name__: kind for kind in (Constraints, Terms, Tree, TreeAligner)} | {"Entries": Entries}
    stream = get_type_hints(Translator.stream, localns=names)
    options = get_type_hints(TranslationOptions, localns=names)
    assert {name: kind for name, kind in stream.items() if name not in ("texts", "return")} == options
    fields = {field.name for field in dataclasses.fields(Search)}
    assert set(get_type_hints(SearchOptions)) == {"search", *fields}
    assert set(get_type_hints(resolve_search)) == {"search", "return", *fields}
    request = {field.name for field in dataclasses.fields(TranslationRequest)}
    assert request == options.keys() - fields - {"require", "avoid", "terms"}


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), 1e-320])
def test_temperatures_that_cannot_be(temperature: float) -> None:
    with raises(SearchError, "out_of_range", "temperature"):
        Sampling(temperature=temperature)


def test_the_utmost_is_still_a_number() -> None:
    utmost = Search(beam=10_000, n_best=10_000, length_penalty=5.0, extra_length=100_000, min_length=100_000)
    assert utmost.normalizer(utmost.limit(100_000)) < 3e38
    assert utmost.normalizer(1) == 1.0


def test_weights_that_are_no_numbers_are_told(directory: Path) -> None:
    translator = Translator.load(directory, device="cpu", engine="torch")
    with torch.no_grad():
        next(translator.engines.torch.model.parameters()).fill_(torch.nan)
    with raises(SearchError, "not_finite"):
        translator.translate("the old box")


def test_bfloat16_that_would_kill_the_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.torch.torch_bfloat16_works", lambda: False)
    translator = Translator.load(model_at(tmp_path / "m"), engine="torch", device="cpu", precision="bfloat16")
    with raises(SearchError, "unsupported_precision", "'float32'"):
        translator.translate("one two")


def test_a_lone_space_is_neither_text_nor_a_word_of_the_alignment(translator: Translator) -> None:
    source, target = translator.source, translator.target
    read, (space,) = tuple(source.encode("the box")), target.to_ids(["▁"])
    for written, text, links in (
        ((space,), "", ()),
        ((space, *target.encode("Kasten")), "Kasten", ((1, 0),)),
        ((*target.encode("Kasten"), space), "Kasten", ((1, 0),)),
    ):
        looked = {(read, written): [[0.0] * (len(read) - 1) + [1.0]] * len(written)}
        made = Assembly(source, target, alignment=looked)
        (one,) = made.translations([read], [[Hypothesis(list(written), -1.0, -1.0, False)]])
        assert (one.text, one.empty, one.alignment) == (text, not text, links)
        assert one.tokens == tuple(target.tokens(written))
