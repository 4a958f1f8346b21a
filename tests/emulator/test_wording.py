"""Counts in texts for people."""

from __future__ import annotations

import pytest

from emulator.wording import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "case", "0 cases"),
        (1, "case", "1 case"),
        (2, "case", "2 cases"),
        (1200, "launch", "1,200 launches"),
        (1, "launch", "1 launch"),
    ],
)
def test_a_noun_is_in_the_plural_unless_there_is_one(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
