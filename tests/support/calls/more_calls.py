"""Calls of functions whose laws have files of their own, with what is determined of their results.

Rows are of a name, arguments, keywords and the facts: a function of the array namespace and the results.
"""

import numpy as np

from tests.support.calls.linalg_calls import CALLS as LINALG
from tests.support.calls.linalg_calls import H, eig_facts, eigh_facts, qr_facts, same, schur_facts, svd_facts
from tests.support.calls.surface_calls import KEY, ROW, SPD, SQUARE, X, Z

TALL, RIGHT, TAUS = np.concatenate([SQUARE, X]), SQUARE[:, :2], np.array([1.2, 0.3, 0.5], np.float32)
HERMITIAN = (Z @ H(Z) + np.eye(2)).astype(np.complex64)
LU = np.array([[4, 1, 2], [0.5, 3, 1], [0.25, 0.5, 2]], np.float32)
BLOCKS = np.array([[1, 2, 3], [-4, 1, 5], [0, 0, 2]], np.float32)
DIAGONALS = np.array([[0, 1, 2], [5, 6, 7], [1, 2, 0]], np.float32)
ANGLES = np.array([[0.1, 0.2, 0.3], [-0.4, 0.5, 0.1]], np.float32)
GRID = (np.array([0, 1], np.float32), np.array([0, 0.5, 2], np.float32))
PLACES = np.array([[0.2, 0.7], [0.9, 1.5]], np.float32)
QUATERNIONS = np.array([[0.5, 0.5, 0.5, 0.5], [0.1, -0.2, 0.3, 0.9]], np.float32)


def _of(module):
    """The calls of `linalg_calls.py`."""
    rows = [c for c in LINALG if c.module == module]
    return [(c.name, tuple(c.arrays(3, (), np.float32)), c.keywords, c.facts) for c in rows]


def _plain(*calls):
    return [(name, args, kwargs, same) for name, args, kwargs in calls]


def _first(xp, out):
    return out[0]


def _absolute(xp, out):
    return [xp.abs(x) for x in out]


def _product(xp, out):
    return [out[0] @ out[1], out[0].mT.conj() @ out[0]]


def _drawn(xp, make):
    return make(KEY, (3, 4))


def _squares(x):
    return ((x - 1.5) ** 4 + x * x).sum()


SCIPY_LINALG = [
    *_of("scipy"),
    *_plain(
        ("cho_solve", ((np.linalg.cholesky(SPD), True), RIGHT), {}),
        ("lu_solve", ((LU, np.array([0, 2, 2])), RIGHT), {}),
        ("dft", (4,), {}), ("dft", (3, "sqrtn"), {}), ("hadamard", (4,), {}), ("helmert", (4,), {}),
        ("hilbert", (3,), {}),
        ("invhilbert", (3,), {}), ("pascal", (4,), {}), ("pascal", (3, "lower"), {}), ("invpascal", (4,), {}),
        ("rsf2csf", (BLOCKS, np.eye(3, dtype=np.float32)), {}), ("funm", (SPD, lambda w: w * w + 1), {}),
    ),
    ("cho_factor", (SPD,), {}, lambda xp, out: xp.triu(out[0])),
    ("qr_multiply", (TALL, SQUARE), dict(mode="right"), _absolute),
]  # fmt: skip

LAX_LINALG = [
    *_plain(
        ("cholesky", (SPD,), {}), ("cholesky", (HERMITIAN,), {}),
        ("cholesky_update", (np.linalg.cholesky(SPD).T, ROW[:3]), {}),
        ("householder_product", (TALL, TAUS), {}), ("ormqr", (TALL, TAUS, TALL), {}),
        ("lu", (SQUARE,), {}), ("lu", (TALL,), {}),
        ("lu_pivots_to_permutation", (np.array([1, 2, 2], np.int32), 4), {}),
        ("symmetric_product", (SQUARE, SPD), dict(symmetrize_output=True)),
        ("triangular_solve", (SQUARE, RIGHT), dict(left_side=True, lower=True)),
        ("triangular_solve", (SQUARE, RIGHT.T), dict(transpose_a=True)),
        ("tridiagonal_solve", (*DIAGONALS, RIGHT), {}), ("svd", (TALL,), dict(compute_uv=False)),
    ),
    ("eig", (SPD,), {}, eig_facts), ("eigh", (SPD,), {}, lambda xp, out: eigh_facts(xp, out[::-1])),
    ("eigh", (HERMITIAN,), dict(lower=False), lambda xp, out: eigh_facts(xp, out[::-1])),
    ("svd", (TALL,), dict(full_matrices=False), lambda xp, out: svd_facts(xp, (out[0], out[1], out[2]))),
    ("qr", (TALL,), dict(full_matrices=False), qr_facts), ("schur", (SQUARE,), {}, schur_facts),
    ("hessenberg", (SQUARE,), {}, _absolute), ("tridiagonal", (SPD,), {}, lambda xp, out: [out[1], xp.abs(out[2])]),
    ("qdwh", (SQUARE,), {}, lambda xp, out: list(out[:2])),
]  # fmt: skip

NAMED = "glorot he kaiming lecun xavier"
INITIALIZERS = [
    *((f"{name}_{kind}", (), {}, _drawn) for name in NAMED.split() for kind in ("normal", "uniform")),
    *((name, (), {}, _drawn) for name in "normal uniform truncated_normal".split()), ("constant", (2.5,), {}, _drawn),
    ("orthogonal", (), {}, lambda xp, make: make(KEY, (3, 3))),
    ("delta_orthogonal", (), {}, lambda xp, make: make(KEY, (4, 3, 2, 3))),
    ("variance_scaling", (2.0, "fan_avg", "truncated_normal"), {}, _drawn), *_plain(("ones", (KEY, (2, 3)), {}),
    ("zeros", (KEY, (2, 3)), {})),
]  # fmt: skip

ROTATION = "scipy.spatial.transform"
MORE = {
    "numpy.linalg": _of("numpy"), "scipy.linalg": SCIPY_LINALG, "lax.linalg": LAX_LINALG,
    "nn.initializers": INITIALIZERS,
    "scipy.sparse.linalg": [(name, (SPD, ROW[:3]), {}, _first) for name in ("cg", "gmres", "bicgstab")],
    "scipy.optimize": [
        ("minimize", (_squares, ROW[:3]), dict(method="BFGS"), lambda xp, out: xp.round(out.x, 2)),
        ("OptimizeResults", tuple(range(9)), {}, lambda xp, out: out.x),
    ],
    "scipy.interpolate": [
        ("RegularGridInterpolator", (GRID, X), {}, lambda xp, out: out(PLACES)),
        ("RegularGridInterpolator", (GRID, X, "nearest"), {}, lambda xp, out: out(PLACES)),
    ],
    ROTATION: [
        ("Rotation.from_quat", (QUATERNIONS,), {}, lambda xp, out: out.as_matrix()),
        ("Rotation.from_rotvec", (ANGLES,), {}, lambda xp, out: [out.as_quat(), out.magnitude(), out.as_euler("xyz")]),
        ("Rotation.from_euler", ("xyz", ANGLES), {}, lambda xp, out: [out.as_matrix(), out.inv().apply(ANGLES)]),
        ("Rotation.from_matrix", (np.eye(3, dtype=np.float32)[[1, 2, 0]],), {}, lambda xp, out: out.as_rotvec()),
        ("Rotation.from_mrp", (ANGLES,), {}, lambda xp, out: [out.as_rotvec(), out.mean().as_matrix()]),
    ],
}  # fmt: skip
