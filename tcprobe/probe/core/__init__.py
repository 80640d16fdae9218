"""Steps, windows and logs of a training script, whatever its framework."""
