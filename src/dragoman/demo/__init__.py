"""The embedded corpus, and what `dragoman demo` does with it."""
