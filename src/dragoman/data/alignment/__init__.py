"""Word alignments of the training data, for guided alignment."""
