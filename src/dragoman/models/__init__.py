"""Models that turn a source sentence into a target sentence (section 3.1)."""

from dragoman.models.seq2seq import Memory, Seq2Seq, State
from dragoman.models.transformer import AttentionMaps, Transformer, TransformerState

__all__ = ["AttentionMaps", "Memory", "Seq2Seq", "State", "Transformer", "TransformerState"]
