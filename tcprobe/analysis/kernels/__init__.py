"""The kernels of a run: which use Tensor Cores, in what precision, and how that is known."""
