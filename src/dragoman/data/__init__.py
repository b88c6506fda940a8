"""From files of sentence pairs to batches (section 5.1)."""
