"""What the probe knows of TensorFlow and Keras: training calls and their steps, layers, profiler, precision.

Another framework is a folder beside this one, on the same core.
"""
