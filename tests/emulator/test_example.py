"""The example that ships with the package."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from emulator.files import example_path, load_tensors


def test_the_example_is_a_float32_call_over_442_patients():
    tensors = load_tensors(example_path())
    assert list(tensors) == ["grad_output", "self", "target"]
    assert {(array.shape, array.dtype.name) for array in tensors.values()} == {((442,), "float32")}
    assert set(tensors["grad_output"].tolist()) == {1.0}
    assert (tensors["target"].min(), tensors["target"].max()) == (25.0, 346.0)


def test_the_predictions_are_those_of_the_best_linear_fit():
    tensors = load_tensors(example_path())
    residual = tensors["self"].astype(np.float64) - tensors["target"]
    # The mean squared error of ordinary least squares on this data set, as textbooks have it.
    assert round(float(np.mean(residual**2)), 1) == 2859.7
    assert abs(residual.mean()) < 1e-5


def test_the_example_of_an_installed_package_is_the_one_of_the_checkout():
    checkout = Path(__file__).parents[2] / "docs" / "examples" / "diabetes.npz"
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (example_path(), checkout)}
    assert len(digests) == 1
