"""Learn a tokenizer: count words, choose the characters that get a token, and run the library's trainer."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, Final

from dragoman.errors import TextError
from dragoman.text.normalization import MARK, normalize, segments, split_word
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.special_tokens import BOS, EOS, PAD, UNK
from dragoman.text.store import LEARNED_SUFFIXES
from dragoman.text.token_table import BYTE_TOKENS, FIRST_LEARNED, SPECIAL_TOKENS
from dragoman.text.tokenizer import SubwordTokenizer, Tokenizer, pause_gc
from dragoman.text.wordpiece import WordPieceTokenizer
from dragoman.values import render_value

READ_CHARACTERS: Final = 50_000_000
"""Larger corpora are subsampled to this size: more text hardly changes the vocabulary, and memory stays bounded."""

DISTINCT_CHARACTERS: Final = 12_000_000
"""Limit for the libraries; only text without spaces, where every line is a new "word", comes close to it."""

RESERVED: Final = frozenset({MARK, "\u2585"})
"""Reserved by sentencepiece; encoded as bytes."""

LEARNING_THREADS: Final = 2  # fixed: unigram's sums, and therefore its tokens, depend on this number


def learn(
    kind: str,
    lines: Iterable[str],
    vocabulary_size: int,
    *,
    character_coverage: float = 0.9995,
    read_characters: int = READ_CHARACTERS,
) -> Tokenizer:
    """Learn a tokenizer from lines of text; the same lines give the same tokenizer.

    `vocabulary_size` counts the 4 special ids and the 256 bytes. Small data give fewer tokens, because a token that
    never occurs is useless: see the tokenizer's own `vocabulary_size`. Rare characters of large alphabets, beyond
    `character_coverage` of the text, are encoded as bytes.
    """
    if kind not in LEARNED_SUFFIXES:
        raise TextError(
            f"unknown kind of tokenizer {kind!r}; use one of: {', '.join(LEARNED_SUFFIXES)}", code="unknown_choice"
        )
    if isinstance(lines, str | bytes):
        raise TextError(
            f"lines must be an iterable of str, such as a list or a file; got one {type(lines).__name__}",
            code="wrong_type",
        )
    if type(vocabulary_size) is not int:
        raise TextError(f"vocabulary_size must be an int; got {vocabulary_size!r}", code="wrong_type")
    if vocabulary_size <= FIRST_LEARNED + 1:
        raise TextError(
            f"vocabulary_size={vocabulary_size} leaves no room for tokens: special ids and the 256 bytes take "
            f"{FIRST_LEARNED}; use at least 300 (8000 is usual)",
            code="out_of_range",
        )
    if not 0 < character_coverage <= 1:
        raise TextError(
            f"character_coverage={character_coverage} must be above 0 and at most 1; 0.9995 is usual",
            code="out_of_range",
        )
    with pause_gc():
        words = count_words(subsample(lines, read_characters))
        alphabet = choose_alphabet(words, character_coverage, vocabulary_size)
        table: Counter[str] = Counter()
        for word, count in words.items():
            for chunk in split_word(word, alphabet):
                table[chunk] += count
        table = limit_chunks(table)
    if kind == "unigram":
        return train_sentencepiece(kind, table, vocabulary_size)
    return (learn_bpe if kind == "bpe" else learn_wordpiece)(table, vocabulary_size)


def subsample(lines: Iterable[str], characters: int) -> list[str]:
    """A uniform random sample of the lines with at most this many characters; the same lines give the same sample."""
    random = Random(0)
    kept: list[str] = []
    size, rate = 0, 1.0
    for line in lines:
        if rate < 1 and random.random() >= rate:
            continue
        if not isinstance(line, str):
            raise TextError(f"a line must be a str; got {type(line).__name__} {render_value(line)}", code="wrong_type")
        kept.append(line)
        size += len(line)
        while size > characters and len(kept) > 1:
            kept = [one for one in kept if random.random() < 0.5]
            size = sum(map(len, kept))
            rate /= 2
    return kept


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word occurs, in order of first occurrence."""
    words: Counter[str] = Counter()
    for line in lines:
        words.update(normalize(line).split(" "))
    del words[""]
    if not words:
        raise TextError("there is no text to learn a tokenizer from: all lines are empty", code="no_data")
    return words


def choose_alphabet(words: Counter[str], coverage: float, vocabulary_size: int) -> frozenset[str]:
    """The characters that get a token, the most frequent first; some room is always left for longer tokens.

    All of them if they are few, as in European languages; if they are many, as in Chinese, those that make up
    `coverage` of the text, and never more than half of the learned tokens.
    """
    small, maximum = vocabulary_size // 16, (vocabulary_size - FIRST_LEARNED) // 2
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    for reserved in RESERVED:
        del characters[reserved]
    wanted = coverage * characters.total()
    chosen, covered = {" "}, 0
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) >= maximum or (covered >= wanted and len(chosen) >= small):
            break
        chosen.add(character)
        covered += count
    return frozenset(chosen)


