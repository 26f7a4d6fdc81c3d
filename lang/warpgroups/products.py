"""Products of matrices by the tensor cores of Hopper and Blackwell, and the tensor memory of the latter.

    wgmma(acc, a, *at, b, *at; a, b, turned)            acc += a @ b, asynchronously; a may be an array
    wait_products(; n)                                  at most the last n products of the warpgroup are under way
    tcgen05_mma(acc, *at, a, *at, b, *at, accumulate; acc, a, b, turned, joint)
    tcgen05_commit(bar, *at; bar, joint)                an arrival once all products before it are made
    load_tmem(ref, *at; ref) -> value, store_tmem(ref, value, *at; ref), wait_loads(), commit_tmem()

`turned` says of a and b whether they are given with their axes exchanged. `joint` products are of a pair of blocks, of
which each has its rows of `acc` and `a`, and one half of the columns of `b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.program import Eqn
from ...core.ir.types import BOOL, FLOAT32, ArrayType, MemorySpace, RefType
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.reduction.reduce import reduce_max_p, reduce_min_p
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.state_primitives import access_shape
from ...core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    KernelBodyError,
    ShapeError,
    UnsupportedError,
)
from ...core.tracing.trace import shape_of, typeof
from ..ops.dma import BOTH, operands_of, operation
from ..ops.interpret_params import running
from .barriers import spec_of
from .common import acting, at_barrier, check_index, check_space, ordered_on, split, thread_cell
from .transfers import count_of, said

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive
    from ...core.primitives.refs.ref_views import AnyRef


# Elements that one instruction sums over, by dtype of the operands.
DEPTHS = {"float16": 16, "bfloat16": 16, "float32": 8, "float8_e4m3fn": 32, "float8_e5m2": 32}
COLUMNS = 512  # of 32 bits, in tensor memory


def transpose_ref(ref: AnyRef, permutation: tuple[int, ...]) -> Any:
    """A Ref of two axes with its axes exchanged, an operand of `wgmma` or `tcgen05_mma`: `ref.transpose((1, 0))`.

    Raises a `ShapeError` for other axes.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b):
    ...     a[...], b[...] = tnp.ones((64, 16), "float16"), tnp.ones((8, 16), "float16")
    ...     plgpu.commit_smem()
    ...     def sums(acc):
    ...         plgpu.wgmma(acc, a, plgpu.transpose_ref(b, (1, 0)))
    ...         plgpu.wgmma_wait(0)
    ...         o[...] = acc[...]
    ...     tl.run_scoped(sums, plgpu.ACC((64, 8)))
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((64, 8), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((64, 16), "float16"), plgpu.SMEM((8, 16), "float16")])
    >>> float(call()[0, 0])
    16.0
    """
    return ref.transpose(permutation)


def _operand(x: Any) -> tuple[Any, bool]:
    return (x.target, True) if isinstance(x, refs.Turned) else (x, False)


def _sizes(index: Any, turned: bool) -> tuple[int, ...]:
    shape = access_shape(index)
    return shape[::-1] if turned else shape


def _check_product(what: str, acc: ArrayType, a: ArrayType, b: ArrayType, rows: tuple[int, ...], most: int) -> None:
    shapes = f"{what} of {a.show()} and {b.show()} to {acc.show()}"
    if len(a.shape) != 2 or len(b.shape) != 2 or len(acc.shape) != 2 or a.shape[1] != b.shape[0] or (
            acc.shape != (a.shape[0], b.shape[1])):  # fmt: skip
        raise ShapeError(shapes, "give matrices (m, k) and (k, n) for an accumulator of (m, n)")
    if a.dtype != b.dtype or str(a.dtype) not in DEPTHS:
        raise DtypeError(f"{shapes}: the operands' dtypes", f"give both in one of {', '.join(DEPTHS)}")
    if acc.dtype != FLOAT32 and not (str(acc.dtype) == "float16" == str(a.dtype)):
        raise DtypeError(f"{shapes}: the accumulator's dtype", "sum in float32 (of float16, float16 too)")
    (m, n), k, depth = acc.shape, a.shape[1], DEPTHS[str(a.dtype)]
    if (m not in rows if rows else m % 64) or n % 8 or not 8 <= n <= most or k % depth:
        wanted = " or ".join(map(str, rows)) or "a multiple of 64"
        raise ShapeError(f"{shapes}: the sizes",
                         f"m is {wanted}, n a multiple of 8 up to {most}, k a multiple of {depth}")  # fmt: skip


# ---------------------------------------------------------------------------- Hopper


def wgmma_parts(operands: Sequence[Any], a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The accumulator, a and b; each part a Ref with the operands of its index, `a` perhaps an array."""
    acc, rest = operands[0], operands[1:]
    if a is None:
        (right,), _ = split(rest[1:], b)
        return acc, rest[0], right
    (left, right), _ = split(rest, a, b)
    return acc, left, right


