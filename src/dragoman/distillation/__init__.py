"""Sequence-level knowledge distillation: a teacher's translations, selected, as training data for a small student."""
