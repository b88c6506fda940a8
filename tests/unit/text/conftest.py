"""One small corpus of our own, and a tokenizer of each kind learned from it once."""

from __future__ import annotations

import pytest

from dragoman.text import Tokenizer
from dragoman.text.learn import learn

ENGLISH = """The old lighthouse keeper counted the ships, one by one.
Nobody knew why the bakery on the corner opened at four in the morning.
We would have walked home, but the rain wouldn't stop.
She keeps her letters in a box under the stairs.
The keeper of the old box counted the letters in the morning.
Why would the ships stop at the corner of the bakery?
In 1987 the box held 365 letters; 41 of them were opened."""
GERMAN = """Der alte Leuchtturmwärter zählte die Schiffe, eines nach dem anderen.
Niemand wusste, warum die Bäckerei an der Ecke um vier Uhr morgens öffnete.
Wir wären nach Hause gegangen, aber der Regen hörte nicht auf.
Sie bewahrt ihre Briefe in einer Schachtel unter der Treppe auf.
Der Wärter der alten Schachtel zählte morgens die Briefe."""
CHINESE = """我们在学校门口等了一个小时。
他们说今天的天气很好，我们去公园吧。
学校的公园门口有一家面包店。
今天我们不去学校，他们也不去。
Python 的文档说：我们等了 12 个小时。"""
JAPANESE = """今日は天気がいいので、公園へ行きましょう。
学校の前にパン屋があります。
彼らは今日も学校へ行きません。"""
CORPUS = [line for text in (ENGLISH, GERMAN, CHINESE, JAPANESE) for line in text.split("\n")] * 3
KINDS = ["bpe", "unigram", "wordpiece"]


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: learn(kind, CORPUS, 640) for kind in KINDS}


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return CORPUS
