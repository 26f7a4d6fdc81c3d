"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import ArrayLike
from ...ir.primitive import Primitive
from ...ir.program import Eqn
from ...ir.types import ArrayType
from ...support.errors import ArgumentError, plural
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands
from ...transforms.structural_primitives import spread
from ..elementwise.arithmetic import div_p, mul_p, sub_p
from ..elementwise.comparison import select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import slice
from .common import check_dtype, check_square, each, matrixwise, real_of, with_fractions
from .matrices import adjoint, columns_of, from_triangle, hermitian, on_diagonal, product, real_diagonal, rows_of


class EighImplementation(enum.Enum):
    """The algorithm for eigenvalues; the device's library uses its best one, whichever is requested."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


@cached(1024)
def _typing(x: ArrayType, *, lower: bool, compute_vectors: bool) -> list[ArrayType]:
    check_dtype("eigh", x)
    batch, n = check_square("eigh", x)
    values = ArrayType((*batch, n), real_of(x.dtype))
    return [x.strong(), values] if compute_vectors else [values]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool, compute_vectors: bool) -> Any:
    """dw = diag(V^H dA V), dV = V (F * (V^H dA V)) with F_ij = 1 / (w_j - w_i), 0 on the diagonal.

    M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
    section 3.1. The eigenvalues' derivative stays finite where they repeat; that of the vectors does not exist there.
    """
    vectors, values = eigh_p.bind(*primals, lower=lower, compute_vectors=True)
    inner = product(adjoint(vectors), from_triangle(tangents[0], lower), vectors)
    values_change = real_diagonal(inner)
    if not compute_vectors:
        return [values], [values_change]
    n = shape_of(values)[-1]
    gaps = sub_p.bind(rows_of(values, n), columns_of(values, n))
    on = on_diagonal(shape_of(inner))
    one = spread(np.ones((), typeof(gaps).dtype)[()], shape_of(gaps))
    zero = spread(np.zeros((), typeof(gaps).dtype)[()], shape_of(gaps))
    factors = select_n_p.bind(on, div_p.bind(one, select_n_p.bind(on, gaps, one)), zero)
    change = product(vectors, mul_p.bind(convert_element_type(factors, typeof(inner).dtype), inner))
    return [vectors, values], [change, values_change]


def _numpy(x: np.ndarray, *, lower: bool, compute_vectors: bool) -> Any:
    if not compute_vectors:
        return [np.linalg.eigvalsh(x, "L" if lower else "U")]
    values, vectors = np.linalg.eigh(x, "L" if lower else "U")
    return vectors, values


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn:
    """Vectors that nobody uses are not computed."""
    if used[0]:
        return eqn
    return eqn.replace(outputs=eqn.outputs[-1:], params={**eqn.params, "compute_vectors": False})


eigh_p: Primitive = Primitive(
    "eigh", weak_as_operands(_typing), jvp=_jvp, numpy=each(_typing, _numpy, [2]), multiple=True,
    dce=_dce, relation=matrixwise(2),
)  # fmt: skip


def eigh(
    x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None, implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Eigenvectors (..., n, n) and real eigenvalues (..., n), ascending, of Hermitian matrices: `(v, w)`.

    Integers and booleans become floats. Without `symmetrize_input` one triangle is read. `subset_by_index` is the range
    of eigenvalues to give. NaN where LAPACK does not converge.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: a dtype that is not float32, float64, complex64 or complex128.

    >>> import numpy as np
    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]], np.float32))[1]
    Array([1., 2.], dtype=float32)
    """
    x = with_fractions(x)
    batch, n = check_square("eigh", typeof(x))  # type: ignore[arg-type]
    check_dtype("eigh", typeof(x))  # type: ignore[arg-type]
    x = hermitian(x) if symmetrize_input else x
    vectors, values = eigh_p.bind(x, lower=bool(lower), compute_vectors=True)
    if subset_by_index is not None:
        start, end = checked_subset("eigh", subset_by_index, n)
        vectors = slice(vectors, [0] * len(batch) + [0, start], [*batch, n, end])
        values = slice(values, [0] * len(batch) + [start], [*batch, end])
    return vectors, values


def checked_subset(name: str, subset: Sequence[int], count: int) -> tuple[int, int]:
    """A range of indices, checked."""
    start, end = subset
    if not 0 <= start < end <= count:
        raise ArgumentError(f"{name}: subset_by_index {subset} of {plural(count, 'value')}",
                            "0 <= start < end <= count")  # fmt: skip
    return int(start), int(end)


def eigvalsh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, ascending; no vectors are computed unless they are differentiated.

    >>> import numpy as np
    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]], np.float32))
    Array([1., 2.], dtype=float32)
    """
    check_square("eigh", typeof(x))  # type: ignore[arg-type]
    check_dtype("eigh", typeof(x))  # type: ignore[arg-type]
    x = hermitian(x) if symmetrize_input else x
    return eigh_p.bind(x, lower=bool(lower), compute_vectors=False)[0]


PRIMITIVES = (eigh_p,)
