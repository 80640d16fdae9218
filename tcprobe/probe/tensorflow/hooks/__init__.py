"""The hooks on TensorFlow and Keras: each tells listeners what it sees, and can be taken out again."""
