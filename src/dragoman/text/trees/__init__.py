"""Syntax trees: dependency trees, constituency trees, and trees as lines of text."""
