"""Predictions beside measurements: comparing them, fitting a chip's numbers, the band beside a result."""
