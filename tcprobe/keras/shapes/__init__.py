"""Output shapes of Keras' layers from their settings: `compute_output_shape` without Keras."""
