"""Special functions of floats as polynomials, printed lane by lane: `FUNCTIONS`, each with its bound in ulps (`ULPS`).

A function takes a builder and operands that are float or double, scalars or vectors. NaN stays NaN, infinities and
signed zeros are right, denormal operands and results too (where the thread does not flush them).

The polynomials of float32 are minimax fits by Lawson's iteration; those of float64 are the functions' own series,
but of erf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import exponential, logarithm, power, tanh_erf, trigonometric

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "pow": power.power,
    "tanh": tanh_erf.tanh,
    "logistic": tanh_erf.logistic,
    "erf": tanh_erf.erf,
    "rsqrt": tanh_erf.rsqrt,
    "sin": trigonometric.sine,
    "cos": trigonometric.cosine,
}
ULPS: dict[tuple[str, str], float] = {
    ("exp", "float"): 1.1, ("exp", "double"): 1.0, ("exp2", "float"): 1.0, ("exp2", "double"): 1.0,
    ("expm1", "float"): 1.0, ("expm1", "double"): 1.0, ("log", "float"): 1.2, ("log", "double"): 1.0,
    ("log1p", "float"): 1.0, ("log1p", "double"): 1.0, ("pow", "float"): 1.0, ("pow", "double"): 1.0,
    ("tanh", "float"): 2.0, ("tanh", "double"): 1.0, ("logistic", "float"): 1.9, ("logistic", "double"): 1.0,
    ("erf", "float"): 2.0, ("erf", "double"): 1.0, ("rsqrt", "float"): 1.0, ("rsqrt", "double"): 1.0,
    ("sin", "float"): 1.0, ("sin", "double"): 1.0, ("cos", "float"): 1.0, ("cos", "double"): 1.0,
}  # fmt: skip
