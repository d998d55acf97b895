"""Measurements behind the figures in the README: `python -m benchmarks NAME`."""
