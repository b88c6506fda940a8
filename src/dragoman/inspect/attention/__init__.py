"""Attention of every layer and head for one sentence pair: data, pictures and a page."""
