"""Tokenizers of models that were trained with other toolkits."""
