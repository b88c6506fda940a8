"""Commands for corpora, tokens and translation memories."""
