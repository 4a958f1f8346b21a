"""Write diabetes.npz: the gradient that reaches a linear regression on the diabetes data set.

Needs scikit-learn; the emulator does not. Usage: python make_diabetes.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

features, progression = load_diabetes(return_X_y=True)
prediction = LinearRegression().fit(features, progression).predict(features)

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("diabetes.npz")
np.savez(
    path,
    grad_output=np.ones(progression.shape, np.float32),
    self=prediction.astype(np.float32),
    target=progression.astype(np.float32),
)
