"""XSpace files, the profiles of TensorFlow and JAX."""
