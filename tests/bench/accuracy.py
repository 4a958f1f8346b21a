"""Predictions beside the recorded MseLossGrad runs: ``python tests/bench/accuracy.py`` prints docs' table."""

from __future__ import annotations

import csv
from pathlib import Path

import emulator

ROWS = Path(__file__).parent.parent / "data" / "mse_loss_grad_rows.csv"


def main() -> None:
    """Markdown rows: measured, predicted, error, bound."""
    print("| run | dtype | shape | measured µs | predicted µs | error | bound µs |")
    print("|---|---|---|---:|---:|---:|---:|")
    for row in csv.DictReader(ROWS.open()):
        shape = tuple(int(d) for d in row["shape"].split("x"))
        result = emulator.predict(
            "mse_loss_backward", soc=row["soc"], shape=shape, dtype=row["dtype"], l2=row["l2_state"]
        )
        measured = float(row["duration_us"])
        error = result.time_us / measured - 1
        print(
            f"| {row['id']} | {row['dtype']} | {row['shape']} | {measured:.2f} | {result.time_us:.2f} "
            f"| {error:+.1%} | {result.us(result.bound_cycles):.2f} |"
        )


if __name__ == "__main__":
    main()