def _wgmma_typing(*types: Any, a: Any, b: Any, turned: tuple[bool, bool]) -> list[Any]:
    acc, left, right = wgmma_parts(types, a, b)
    check_space("wgmma", "acc", acc, MemorySpace.REGS)
    sums = acc.array if isinstance(acc, RefType) else acc
    if a is not None:
        check_space("wgmma", "a", left[0], MemorySpace.SMEM)
        check_index("wgmma", "a", a)
    check_space("wgmma", "b", right[0], MemorySpace.SMEM)
    check_index("wgmma", "b", b)
    one = left if a is None else ArrayType(_sizes(a, turned[0]), left[0].dtype)
    _check_product("wgmma", sums, one, ArrayType(_sizes(b, turned[1]), right[0].dtype), (), 256)
    return []


def _wgmma_effects(*types: Any, a: Any, b: Any, turned: Sequence[Any]) -> Any:
    kinds = {"acc": BOTH, "a": () if a is None else ("read",), "b": ("read",)}
    return ordered_on(**kinds)(a=a, b=b)


def _wgmma_numpy(*operands: Any, a: Any, b: Any, turned: tuple[bool, bool]) -> list[Any]:
    acc, left, right = wgmma_parts(operands, a, b)
    run: Any = running()
    run.multiply(acc, left if a is None else (*left, a), (*right, b), turned)
    return []


wgmma_p: Primitive = operation("wgmma", _wgmma_typing, _wgmma_effects, _wgmma_numpy)
wait_products_p: Any
wait_loads_p: Any
commit_tmem_p: Any
wait_products_p, wait_loads_p, commit_tmem_p = map(said, ("wait_products", "wait_loads", "commit_tmem"))


def wgmma(acc: AnyRef, a: AnyRef, b: Any) -> None:
    """Start `acc += a @ b` by the tensor cores of Hopper: of matrices in shared memory, `a` also an array.

    `acc` is the accumulator that `run_scoped` made of `ACC((m, n))`: m is a multiple of 64, n of 8 up to 256. `b`, and
    `a` in memory, may be given by `transpose_ref`. Both buffers must not change until `wgmma_wait` confirms the
    end. Raises a `KernelBodyError`, `ShapeError` or `DtypeError` for what the tensor cores do not take.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b):
    ...     a[...], b[...] = tnp.ones((64, 16), "float16"), tnp.ones((16, 8), "float16")
    ...     plgpu.commit_smem()
    ...     def sums(acc):
    ...         plgpu.wgmma(acc, a, b)
    ...         plgpu.wgmma_wait(0)
    ...         o[...] = acc[...]
    ...     tl.run_scoped(sums, plgpu.ACC((64, 8)))
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((64, 8), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((64, 16), "float16"), plgpu.SMEM((16, 8), "float16")])
    >>> float(call()[0, 0])
    16.0
    """
    thread_cell("wgmma")
    (left, left_turned), (right, right_turned) = _operand(a), _operand(b)
    given, indices = operands_of(b=right)
    first: list[Any] = [left]
    indices["a"] = None  # type: ignore[assignment]
    if isinstance(left, refs.RefView) or isinstance(getattr(left, "aval", None), RefType):
        first, index = operands_of(a=left)
        indices |= index
    target = refs.view(acc)
    if not target.index()[0].is_whole(target.ref.aval.shape):
        raise KernelBodyError("wgmma: a part of an accumulator", "give the whole of it")
    wgmma_p.bind(target.ref, *first, *given, a=indices["a"], b=indices["b"], turned=(left_turned, right_turned))


def wgmma_wait(n: int) -> None:
    """Wait until at most the last `n` products of this warpgroup are under way.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b):
    ...     a[...], b[...] = tnp.ones((64, 16), "float16"), tnp.ones((16, 8), "float16")
    ...     plgpu.commit_smem()
    ...     def sums(acc):
    ...         plgpu.wgmma(acc, a, b)
    ...         plgpu.wgmma(acc, a, b)
    ...         plgpu.wgmma_wait(1)  # the first one is complete
    ...         plgpu.wgmma_wait(0)
    ...         o[...] = acc[...]
    ...     tl.run_scoped(sums, plgpu.ACC((64, 8)))
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((64, 8), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((64, 16), "float16"), plgpu.SMEM((16, 8), "float16")])
    >>> float(call()[0, 0])
    32.0
    """
    thread_cell("wgmma_wait")
    wait_products_p.bind(n=count_of("wgmma_wait", n))


