"""The embedded corpus, and the tour of `dragoman demo`."""
