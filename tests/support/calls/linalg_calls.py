"""Every function of `numpy.linalg` and `scipy.linalg` with operands, and what of its results is determined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

H = lambda x: np.conj(np.swapaxes(x, -1, -2))  # noqa: E731


def matrix(rng, batch, dtype, rows=4, columns=4):
    x = rng.standard_normal((*batch, rows, columns))
    return (x + 1j * rng.standard_normal(x.shape) if np.issubdtype(dtype, np.complexfloating) else x).astype(dtype)


def general(rng, batch, dtype):
    return (matrix(rng, batch, dtype) + 3 * np.eye(4)).astype(dtype)


def hermitian(rng, batch, dtype):
    """Distinct eigenvalues, 1 to 4."""
    q = np.linalg.qr(matrix(rng, batch, np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64))[0]
    return ((q * np.arange(1.0, 5.0)) @ H(q)).astype(dtype)


def tall(rng, batch, dtype):
    return matrix(rng, batch, dtype, 5, 3)


def wide(rng, batch, dtype):
    return matrix(rng, batch, dtype, 3, 5)


def vector(rng, batch, dtype):
    return matrix(rng, batch, dtype)[..., 0]


def columns(rng, batch, dtype):
    return matrix(rng, batch, dtype, 4, 2)


def same(xp, out):
    return out


def _h(xp, x):
    return xp.conj(xp.swapaxes(x, -1, -2))


def qr_facts(xp, out):
    """R up to the signs of rows, and the product."""
    q, r = out[0], out[1]
    return [xp.abs(r), q @ r, _h(xp, q) @ q]


def eigh_facts(xp, out):
    """Eigenvalues, and a function of the matrix."""
    w, v = out
    return [w, (v * xp.exp(-w)[..., None, :].astype(v.dtype)) @ _h(xp, v)]


def svd_facts(xp, out):
    u, s, vh = out
    k = s.shape[-1]
    u, vh = u[..., :, :k], vh[..., :k, :]
    return [s, u @ vh, (u * xp.exp(-s)[..., None, :].astype(u.dtype)) @ _h(xp, u)]


def eig_facts(xp, out):
    """Symmetric functions of the eigenvalues: their order is not determined."""
    w = out[0] if isinstance(out, tuple) else out
    return [w.sum(-1), (w * w).sum(-1), xp.prod(w, -1)]


def schur_facts(xp, out):
    t, z = out[0], out[1]
    return [z @ t @ _h(xp, z), _h(xp, z) @ z, xp.tril(t, -2)]


@dataclass(frozen=True)
class Call:
    """A function with operands and keywords. `facts` takes what is determined of the results."""

    module: str  # numpy or scipy
    name: str
    operands: tuple[Callable[..., Any], ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    facts: Callable[..., Any] = same
    batched: bool = True
    differentiable: bool = True
    theirs: bool = True  # NumPy or SciPy has it, and takes batches
    note: str = ""

    def __str__(self) -> str:
        return f"{self.module}-{self.name}{'-' + self.note if self.note else ''}"

    def arrays(self, seed: int, batch: tuple[int, ...], dtype: Any) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [make(rng, batch, np.dtype(dtype)) for make in self.operands]


def n(name, *operands, facts=same, note="", **more):
    options = {k: more.pop(k) for k in ("batched", "differentiable", "theirs") if k in more}
    return Call("numpy", name, operands, more, facts, note=note, **options)


def s(name, *operands, facts=same, note="", **more):
    options = {k: more.pop(k) for k in ("batched", "differentiable", "theirs") if k in more}
    return Call("scipy", name, operands, more, facts, note=note, **options)


CALLS = [
    n("cholesky", hermitian),
    n("cholesky", hermitian, upper=True, note="upper"),
    n("qr", general, facts=qr_facts),
    n("qr", tall, facts=qr_facts, note="tall"),
    n("qr", wide, facts=qr_facts, note="wide"),
    n("qr", tall, facts=qr_facts, mode="complete", differentiable=False, note="complete"),
    n("eigh", hermitian, facts=eigh_facts),
    n("eigvalsh", hermitian),
    n("eig", hermitian, facts=eig_facts, differentiable=False),
    n("eigvals", general, facts=eig_facts),
    n("svd", tall, facts=svd_facts, full_matrices=False),
    n("svd", wide, facts=svd_facts, full_matrices=False, note="wide"),
    n("svd", tall, facts=svd_facts, differentiable=False, note="full"),
    n("svd", hermitian, facts=svd_facts, hermitian=True, note="hermitian"),
    n("svdvals", wide),
    n("solve", general, columns),
    n("inv", general),
    n("pinv", tall),
    n("pinv", hermitian, hermitian=True, note="hermitian"),
    n("lstsq", tall, lambda r, b, d: matrix(r, b, d, 5, 2), facts=lambda xp, out: [out[0], out[1], out[3]],
      batched=False, rcond=None),
    n("lstsq", lambda r, b, d: np.linalg.qr(tall(r, b, d))[0], lambda r, b, d: matrix(r, b, d, 5, 2),
      facts=lambda xp, out: out[0], batched=False, rcond=None, note="equal"),  # equal singular values
    n("det", general),
    n("det", lambda r, b, d: matrix(r, b, d, 3, 3), note="small"),
    n("slogdet", general, facts=lambda xp, out: [out[1], xp.abs(out[0])]),
    n("slogdet", general, facts=lambda xp, out: [out[1], xp.abs(out[0])], method="qr", theirs=False, note="qr"),
    n("matrix_rank", tall, differentiable=False),
    n("cond", general),
    *[n("cond", general, p=p, note=str(p), differentiable=p == 1) for p in (-2, 1, np.inf, "fro")],
    *[n("norm", tall, ord=p, axis=(-2, -1), note=str(p)) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[n("matrix_power", general, n=p, note=str(p)) for p in (-2, 0, 3)],
    n("multi_dot", lambda r, b, d: [matrix(r, (), d), matrix(r, (), d, 4, 2), matrix(r, (), d, 2, 3)], batched=False),
    n("tensorsolve", lambda r, b, d: matrix(r, b, d, 4, 4).reshape(2, 2, 4), lambda r, b, d: matrix(r, b, d, 2, 2),
      batched=False),
    n("tensorinv", lambda r, b, d: matrix(r, b, d, 4, 4).reshape(2, 2, 4), batched=False),
    s("cholesky", hermitian, lower=True),
    s("lu", general, facts=lambda xp, out: [out[1], out[2], out[0] @ out[1] @ out[2]]),
    s("lu", tall, permute_l=True, note="tall"),
    s("lu", wide, permute_l=True, note="wide"),
    s("lu_factor", general, facts=lambda xp, out: [out[0]]),
    s("lu_factor", tall, facts=lambda xp, out: list(out), note="tall"),
    s("svd", tall, facts=svd_facts, full_matrices=False),
    s("eigh", hermitian, facts=eigh_facts),
    s("eigh", hermitian, hermitian, facts=lambda xp, out: [out[0], xp.abs(out[1])], note="generalized"),
    s("qr", tall, facts=qr_facts, mode="economic"),
    s("qr", wide, facts=lambda xp, out: [xp.abs(out[1])], mode="economic", pivoting=True, note="pivoting"),
    s("schur", general, facts=schur_facts, differentiable=False),
    s("schur", general, facts=schur_facts, differentiable=False, output="complex", note="complex"),
    s("hessenberg", general, facts=lambda xp, out: [xp.abs(out)], differentiable=False),
    s("solve", general, columns),
    s("solve", hermitian, columns, assume_a="pos", note="pos"),
    s("solve", hermitian, columns, assume_a="her", lower=True, note="her"),
    s("solve_triangular", general, columns, lower=True),
    s("solve_triangular", general, columns, trans="T", note="T"),
    s("solve_triangular", general, columns, trans="C", unit_diagonal=True, note="C"),
    s("solve_sylvester", general, general, matrix),
    s("solve_sylvester", general, general, matrix, method="eigen", theirs=False, note="eigen"),
    s("det", general),
    s("inv", general),
    s("expm", general),
    s("expm", lambda r, b, d: 9 * matrix(r, b, d), note="large"),
    s("expm_frechet", general, matrix, batched=False, differentiable=False,
      facts=lambda xp, out: list(out)),
    s("sqrtm", hermitian, batched=False),
    s("polar", tall),
    s("polar", general, method="svd", theirs=False, note="svd"),
    s("polar", wide, side="left", note="left", differentiable=False),
    s("eigh_tridiagonal", lambda r, b, d: vector(r, (), d).real, lambda r, b, d: vector(r, (), d).real[1:],
      eigvals_only=True, batched=False),
    s("toeplitz", vector),
    s("toeplitz", vector, lambda r, b, d: vector(r, b, d)[..., 1:], note="row"),
    s("hankel", vector, lambda r, b, d: vector(r, b, d)[..., 1:]),
    s("circulant", vector),
    s("companion", vector),
    s("fiedler", lambda r, b, d: vector(r, b, d).real),
    s("fiedler_companion", vector),
    s("leslie", vector, lambda r, b, d: vector(r, b, d)[..., 1:]),
    s("convolution_matrix", vector, n=5),
    *[s("convolution_matrix", vector, n=k, mode=m, note=f"{m}{k}") for m in ("same", "valid") for k in (3, 6)],
    s("block_diag", tall, wide, batched=False),
]  # fmt: skip
