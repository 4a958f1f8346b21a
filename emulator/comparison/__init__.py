"""Backends beside each other: the same calls on each, their bits and their times."""
