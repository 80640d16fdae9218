"""Arithmetic of GEMM-like ops: which matrix multiplications an op performs, their FLOPs and alignment."""
