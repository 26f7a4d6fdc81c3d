"""`jax.scipy.spatial.transform`'s names: rotations in three dimensions, as unit quaternions (x, y, z, w).

Quaternions from matrices: S. Shepperd, "Quaternion from rotation matrix", 1978. Euler angles from quaternions: E.
Bernardes and S. Viollet, "Quaternion to Euler angles conversion: a direct, general and computationally efficient
method", 2022.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import numpy as tnp
from ... import random
from ...core.ir.array import DTypeLike
from ...core.support.errors import ArgumentError, ArgumentTypeError, ShapeError
from ...numpy.util import Array, ArrayLike, dtype_of, promote_dtypes_inexact, shape_of

_SMALL = 1e-6  # of a squared angle, below which series are exact


def _inexact(x: ArrayLike, last: tuple[int, ...], what: str) -> Array:
    """An argument as floats whose last axes are as given."""
    (x,) = promote_dtypes_inexact(tnp.asarray(x))
    if shape_of(x)[-len(last) :] != last:
        shown = ", ".join(map(str, last))
        raise ShapeError(f"{what} of shape {shape_of(x)}", f"pass (..., {shown})")
    return x


def _length(x: Array) -> Array:
    """The lengths of vectors in the last axis, with derivative 0 at 0."""
    square = tnp.sum(x * x, -1, keepdims=True)
    return tnp.where(square > 0, tnp.sqrt(tnp.where(square > 0, square, 1)), 0)


def _composed(p: Array, q: Array) -> Array:
    """The product of quaternions: first q, then p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * v + b * u + tnp.cross(u, v)
    return tnp.concatenate([vector, a * b - tnp.sum(u * v, -1, keepdims=True)], -1)


def _axes(seq: str, counts: Sequence[int]) -> tuple[list[int], bool]:
    """The numbers of the axes that a string names, and whether they turn along (capital letters)."""
    if not isinstance(seq, str) or len(seq) not in counts or not re.fullmatch("[xyz]+|[XYZ]+", seq):
        raise ArgumentError(f"the axes of Euler angles are {seq!r}", "letters of xyz (fixed) or XYZ (turned along), as"
                            f" in {'zyx'[: max(counts)]!r}")  # fmt: skip
    if any(a == b for a, b in zip(seq, seq[1:], strict=False)):
        raise ArgumentError(f"the axes of Euler angles are {seq!r}", "name no axis twice in a row")
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()


