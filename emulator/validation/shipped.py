"""The measurements that come with the package: those that its chips' numbers were fitted to and judged on."""

from __future__ import annotations

from pathlib import Path

MEASUREMENTS = Path(__file__).parent / "data" / "measurements.csv"
"""Columns as in ``docs/accuracy.md``; each row names its source."""

NAME = "the shipped measurements"
