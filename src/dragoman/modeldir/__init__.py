"""The model directory: its layout, and how it is found, verified, loaded and saved without PyTorch."""
