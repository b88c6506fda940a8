"""Languages of texts: their codes, their names, and detection."""
