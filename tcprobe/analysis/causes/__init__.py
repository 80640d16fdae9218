"""Why Tensor Cores are not used more, and what to do first."""
