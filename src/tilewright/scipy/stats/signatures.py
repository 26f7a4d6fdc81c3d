"""Signatures of the functions of distributions, by their parameters, for type checkers.

`Located`: with `loc` and `scale`; `At`: with `loc`, for distributions over whole numbers.
"""

from __future__ import annotations

from typing import Protocol

from ...core.ir.array import Array, ArrayLike


class OfKMuAt(Protocol):
    def __call__(self, k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array: ...


class OfKNABAt(Protocol):
    def __call__(self, k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array: ...


class OfKNPAt(Protocol):
    def __call__(self, k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array: ...


class OfKP(Protocol):
    def __call__(self, k: ArrayLike, p: ArrayLike) -> Array: ...


class OfKPAt(Protocol):
    def __call__(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array: ...


class OfPLocated(Protocol):
    def __call__(self, p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfQBLocated(Protocol):
    def __call__(self, q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfQLocated(Protocol):
    def __call__(self, q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfXABLocated(Protocol):
    def __call__(self, x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfXALocated(Protocol):
    def __call__(self, x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfXBLocated(Protocol):
    def __call__(self, x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfXBeta(Protocol):
    def __call__(self, x: ArrayLike, beta: ArrayLike) -> Array: ...


class OfXC(Protocol):
    def __call__(self, x: ArrayLike, c: ArrayLike) -> Array: ...


class OfXDfLocated(Protocol):
    def __call__(self, x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...


class OfXKappa(Protocol):
    def __call__(self, x: ArrayLike, kappa: ArrayLike) -> Array: ...


class OfXLocated(Protocol):
    def __call__(self, x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array: ...
