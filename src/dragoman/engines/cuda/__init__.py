"""The engine for NVIDIA GPUs: decoding steps recorded as CUDA graphs."""
