"""Lexical constraints: phrases that a translation must contain, and phrases that it must not."""
