"""From corpora to prepared data: tokenizers learned, sentences encoded, everything recorded."""
