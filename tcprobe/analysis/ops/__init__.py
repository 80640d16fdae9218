"""The ops of a run: what each cost, whose it is, what keeps it off the Tensor Cores."""
