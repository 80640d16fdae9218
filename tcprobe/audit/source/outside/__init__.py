"""What is not the user's: layers, models, functions of TensorFlow and Keras, builtins, options of a command line."""
