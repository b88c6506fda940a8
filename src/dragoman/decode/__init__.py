"""From a model to text (section 6.1): searches are functions of `step`."""

from dragoman.decode.greedy import greedy, greedy_texts

__all__ = ["greedy", "greedy_texts"]
