"""What the probe knows of TensorFlow and Keras: training calls, layers, the profiler, precision."""
