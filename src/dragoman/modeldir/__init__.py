"""The model directory: find, verify, load and save it, without PyTorch."""