class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or many along leading axes. A pytree of its quaternions.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.spatial.transform import Rotation
    >>> turn = Rotation.from_euler("z", 90, degrees=True)
    >>> print(jnp.round(turn.apply(jnp.array([1., 0., 0.])), 3))
    [0. 1. 0.]
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several rotations one after another."""
        return cls(tnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """From angles (..., len(seq)) about axes: "zyx" are fixed axes, "ZYX" turn along. Raises `ArgumentError`."""
        axes, along = _axes(seq, (1, 2, 3))
        angles = _inexact(tnp.atleast_1d(tnp.asarray(angles)), (len(seq),), f"Euler angles {seq!r}")
        half = (tnp.deg2rad(angles) if degrees else angles) / 2
        found: Any = None
        for i, axis in enumerate(axes):
            unit = np.eye(4, dtype=dtype_of(half))
            quat = tnp.sin(half[..., i, None]) * unit[axis] + tnp.cos(half[..., i, None]) * unit[3]
            found = quat if found is None else _composed(found, quat) if along else _composed(quat, found)
        return cls(found)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """From orthogonal matrices (..., 3, 3) of determinant 1."""
        m = _inexact(matrix, (3, 3), "rotation matrices")
        trace = tnp.trace(m, axis1=-2, axis2=-1)
        choices = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            parts: list[Any] = [None] * 4
            parts[i] = 1 - trace + 2 * m[..., i, i]
            parts[j] = m[..., j, i] + m[..., i, j]
            parts[k] = m[..., k, i] + m[..., i, k]
            parts[3] = m[..., k, j] - m[..., j, k]
            choices.append(tnp.stack(parts, -1))
        turned = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1 + trace]
        choices.append(tnp.stack(turned, -1))
        # The largest of the four numbers on the diagonal and the trace divides safely.
        largest = tnp.argmax(tnp.stack([*(m[..., i, i] for i in range(3)), trace], -1), -1)[..., None]
        found = choices[3]
        for i in range(3):
            found = tnp.where(largest == i, choices[i], found)
        return cls(found / _length(found))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """From modified Rodrigues parameters (..., 3): the axis times the tangent of a quarter of the angle."""
        mrp = _inexact(mrp, (3,), "modified Rodrigues parameters")
        square = tnp.sum(mrp * mrp, -1, keepdims=True)
        return cls(tnp.concatenate([2 * mrp, 1 - square], -1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """From quaternions (..., 4), the scalar last, of any length but zero."""
        quat = _inexact(quat, (4,), "quaternions")
        return cls(quat / _length(quat))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """From vectors (..., 3) along the axis whose length is the angle."""
        rotvec = _inexact(rotvec, (3,), "rotation vectors")
        rotvec = tnp.deg2rad(rotvec) if degrees else rotvec
        square = tnp.sum(rotvec * rotvec, -1, keepdims=True)
        small = square < _SMALL
        half = tnp.sqrt(tnp.where(small, 1, square)) / 2
        scale = tnp.where(small, 0.5 - square / 48, tnp.sin(half) / (2 * half))
        return cls(tnp.concatenate([scale * rotvec, tnp.where(small, 1 - square / 8, tnp.cos(half))], -1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation that turns nothing, or `num` of them."""
        quat = tnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(quat if num is None else tnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """Rotations drawn uniformly: directions of normal vectors in four dimensions."""
        quat = random.normal(random_key, (4,) if num is None else (num, 4))
        return cls(quat / _length(quat))

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise ArgumentTypeError("a single rotation was indexed", "index what holds several")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise ArgumentTypeError("the length of a single rotation was asked for", "`single` tells them apart")
        return shape_of(self.quat)[0]

    def __mul__(self, other: Rotation) -> Rotation:
        """First the other rotation, then this one."""
        if not isinstance(other, Rotation):
            raise ArgumentTypeError(f"a rotation times a {type(other).__name__}", "turn vectors by `apply(vectors)`")
        return Rotation.from_quat(_composed(self.quat, other.quat))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors (..., 3) turned, or turned back."""
        matrix = self.as_matrix()
        vectors = _inexact(vectors, (3,), "vectors")
        return tnp.einsum("...ji,...j->...i" if inverse else "...ij,...j->...i", matrix, vectors)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Three angles (..., 3) about axes; of the many at a gimbal lock those whose third (first of XYZ) is zero."""
        (i, j, k), along = _axes(seq, (3,))
        if along:
            i, k = k, i
        symmetric = i == k
        if symmetric:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        x, y, z, w = (self.quat[..., n] for n in (i, j, k, 3))
        a, b, c, d = (w, x, y, z * sign) if symmetric else (w - y, x + z * sign, y + w, z * sign - x)
        second = 2 * tnp.arctan2(tnp.hypot(c, d), tnp.hypot(a, b))
        total, difference = tnp.arctan2(b, a), tnp.arctan2(d, c)
        close = max(1e-7, float(tnp.finfo(dtype_of(second)).eps) ** 0.5)
        low, high = second <= close, tnp.abs(second - np.pi) <= close
        locked = low | high
        first, third = total - difference, total + difference
        if along:  # the angles come in the other order, and the one that is kept is the first axis'
            only = tnp.where(low, 2 * total, 2 * difference)
            first, third = tnp.where(locked, 0, first), tnp.where(locked, only, third)
        else:
            only = tnp.where(low, 2 * total, -2 * difference)
            first, third = tnp.where(locked, only, first), tnp.where(locked, 0, third)
        if not symmetric:
            third, second = third * sign, second - np.pi / 2
        found = tnp.stack([third, second, first] if along else [first, second, third], -1)
        found = np.pi - (np.pi - found) % (2 * np.pi)
        return tnp.rad2deg(found) if degrees else found

    def as_matrix(self) -> Array:
        """Orthogonal matrices (..., 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return tnp.stack([tnp.stack(row, -1) for row in rows], -2)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters (..., 3)."""
        quat = self._upper()
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors (..., 3) along the axis whose length is the angle, 0 to pi."""
        quat = self._upper()
        vector = quat[..., :3]
        square = tnp.sum(vector * vector, -1, keepdims=True)
        small = square < _SMALL
        sine = tnp.sqrt(tnp.where(small, 1, square))
        scale = tnp.where(small, 2 + square / 3, 2 * tnp.arctan2(sine, quat[..., 3:]) / sine)
        found = scale * vector
        return tnp.rad2deg(found) if degrees else found

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions (..., 4); of the two for a rotation, with `canonical`, that whose last part not 0 is positive."""
        quat = self.quat
        if canonical:
            negative = tnp.zeros(shape_of(quat)[:-1], bool)
            for i in (2, 1, 0, 3):
                negative = tnp.where(quat[..., i] == 0, negative, quat[..., i] < 0)
            quat = tnp.where(negative[..., None], -quat, quat)
        return tnp.roll(quat, 1, -1) if scalar_first else quat

    def _upper(self) -> Array:
        """The quaternions whose scalar is not negative."""
        return tnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)

    def inv(self) -> Rotation:
        """The rotations back."""
        signs = np.broadcast_to(np.array([-1, -1, -1, 1], dtype_of(self.quat)), shape_of(self.quat))
        return Rotation(self.quat * signs)

    def magnitude(self) -> Array:
        """The angles (...), 0 to pi."""
        return 2 * tnp.arctan2(_length(self.quat[..., :3])[..., 0], tnp.abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation at the least weighted sum of squared distances; `weights` is a vector (`ShapeError` else)."""
        quat = tnp.atleast_2d(self.quat)
        count = shape_of(quat)[0]
        w = tnp.ones(count, dtype_of(quat)) if weights is None else tnp.asarray(weights).astype(dtype_of(quat))
        if shape_of(w) != (count,):
            raise ShapeError(f"weights of shape {shape_of(w)} for {count} rotations", f"pass a vector of {count}")
        _, vectors = tnp.linalg.eigh((w[:, None] * quat).T @ quat)
        return Rotation(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether it is one rotation rather than several."""
        return len(shape_of(self.quat)) == 1


class Slerp(NamedTuple):
    """Rotations between given ones at constant speed; made by `Slerp.init(times, rotations)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.spatial.transform import Rotation, Slerp
    >>> turns = Rotation.from_euler("z", jnp.array([[0.], [90.]]), degrees=True)
    >>> print(jnp.round(jnp.rad2deg(Slerp.init(jnp.array([0., 1.]), turns)(0.5).magnitude()), 2))
    45.0
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """From increasing times (n,) and n rotations, at least two. Raises `ShapeError` and `ArgumentError`."""
        if not isinstance(rotations, Rotation):
            raise ArgumentTypeError(f"Slerp of {type(rotations).__name__}", "pass a Rotation")
        if rotations.single or len(rotations) < 2:
            raise ArgumentError("Slerp of one rotation", "pass at least two")
        times = tnp.asarray(times).astype(dtype_of(rotations.quat))
        if shape_of(times) != (len(rotations),):
            raise ShapeError(f"times of shape {shape_of(times)} for {len(rotations)} rotations", "one for each")
        start, end = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, tnp.diff(times), start, (start.inv() * end).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at times, a number or a vector."""
        at = tnp.asarray(times).astype(dtype_of(self.times))
        if len(shape_of(at)) > 1:
            raise ShapeError(f"Slerp at times of shape {shape_of(at)}", "pass a number or a vector")
        cell = tnp.clip(tnp.searchsorted(self.times, at) - 1, 0, len(self.timedelta) - 1)
        part = (at - self.times[cell]) / self.timedelta[cell]
        return self.rotations[cell] * Rotation.from_rotvec(self.rotvecs[cell] * part[..., None])


__all__ = ["Rotation", "Slerp"]
__dir__: Callable[[], list[str]] = __all__.copy
