"""Bulk work on many machines: blocks of files, translated, scored and prepared by Ray."""
