"""Subtitles: cues, the sentences that run over them, and how translations are divided over them."""
