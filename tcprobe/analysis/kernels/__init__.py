"""The kernels of a run: which use Tensor Cores, why, in what precision."""
