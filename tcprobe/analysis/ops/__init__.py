"""The ops and layers of a run: their time, their place in the model, what keeps them off the Tensor Cores."""
