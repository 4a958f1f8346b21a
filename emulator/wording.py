"""Words that texts for people share."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """The number and its noun, in the plural unless there is one: ``1 launch``, ``1,200 launches``."""
    ending = "es" if noun.endswith(("ch", "s", "sh", "x")) else "s"
    return f"{count:,} {noun}{ending if count != 1 else ''}"
