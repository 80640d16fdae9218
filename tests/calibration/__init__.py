"""Tests of tcprobe.calibration."""
