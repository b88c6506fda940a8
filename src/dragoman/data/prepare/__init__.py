"""From corpora to prepared data: clean, learn tokenizers, encode, and record everything in a manifest."""