def wgmma_accumulator_load(acc: AnyRef, *, wait_n: int | None = 0) -> Any:
    """What an accumulator holds, once at most `wait_n` products are under way: `acc[...]` waits for all.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b):
    ...     a[...], b[...] = tnp.ones((64, 16), "float16"), tnp.ones((16, 8), "float16")
    ...     plgpu.commit_smem()
    ...     def sums(acc):
    ...         plgpu.wgmma(acc, a, b)
    ...         o[...] = plgpu.wgmma_accumulator_load(acc)
    ...     tl.run_scoped(sums, plgpu.ACC((64, 8)))
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((64, 8), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((64, 16), "float16"), plgpu.SMEM((16, 8), "float16")])
    >>> float(call()[0, 0])
    16.0
    """
    if wait_n:
        wgmma_wait(wait_n)
    return refs.read(refs.view(acc))


# ---------------------------------------------------------------------------- Blackwell


def _mma_typing(*types: Any, acc: Any, a: Any, b: Any, turned: tuple[bool, bool], joint: bool) -> list[Any]:
    ((sums, _), (left, _), (right, _)), rest = split(types, acc, a, b)
    check_space("tcgen05_mma", "the accumulator", sums, MemorySpace.TMEM)
    check_space("tcgen05_mma", "a", left, MemorySpace.SMEM, MemorySpace.TMEM)
    if isinstance(left, RefType) and left.space is MemorySpace.TMEM:
        _check_inside(left.array, turned[0], joint)
    check_space("tcgen05_mma", "b", right, MemorySpace.SMEM)
    for name, index in (("the accumulator", acc), ("a", a), ("b", b)):
        check_index("tcgen05_mma", name, index)
    one, other = (ArrayType(_sizes(i, t), r.dtype) for i, t, r in ((a, turned[0], left), (b, turned[1], right)))
    if joint and len(other.shape) == 2:
        other = ArrayType((other.shape[0], 2 * other.shape[1]), other.dtype)
    rows, most = ((128,), 256) if joint else ((64, 128), 512)
    _check_product("tcgen05_mma", ArrayType(access_shape(acc), sums.dtype), one, other, rows, most)
    return []


def _check_inside(a: ArrayType, turned: bool, joint: bool) -> None:
    """Raise for a left operand that tensor memory does not hold as products read it."""
    if turned or a.dtype.itemsize != 2:
        raise KernelBodyError(f"tcgen05_mma: a is {a.show()} in TMEM{', transposed' if turned else ''}",
                              "products read rows of 16-bit floats there: convert, or put it into SMEM")  # fmt: skip
    if joint:
        raise KernelBodyError("tcgen05_mma: a is in TMEM, and the product is of two blocks",
                              "put it into SMEM, or let each block start its own product")  # fmt: skip


def _load_typing(*types: Any, ref: Any) -> Any:
    check_space("async_load_tmem", "the source", types[0], MemorySpace.TMEM)
    check_index("async_load_tmem", "the source", ref)
    return ArrayType(access_shape(ref), types[0].dtype)


def _store_typing(*types: Any, ref: Any) -> list[Any]:
    check_space("async_store_tmem", "the destination", types[0], MemorySpace.TMEM)
    check_index("async_store_tmem", "the destination", ref)
    wanted = ArrayType(access_shape(ref), types[0].dtype)
    if types[-1].shape != wanted.shape or types[-1].dtype != wanted.dtype:
        raise ShapeError(f"async_store_tmem of {types[-1].show()} to {wanted.show()}", "give one shape and dtype")
    return []


tcgen05_mma_p: Primitive = operation(
    "tcgen05_mma", _mma_typing, ordered_on(acc=BOTH, a=("read",), b=("read",)),
    acting("multiply_there", "acc", "a", "b"),
)  # fmt: skip
tcgen05_commit_p: Primitive = operation(
    "tcgen05_commit", at_barrier("tcgen05_commit_arrive"), ordered_on(bar=BOTH), acting("arrive_after_products", "bar")
)
load_tmem_p: Primitive = operation(
    "load_tmem", _load_typing, ordered_on(ref=("read",)), acting("load_there", "ref"), multiple=False
)
store_tmem_p: Primitive
store_tmem_p = operation("store_tmem", _store_typing, ordered_on(ref=("write",)), acting("store_there", "ref"))
PRIMITIVES = (
    wgmma_p, wait_products_p, tcgen05_mma_p, tcgen05_commit_p, load_tmem_p, store_tmem_p, wait_loads_p, commit_tmem_p,
)  # fmt: skip


