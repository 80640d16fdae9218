"""From Keras' layers to the ops of one training step, as TensorFlow would run them."""
