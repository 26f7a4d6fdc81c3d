"""Which configuration to try next: all of a small space, else those that a model of what was measured thinks best.

The model is a Gaussian process over the logarithm of the time, with a Matern kernel whose length for each feature is
the likeliest of a few; the next configurations are those of the greatest expected improvement (Jones, Schonlau and
Welch, 1998, Journal of Global Optimization 13), several at once by taking the model's own mean for those under way
(Ginsbourger, Le Riche and Carraro, 2010). A configuration that fails counts as slow as the slowest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from .space import Configuration

ALL = 24  # configurations of a space that is tried whole
FIRST = 8  # and more: one for each feature; tried before the model is asked
GAIN = 0.003  # the expected improvement, of the best time, below which a round counts as calm
PATIENCE = 12  # calm rounds in a row that end the search
SHARE = 0.03  # of a large space that is tried at most, but no fewer than `LEAST`
LEAST = 48
_LENGTHS = (0.125, 8.0)  # the least and the greatest
_FITTED = 96  # points by which lengths are chosen
_NOISE = 0.03**2  # of the logarithm of a time
_LOOKED_AT = 2048  # configurations that the model is asked about in a round


def features(space: Sequence[Configuration]) -> np.ndarray:
    """Configurations as rows of numbers from 0 to 1: sizes by their logarithm, other values by columns of their own."""
    columns: list[np.ndarray] = []
    for name in dict.fromkeys(n for c in space for n in c):
        values = [c.get(name) for c in space]
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            numbers = np.asarray(values, float)
            columns.append(np.log2(numbers) if (numbers > 0).all() else numbers)
        else:
            texts = [repr(v) for v in values]
            columns += [np.asarray([t == one for t in texts], float) for one in sorted(set(texts))]
    table = np.stack(columns, 1) if columns else np.zeros((len(space), 1))
    low, high = table.min(0), table.max(0)
    varying = high > low
    return (table[:, varying] - low[varying]) / (high - low)[varying] if varying.any() else np.zeros((len(space), 1))


class Search:
    """A search through a space: `ask` for configurations by number, `tell` what became of them, until `done`.

    `first` are tried before others: the function's own defaults, and what similar problems liked.
    """

    space: Sequence[Configuration]
    points: np.ndarray

    def __init__(self, space: Sequence[Configuration], first: Sequence[int] = (), seed: int = 0):
        self.space, self.points = space, features(space)
        self.times: dict[int, float] = {}  # logarithms of seconds
        self.failed: set[int] = set()
        self.under_way: set[int] = set()
        self._draw = np.random.default_rng(seed)
        self._calm = 0
        self._fitted = 0  # how many were known when the lengths were chosen
        self._lengths = np.full(self.points.shape[1], 1.0)
        order = self._draw.permutation(len(space)).tolist()
        self._first = list(dict.fromkeys([*first, *order]))
        if len(space) > ALL:
            self._first = self._first[: max(FIRST + self.points.shape[1], len(first))]
        self.most: int = len(space) if len(space) <= ALL else min(len(space), max(LEAST, int(SHARE * len(space))))

    @property
    def done(self) -> bool:
        """Whether everything was tried, or the model sees no gain."""
        return self._count() >= self.most or self._calm >= PATIENCE

    def _count(self) -> int:
        return len(self.times) + len(self.failed)

    def ask(self, count: int) -> list[int]:
        """Up to `count` configurations to try next."""
        with threadpool_limits(1):  # threads that wait for each other take ten times as long on matrices of this size
            return self._asked(count)

    def _asked(self, count: int) -> list[int]:
        found: list[int] = []
        room = self.most - self._count() - len(self.under_way)
        while len(found) < min(count, room):
            number = self._first.pop(0) if self._first else self._best_guess()
            if number is None:
                break
            self.under_way.add(number)
            found.append(number)
        return found

    def tell(self, number: int, seconds: float | None) -> None:
        """What became of a configuration: its time, None for one that failed."""
        self.under_way.discard(number)
        if seconds is None:
            self.failed.add(number)
        else:
            self.times[number] = math.log(seconds)

    # ------------------------------------------------------------ the model

    def _best_guess(self) -> int | None:
        """The configuration of the greatest expected improvement; None where that is too little to go on."""
        taken = self.times.keys() | self.failed | self.under_way
        rest = np.asarray([i for i in range(len(self.space)) if i not in taken])
        if not len(rest):
            return None
        if len(self.times) < 2:
            return int(self._draw.choice(rest))
        if len(rest) > _LOOKED_AT:
            rest = np.concatenate([self._draw.choice(rest, _LOOKED_AT // 2, replace=False), self._near(rest)])
        known = np.asarray([*self.times, *self.failed])
        y = np.asarray([*self.times.values(), *[max(self.times.values())] * len(self.failed)])
        gains = self._gains(known, y, rest)
        best = int(np.argmax(gains))
        if not self.under_way:
            self._calm = self._calm + 1 if gains[best] < GAIN else 0
        return int(rest[best])

    def _near(self, rest: np.ndarray) -> np.ndarray:
        """Those that differ least from the fastest known."""
        best = self.points[min(self.times, key=self.times.__getitem__)]
        return rest[np.argsort(np.abs(self.points[rest] - best).sum(1), kind="stable")[: _LOOKED_AT // 2]]

    def _gains(self, known: np.ndarray, y: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """The expected improvement of the logarithm of the time at each of `rest`."""
        mean, scale = y.mean(), max(float(y.std()), 1e-3)
        target, noise = (y - mean) / scale, _NOISE / scale**2
        best = target.min()
        if len(known) >= 1.15 * self._fitted:
            self._fitted = len(known)
            self._fit(self.points[known], target, noise)
        model = _Process(self.points[known], target, self._lengths, noise)
        if self.under_way:  # as if they came out as the model says
            more = self.points[sorted(self.under_way)]
            x, target = np.concatenate([model.x, more]), np.concatenate([target, model.predicted(more)[0]])
            model = _Process(x, target, self._lengths, noise)
        expected, deviation = model.predicted(self.points[rest])
        z = (best - expected) / deviation
        return scale * deviation * (z * ndtr(z) + np.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    def _fit(self, x: np.ndarray, target: np.ndarray, noise: float) -> None:
        """Choose the likeliest length of each feature, one by one; of many points by some, the fastest too."""
        if len(x) > _FITTED:
            order = np.argsort(target, kind="stable")
            others = self._draw.choice(order[_FITTED // 2 :], _FITTED // 2, replace=False)
            chosen = np.concatenate([order[: _FITTED // 2], others])
            x, target = x[chosen], target[chosen]
        for column, now in enumerate(self._lengths.copy()):
            trials = []
            for length in (now / 2, now, now * 2):
                lengths = self._lengths.copy()
                lengths[column] = np.clip(length, *_LENGTHS)
                trials.append((_Process(x, target, lengths, noise).surprise(), lengths[column]))
            self._lengths[column] = min(trials)[1]


class _Process:
    """A Gaussian process that knows `target` at the points `x`."""

    def __init__(self, x: np.ndarray, target: np.ndarray, lengths: np.ndarray, noise: float):
        self.x, self.target, self.lengths = x, target, lengths
        self.factor = cho_factor(_matern(x, x, lengths) + np.eye(len(x)) * (noise + 1e-6))
        self.weights = cho_solve(self.factor, target)

    def predicted(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation at points."""
        across = _matern(points, self.x, self.lengths)
        parts = solve_triangular(self.factor[0], across.T, trans=1, check_finite=False)
        variance = 1 - np.einsum("ij,ij->j", parts, parts)
        return across @ self.weights, np.sqrt(np.maximum(variance, 1e-9))

    def surprise(self) -> float:
        """The negative logarithm of the likelihood of the target."""
        return float(self.target @ self.weights / 2 + np.log(np.diag(self.factor[0])).sum())


def _matern(a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The Matern kernel of smoothness 5/2, in place: making such large arrays takes as long as filling them."""
    a, b = a / lengths, b / lengths
    far = -2 * a @ b.T
    far += (a * a).sum(1)[:, None]
    far += (b * b).sum(1)
    far *= 5
    np.sqrt(np.maximum(far, 0.0, out=far), out=far)
    found = far / 3
    found += 1
    found *= far
    found += 1
    found *= np.exp(np.negative(far, out=far), out=far)
    return found
