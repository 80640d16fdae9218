"""What a training function of TensorFlow multiplies: traced, resolved to passes and layers, and what of it executes."""
