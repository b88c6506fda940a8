"""The training loss (sections 5.3 and 5.4), on any device and fused on a GPU."""
