"""What each attention head does over a corpus, and how important it is."""
