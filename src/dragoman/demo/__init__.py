"""The embedded corpus, and `dragoman demo`."""
