"""What the text of an NVTX range tells: op, layer, phase, step."""
