"""How far to trust a predicted time: what silicon did where such a prediction was compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.validation.sizes import size_class
from kernel.plan import Plan
from socs.spec import Soc, Validation

ANY = "any"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far predictions like this one were from silicon.

    ``rows`` measured rows of the kind that ``text`` names took ``low_us`` to ``high_us`` where this was
    predicted (all but the 5 % of them furthest out on each side); their errors, relative to the measured
    time, have ``median_error`` and ``worst_error``. ``same_kind`` False: no row had this operator, size and
    state of L2; the nearest kind speaks for it. ``validated`` False: never compared; numbers are ``None``.
    ``band`` is the same in short, to stand beside the number.
    """

    validated: bool
    rows: int | None
    worst_error: float | None
    median_error: float | None
    text: str
    band: str
    low_us: float | None = None
    high_us: float | None = None
    same_kind: bool = False


def accuracy_of(plan: Plan, l2: str, time_us: float, *, whole: bool = True) -> Accuracy:
    """What is known of predictions like that of ``time_us`` for ``plan``. ``whole``: by all mechanisms."""
    soc = plan.soc
    if not whole:
        return _unknown("predictions without a mechanism were never compared with silicon")
    if plan.stand_in_for is not None or (plan.tiling is not None and plan.tiling.chosen_by == "user"):
        return _unknown("predictions for a kernel or tiling of one's own were never compared with silicon")
    if not soc.validation or plan.sketch is None:
        return _unknown(f"predictions for {soc.name} were never compared with silicon")
    size = size_class(plan.sketch.bytes_read + plan.sketch.bytes_written)
    entries: dict[tuple[str, str, str, bool], Validation] = {
        (row.operator, row.size, row.l2, row.l2_known): row for row in soc.validation
    }
    for number, kind in enumerate(_nearest(plan.operator, size, l2)):
        row = entries.get(kind)
        if row is not None:
            return _known(soc, row, time_us, same=number == 0)
    return _unknown(f"predictions like this one were never compared with silicon of {soc.name}")


def _nearest(operator: str, size: str, l2: str) -> Iterator[tuple[str, str, str, bool]]:
    """Kinds from the nearest on. Size decides what a launch spends its time on, so it is given up last."""
    states = [state for state in ("cold", "dirty", "hot") if state != l2]
    others = [(state, known) for known in (True, False) for state in states]
    for width in (size, ANY):
        for state, known in ((l2, True), (l2, False), *others):
            for name in (operator, ANY):
                yield name, width, state, known


def _known(soc: Soc, row: Validation, time_us: float, *, same: bool) -> Accuracy:
    low_us, high_us = time_us * (1 + row.low), time_us * (1 + row.high)
    off = f"{row.low:+.1%} .. {row.high:+.1%}"
    fitted = f", {row.fitted} of which its numbers were fitted to," if row.fitted else ""
    nearest = "" if same else ", the nearest kind that was measured"
    return Accuracy(
        validated=True,
        rows=row.rows,
        worst_error=row.worst_error,
        median_error=row.median_error,
        text=(
            f"{row.rows} measured rows on {soc.name} ({kind_text(row)}{nearest}){fitted} were {off} off what "
            f"was predicted: median error {row.median_error:.1%}, worst {row.worst_error:.1%}"
        ),
        band=(
            f"{low_us:,.2f} to {high_us:,.2f} µs ({off}) on {row.rows:,} measured rows of "
            f"{'this' if same else 'the nearest'} kind"
        ),
        low_us=low_us,
        high_us=high_us,
        same_kind=same,
    )


def kind_text(row: Validation) -> str:
    """``mse_loss_backward, 1 to 64 MiB, L2 hot``."""
    operator = "any operator" if row.operator == ANY else row.operator
    size = "any size" if row.size == ANY else row.size
    state = f"L2 {row.l2}" if row.l2_known else f"L2 unknown, taken as {row.l2}"
    return f"{operator}, {size}, {state}"


def _unknown(text: str) -> Accuracy:
    return Accuracy(False, None, None, None, text, "never compared with predictions like this one")