PRODUCTS = (wgmma_p, tcgen05_mma_p)


def product_flops(eqn: Eqn) -> int:
    """The operations of one of `PRODUCTS`."""
    p = eqn.params
    m, n = access_shape(p["acc"]) if "acc" in p else eqn.inputs[0].type.shape
    return 2 * m * n * _sizes(p["b"], p["turned"][1])[0] * (1 + p.get("joint", False))


def tcgen05_mma(
    acc: AnyRef, a: AnyRef, b: AnyRef, barrier: AnyRef | None = None, *,
    a_scale: Any = None, b_scale: Any = None, a_sparse_metadata: Any = None, accumulate: ArrayLike = True,
    collective_axis: Any = None,
) -> None:  # fmt: skip
    """Start `acc += a @ b` by the tensor cores of Blackwell, or `acc = a @ b` where `accumulate` is false.

    `acc` is in TMEM, `a` and `b` in SMEM; 64 or 128 rows, a multiple of 8 columns up to 512. `a` of 16-bit floats may
    be in TMEM, stored by `async_store_tmem`. A `barrier` gets one arrival once this product and earlier ones are
    complete; else `tcgen05_commit_arrive` signals completion. Along `collective_axis`, the last axis of the cluster,
    of 2 blocks, the first block starts a product of both: each has 128 rows of `acc` and `a`, and `b` has one half of
    the columns of `acc`. Raises as `wgmma`, an `ArgumentError` for another axis, and an `UnsupportedError`
    for products with scales and of sparse operands.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b, acc, made):
    ...     a[...], b[...] = tnp.ones((128, 16), "float16"), tnp.ones((16, 8), "float16")
    ...     plgpu.commit_smem()
    ...     plgpu.tcgen05_mma(acc, a, b, made, accumulate=False)
    ...     plgpu.barrier_wait(made)
    ...     o[...] = plgpu.async_load_tmem(acc)
    ...     plgpu.wait_load_tmem()
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((128, 8), "float32"), interpret=True, scratch_types=[
    ...     plgpu.SMEM((128, 16), "float16"), plgpu.SMEM((16, 8), "float16"), plgpu.TMEM((128, 8), "float32"),
    ...     plgpu.Barrier(orders_tensor_core=True)])
    >>> float(call()[0, 0])
    16.0
    """
    joint = _joint("tcgen05_mma", collective_axis)
    for name, given in {"a_scale": a_scale, "b_scale": b_scale, "a_sparse_metadata": a_sparse_metadata}.items():
        if given is not None:
            raise UnsupportedError(f"tcgen05_mma with {name}", "a product here is of two dense matrices as they are")
    (left, left_turned), (right, right_turned) = _operand(a), _operand(b)
    operands, indices = operands_of(acc=acc, a=left, b=right)
    more = np.bool_(accumulate) if isinstance(accumulate, (bool, np.bool_)) else accumulate
    if shape_of(more) or typeof(more).dtype != BOOL:
        raise ArgumentTypeError(f"tcgen05_mma: accumulate is {typeof(more).show()}", "give a boolean scalar")
    tcgen05_mma_p.bind(*operands, more, **indices, turned=(left_turned, right_turned), joint=joint)
    if barrier is not None:
        tcgen05_commit_arrive(barrier, collective_axis)


def _joint(what: str, axis: str | None) -> bool:
    """Whether something is done for the pair of blocks along an axis of the cluster."""
    mesh = thread_cell(what).made["mesh"].mesh
    if axis is None:
        return False
    axes = mesh.cluster_axes(what, axis)
    if mesh.offsets(axes) != [0, 1]:
        raise ArgumentError(f"{what}: collective_axis {axis!r} of the cluster {mesh.cluster}, {mesh.cluster_names}",
                            "give the last axis of the cluster, of 2 blocks")  # fmt: skip
    return True


