"""Sequence-to-sequence models: the Transformer (section 3.1) and the recurrent and convolutional models before it."""

from dragoman.models.bottleneck import Bottleneck, BottleneckState
from dragoman.models.convolutional import Convolutional, ConvolutionalState
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.recurrent import Recurrent, RecurrentState
from dragoman.models.seq2seq import AttentionMaps, Memory, Seq2Seq, State
from dragoman.models.transformer import Transformer, TransformerState

__all__ = [
    "AttentionMaps",
    "Bottleneck",
    "BottleneckState",
    "Convolutional",
    "ConvolutionalState",
    "EncoderDecoder",
    "Memory",
    "Recurrent",
    "RecurrentState",
    "Seq2Seq",
    "State",
    "Transformer",
    "TransformerState",
]
