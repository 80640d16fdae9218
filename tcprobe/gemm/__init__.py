"""Arithmetic of ops: which matrix multiplications (GEMMs) an op performs, their FLOPs and their alignment."""