def tcgen05_commit_arrive(barrier: AnyRef, collective_axis: Any = None) -> None:
    """An arrival at a barrier once all products that this warpgroup has started by `tcgen05_mma` are made.

    Along `collective_axis` it is one at the barriers of both blocks. Raises a `KernelBodyError` for a barrier without
    `orders_tensor_core=True`.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def product(o, a, b, acc, made):
    ...     a[...], b[...] = tnp.ones((128, 16), "float16"), tnp.ones((16, 8), "float16")
    ...     plgpu.commit_smem()
    ...     plgpu.tcgen05_mma(acc, a, b, accumulate=False)
    ...     plgpu.tcgen05_mma(acc, a, b)
    ...     plgpu.tcgen05_commit_arrive(made)
    ...     plgpu.barrier_wait(made)
    ...     o[...] = plgpu.async_load_tmem(acc)
    ...     plgpu.wait_load_tmem()
    >>> call = plgpu.kernel(product, out_type=tw.ShapeDtypeStruct((128, 8), "float32"), interpret=True, scratch_types=[
    ...     plgpu.SMEM((128, 16), "float16"), plgpu.SMEM((16, 8), "float16"), plgpu.TMEM((128, 8), "float32"),
    ...     plgpu.Barrier(orders_tensor_core=True)])
    >>> float(call()[0, 0])
    32.0
    """
    joint = _joint("tcgen05_commit_arrive", collective_axis)
    spec = spec_of(barrier)
    if spec is not None and not spec.orders_tensor_core:
        raise KernelBodyError("tcgen05_commit_arrive at a barrier that does not order the tensor cores",
                              "state it as `Barrier(orders_tensor_core=True)`")  # fmt: skip
    operands, indices = operands_of(bar=barrier)
    tcgen05_commit_p.bind(*operands, **indices, joint=joint)


def async_load_tmem(src: AnyRef, *, layout: Any = None, reduce: str | None = None) -> Any:
    """What a part of TMEM holds; before anything writes there again, `wait_load_tmem`.

    `layout` is a hint. `reduce` ("max", "min", "absmax", "absmin") gives the extremum of each row as well.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o, held):
    ...     plgpu.async_store_tmem(held, tnp.eye(128, 32))
    ...     plgpu.commit_tmem()
    ...     _, largest = plgpu.async_load_tmem(held, reduce="max")
    ...     o[...] = largest
    ...     plgpu.wait_load_tmem()
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((128,), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.TMEM((128, 32), "float32")])
    >>> call()[30:34].tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    thread_cell("async_load_tmem")
    operands, indices = operands_of(ref=src)
    found = load_tmem_p.bind(*operands, **indices)
    if reduce is None:
        return found
    if reduce not in ("max", "min", "absmax", "absmin"):
        raise ArgumentError(f"async_load_tmem: reduce is {reduce!r}", 'give "max", "min", "absmax" or "absmin"')
    rows = abs(found) if reduce.startswith("abs") else found
    return found, (reduce_max_p if reduce.endswith("max") else reduce_min_p).bind(rows, axes=(rows.ndim - 1,))


def wait_load_tmem() -> None:
    """Wait until this warpgroup's loads from TMEM are done, so that what they read may be written.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o, held):
    ...     plgpu.async_store_tmem(held, tnp.ones((128, 32), "float32"))
    ...     plgpu.commit_tmem()
    ...     first = plgpu.async_load_tmem(held)
    ...     plgpu.wait_load_tmem()
    ...     plgpu.async_store_tmem(held, first * 3)
    ...     plgpu.commit_tmem()
    ...     o[...] = plgpu.async_load_tmem(held)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((128, 32), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.TMEM((128, 32), "float32")])
    >>> float(call()[0, 0])
    3.0
    """
    thread_cell("wait_load_tmem")
    wait_loads_p.bind()


def async_store_tmem(ref: AnyRef, value: ArrayLike) -> None:
    """Store an array in a part of TMEM; it is seen after `commit_tmem`.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o, held):
    ...     plgpu.async_store_tmem(held, tnp.ones((128, 32), "float32"))
    ...     plgpu.commit_tmem()
    ...     o[...] = plgpu.async_load_tmem(held)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((128, 32), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.TMEM((128, 32), "float32")])
    >>> float(call()[0, 0])
    1.0
    """
    thread_cell("async_store_tmem")
    operands, indices = operands_of(ref=ref)
    dtype = refs.view(ref).dtype
    value = convert_element_type(value, dtype) if typeof(value).weak_type else value
    store_tmem_p.bind(*operands, value, **indices)


def commit_tmem() -> None:
    """Make what this warpgroup stored in TMEM known to loads and products that start after this.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o, held):
    ...     plgpu.async_store_tmem(held, tnp.ones((128, 32), "float32"))
    ...     plgpu.commit_tmem()  # without it the load raises a `RaceError`
    ...     o[...] = plgpu.async_load_tmem(held)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((128, 32), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.TMEM((128, 32), "float32")])
    >>> float(call()[0, 0])
    1.0
    """
    thread_cell("commit_tmem")
    commit_tmem_p.bind()


__all__ = [
    "async_load_tmem", "async_store_tmem", "commit_tmem", "tcgen05_commit_arrive", "tcgen05_mma", "transpose_ref",
    "wait_load_tmem", "wgmma", "wgmma_accumulator_load", "wgmma_wait",
]  # fmt: skip
