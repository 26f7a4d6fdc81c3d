"""Fit a Gaussian process: its kernel's parameters by the gradient of the marginal likelihood, then a prediction.

The likelihood and the prediction are those of Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006),
algorithm 2.1. The parameters are found by BFGS, through `tilewright.scipy.optimize`. The picture shows the data, the
function that made them, and the prediction with two standard deviations.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.scipy import linalg, optimize

NOISE = 0.2


def truth(x):
    return np.sin(3 * x) + 0.5 * x


def data(count: int, seed: int = 0):
    """Places in [-3, 3] with a gap, and noisy values there."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 2, count)
    x = np.where(x > 0, x + 1, x)  # nothing between 0 and 1
    return x, truth(x) + NOISE * rng.standard_normal(count)


def covariance(params, x, y):
    """The squared exponential kernel; `params` are logarithms of amplitude, length and noise."""
    amplitude, length = tnp.exp(params[0]), tnp.exp(params[1])
    return amplitude**2 * tnp.exp(-0.5 * ((x[:, None] - y[None, :]) / length) ** 2)


def factor(params, x):
    """Cholesky's factor of the covariance of the data."""
    noise = tnp.exp(params[2]) ** 2 + 1e-6
    return linalg.cholesky(covariance(params, x, x) + noise * tnp.eye(len(x)), lower=True)


def surprise(params, x, y):
    """The negative logarithm of the marginal likelihood, for each point."""
    lower = factor(params, x)
    white = linalg.solve_triangular(lower, y, lower=True)
    log_det = 2 * tnp.log(tnp.diag(lower)).sum()
    return 0.5 * ((white @ white) + log_det + len(x) * tnp.log(2 * np.pi)) / len(x)


@tw.jit
def fit(x, y):
    """The parameters that make the data likeliest, from amplitude, length and noise of one half."""
    found = optimize.minimize(surprise, tnp.full(3, tnp.log(0.5)), args=(x, y), method="BFGS")
    return found.x, found.fun


@tw.jit
def predict(params, x, y, places):
    """The mean at some places, and the standard deviation of the function there."""
    lower, across = factor(params, x), covariance(params, x, places)
    mean = across.T @ linalg.cho_solve((lower, True), y)
    seen = linalg.solve_triangular(lower, across, lower=True)
    return mean, tnp.sqrt(tnp.maximum(tnp.exp(2 * params[0]) - (seen**2).sum(0), 0))


def picture(path: Path, x, y, places, mean, deviation) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    axes.fill_between(places, mean - 2 * deviation, mean + 2 * deviation, alpha=0.2, label="two standard deviations")
    axes.plot(places, mean, label="mean")
    axes.plot(places, truth(places), "--", color="grey", label="truth")
    axes.plot(x, y, "k.", label="data")
    axes.set(xlabel="x", ylabel="y", title="A Gaussian process")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("build/gaussian_process.png"))
    options = parser.parse_args()
    with tw.config(enable_x64=True):
        x, y = data(options.points)
        places = np.linspace(-4, 4, 200)
        params, value = fit(x, y)
        mean, deviation = map(np.asarray, predict(params, x, y, places))
    amplitude, length, noise = np.exp(np.asarray(params))
    inside = np.abs(mean - truth(places)) <= 2 * deviation
    console = Console()
    console.print(f"amplitude {amplitude:.2f}, length {length:.2f}, noise {noise:.2f} (in truth {NOISE}); "
                  f"{float(value):.3f} nats a point")  # fmt: skip
    console.print(f"the truth lies within two standard deviations at {inside.mean():.0%} of {len(places)} places")
    picture(options.out, x, y, places, mean, deviation)
    console.print(f"picture: {options.out}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
