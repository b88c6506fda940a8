"""Text in capitals is read in lower case only by models that know it better so."""

from __future__ import annotations

import pytest
from tests.tiny_model import LINES

from dragoman.documents.source_vocabulary import TokenizerVocabulary
from dragoman.search.constraints.terms import Terms
from dragoman.text.learn import learn

LOWER = learn("bpe", LINES * 4, 340)
CAPITALS = learn("bpe", [line.upper() for line in LINES] * 4, 340)
TEXT = "THE OLD BOX STANDS IN THE HALL"


def test_text_in_capitals_is_read_in_lower_case_if_that_has_fewer_tokens() -> None:
    assert TokenizerVocabulary(LOWER, ()).prefers_lower_case(TEXT)
    assert not TokenizerVocabulary(LOWER, ()).prefers_lower_case(TEXT.capitalize())
    assert not TokenizerVocabulary(CAPITALS, ()).prefers_lower_case(TEXT)


@pytest.mark.parametrize(
    ("terms", "lower"),
    [
        (Terms({"OLD BOX": "Altkasten"}), False),
        (Terms({"old box": "Altkasten"}), True),
        (Terms({"Old Box": "Altkasten"}, ignore_case=True), True),
        (Terms({"NEW BOX": "Neukasten"}), True),
    ],
)
def test_terms_in_capitals_are_found(terms: Terms, lower: bool) -> None:
    assert TokenizerVocabulary(LOWER, (terms,)).prefers_lower_case(TEXT) is lower
