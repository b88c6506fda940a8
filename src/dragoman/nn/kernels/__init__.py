"""Kernels behind the operations of `nn`: Triton, cuBLASLt, and operators that hold them together."""
