"""What functions of NumPy, TensorFlow and Keras make of the shapes of arrays and tensors."""