def limit_chunks(table: Counter[str], characters: int = DISTINCT_CHARACTERS) -> Counter[str]:
    """The table with only a random part of the chunks that occur once, if it would be too large."""
    once = sum(len(chunk) for chunk, count in table.items() if count == 1)
    over = sum(map(len, table)) - characters
    if over <= 0 or not once:
        return table
    part, random = max(0.0, 1 - over / once), Random(0)
    return Counter({chunk: count for chunk, count in table.items() if count > 1 or random.random() < part})


def learn_bpe(table: Counter[str], vocabulary_size: int) -> SubwordTokenizer:
    """Learn BPE with sentencepiece, up to the last pair that occurs twice.

    The library continues with pairs that no longer occur. Frequencies only decrease from merge to merge, and the last
    merge's frequency is that of its token in the text, so the largest useful size is found by bisection.
    """
    tokenizer = train_sentencepiece("bpe", table, vocabulary_size)
    if last_merge_repeats(tokenizer, table):
        return tokenizer
    letters = sum(len(token) == 1 for token in tokenizer.table.names[FIRST_LEARNED:])
    good, bad = FIRST_LEARNED + letters, tokenizer.vocabulary_size
    while bad - good > 1:
        middle = (good + bad) // 2
        if last_merge_repeats(train_sentencepiece("bpe", table, middle), table):
            good = middle
        else:
            bad = middle
    return train_sentencepiece("bpe", table, good)


def last_merge_repeats(tokenizer: SubwordTokenizer, table: Counter[str]) -> bool:
    """Whether the token that was merged last occurs at least twice."""
    merged = [token for token in tokenizer.table.names[FIRST_LEARNED:] if len(token) > 1]
    if not merged:
        return True
    last, text = tokenizer.table.ids[merged[-1]], merged[-1].replace(MARK, " ")
    return (
        sum(count * tokenizer.encode_marked(chunk).count(last) for chunk, count in table.items() if text in chunk) > 1
    )


def train_sentencepiece(kind: str, table: Counter[str], vocabulary_size: int) -> SubwordTokenizer:
    """Train sentencepiece on counted chunks, which is faster than on the text."""
    from sentencepiece import SentencePieceTrainer

    rows = [" \t1", *(f"{chunk}\t{count}" for chunk, count in table.items())]  # a lone space is always a token
    longest = max(map(len, rows)) * 4
    model = io.BytesIO()
    options: dict[str, Any] = {
        "model_type": kind,
        "vocab_size": vocabulary_size,
        "hard_vocab_limit": False,
        "input_format": "tsv",
        "max_sentence_length": longest,
        "character_coverage": 1.0,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "split_digits": True,
        "pad_id": PAD, "bos_id": BOS, "eos_id": EOS, "unk_id": UNK,
        "num_threads": LEARNING_THREADS,
        "minloglevel": 2,
    }  # fmt: skip
    try:
        SentencePieceTrainer.train(sentence_iterator=iter(rows), model_writer=model, **options)
    except Exception as error:  # the library's exception class differs between releases
        raise TextError(
            f"sentencepiece could not learn {kind} with vocabulary_size={vocabulary_size}: {error}",
            code="learning_failed",
        ) from None
    return SentencePieceTokenizer(kind, model.getvalue())


def learn_wordpiece(table: Counter[str], vocabulary_size: int) -> SubwordTokenizer:
    """Learn WordPiece with `tokenizers`, whose trainer merges the most frequent pair, like BPE."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    parts: Counter[str] = Counter({" ": 1})
    for chunk, count in table.items():
        for part in segments(chunk):
            parts[part] += count
    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS[UNK]))
    learner.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("\n")
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        special_tokens=[*SPECIAL_TOKENS, *BYTE_TOKENS],
        continuing_subword_prefix="",
        show_progress=False,
    )
    learner.train_from_iterator((f"{part}\n".replace(" ", MARK) * count for part, count in parts.items()), trainer)
    # Without the special tokens that the trainer adds, which would match a "<s>" in the text.
    tokenizer = Tokenizer(
        models.WordPiece(
            learner.get_vocab(),
            unk_token=SPECIAL_TOKENS[UNK],
            continuing_subword_prefix="",
            max_input_chars_per_word=500,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    return WordPieceTokenizer("wordpiece", (tokenizer.to_str(pretty=True) + "\n").encode())
