"""Records what a training function multiplies: traced, resolved to passes and layers, and what of it executes."""
