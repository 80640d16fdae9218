"""Calibration of the cost model on the user's GPU: what to measure, how to measure it, how good the result is."""
