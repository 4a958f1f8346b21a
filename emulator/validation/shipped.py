"""The measurements that come with the package: those that its chips' numbers were fitted to and judged on."""

from __future__ import annotations

from pathlib import Path

_DATA = Path(__file__).parent / "data"

MEASUREMENTS = _DATA / "measurements.csv"
"""Columns as in ``docs/accuracy.md``; each row names its source."""

CALIBRATION = _DATA / "calibration.toml"
"""By chip: how its fitted numbers come out of the rows."""

NAME = "the shipped measurements"
