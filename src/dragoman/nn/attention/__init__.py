"""Attention (section 3.2): masks, attention functions and multi-head attention."""
