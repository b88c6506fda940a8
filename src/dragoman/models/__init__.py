"""Models that turn a source sentence into a target sentence (section 3.1)."""

from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.seq2seq import AttentionMaps, Memory, Seq2Seq, State
from dragoman.models.transformer import Transformer, TransformerState

__all__ = ["AttentionMaps", "EncoderDecoder", "Memory", "Seq2Seq", "State", "Transformer", "TransformerState"]
